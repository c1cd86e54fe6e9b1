// SPDX-License-Identifier: Apache-2.0

// Package miniostore is an object store over minio-go: MinIO and stores of its
// kind.
//
//	store.Store ── s3kit.Store ── driver ──┬── minio.Core, uploads and the rest ── 16 connections
//	                                       └── minio.Core, ranged GETs          ── 64 connections
//
// It turns single requests into calls of minio-go's core. It does not decide
// anything about them (internal/s3kit does, which s3store shares), and does not
// retry: minio-go's own retries are off.
//
// Credentials come from the AWS_* environment, MinIO's own variables, the
// shared credentials file of AWS, and roles (web identity and containers where
// their variables are set; on Amazon's endpoints the instance metadata too).
// Without any, requests are not signed.
//
// Invariants:
//
//	I1  One call of the driver is one request.
//	I2  Ranged GETs share no connection with anything else.
//	I3  No request carries a checksum that s3kit did not ask for, a trailer, or
//	    a body signed in chunks.
//	I4  A bulk delete carries Content-MD5, which many stores want.
//	I5  Opening a store asks nothing of the network.
//
// Goroutines: those of net/http, until Close.
package miniostore
