// SPDX-License-Identifier: Apache-2.0

// Package store is the contract between Firn and an object store.
//
// It names seven operations over whole keys, the kinds of error that they end
// in, what a store may be able to do beyond the minimum, a decorator that
// retries, and a probe that finds out by trial what a store can do. The stores
// themselves are in the packages below it:
//
//	              tier (prefixes, manifests, segments)
//	                │  Store
//	        ┌───────▼────────┐
//	        │ store.WithRetry│  backoff, deadline per attempt, ambiguity
//	        └───────┬────────┘
//	     ┌──────────┼────────────┬──────────────┐
//	dirstore     s3store     miniostore     faultstore (tests) ── any store
//	a directory  aws-sdk-go  minio-go
//
// It does not know what the objects mean, adds no prefix to a key, caches
// nothing, and never retries outside WithRetry: a store below it makes each
// request once, so that the number of attempts is decided in one place.
//
// Invariants, which storetest checks on every store:
//
//	I1  An object is seen whole or not at all. A Put that returned an error
//	    left either nothing, or (when the error is ambiguous) the whole object.
//	I2  After Put returned nil the object is durable and every later GetRange,
//	    Head and List of any client sees it.
//	I3  Of any number of concurrent Puts of one key under IfNoneMatch at most
//	    one returns nil, on a store whose Capabilities say ConditionalPut.
//	I4  GetRange that returns nil filled the whole of p with the object's bytes
//	    at that offset. There is no short success.
//	I5  List answers in the order of the keys' bytes, without gaps or doubles.
//	I6  Every error is an *Error, and carries the context's error when the
//	    context ended.
//	I7  A key that CheckKey refuses never reaches a store.
//
// Goroutines: none. A Store may be used by any number at once.
package store
