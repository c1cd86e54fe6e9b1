// SPDX-License-Identifier: Apache-2.0

// Package s3kit is what the S3 drivers share: everything that Firn decides
// about talking to an S3-compatible store, over the few requests that an SDK
// makes. So both drivers behave alike, down to the sentence of an error.
//
//	store.Store ── s3kit.Store ── Driver ── aws-sdk-go-v2 (s3store)
//	                                    └── minio-go      (miniostore)
//
// It cuts bodies into parts, checks checksums and range answers, classifies
// errors, sends or leaves out what a store can or cannot do, and finds that out
// (Detect). A Driver makes single requests, without retries of its own.
//
// Invariants:
//
//	I1  Each byte of a body is read from its Source once, into a buffer whose
//	    CRC-32C and digest are those of the bytes that are sent.
//	I2  All parts of an upload but the last have the same size.
//	I3  A multipart upload that was begun is completed or aborted, in a bounded
//	    time, whatever happens to the caller's context.
//	I4  At most MaxUploads buffers of a part's size exist at once.
//	I5  Every response body is drained, within a bound, and closed.
//	I6  A range answer counts only if its status, Content-Range and length are
//	    those that were asked for.
//
// Goroutines: up to deleteWorkers during a Delete on a store without bulk
// deletes, which waits for them; those of net/http until Close.
package s3kit
