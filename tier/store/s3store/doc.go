// SPDX-License-Identifier: Apache-2.0

// Package s3store is an object store over aws-sdk-go-v2: Amazon S3 and whatever
// speaks like it.
//
//	store.Store ── s3kit.Store ── driver ──┬── s3.Client, uploads and the rest ── 16 connections
//	                                       └── s3.Client, ranged GETs          ── 64 connections
//
// It turns single requests into calls of the SDK. It does not decide anything
// about them (internal/s3kit does, which miniostore shares), and does not
// retry: the SDK's own retries are off, whatever AWS_MAX_ATTEMPTS says.
//
// Credentials come from the SDK's default chain: the AWS_* environment, the
// shared configuration files, web identity, containers, and on Amazon's own
// endpoints the instance metadata. With an endpoint of one's own and no
// credentials anywhere, requests are not signed.
//
// Invariants:
//
//	I1  One call of the driver is one request.
//	I2  Ranged GETs share no connection with anything else.
//	I3  No request carries a checksum that s3kit did not ask for, or a trailer.
//	I4  A bulk delete carries Content-MD5, which many stores want.
//	I5  Opening a store asks nothing of the network.
//
// Goroutines: those of net/http, until Close.
package s3store
