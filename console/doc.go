// SPDX-License-Identifier: Apache-2.0

// Package console is the admin port: health, readiness, metrics, profiles and
// a small read-only JSON interface that the command line uses.
//
//	GET /healthz       200 while the process serves at all
//	GET /readyz        200 when requests are taken, else 503 and the reason
//	GET /metrics       the registry that was passed in, for Prometheus
//	GET /debug/pprof/  profiles of the Go runtime
//	GET /v1/status     Status
//	GET /v1/segments   ?topic=NAME[&partition=N]: an array of Segment
//	GET /v1/explain    ?topic=NAME&partition=N and offset=N or time=MS: an
//	                   Explanation
//
// An error of /v1 is an Error object with a matching HTTP status.
//
// The package knows nothing of logs or stores: it asks a Source, which the
// caller wires to the broker, and it changes nothing. There is no
// authentication, so settings keep it on loopback unless told otherwise.
//
// Invariants:
//
//	I1  Every request is bounded: its header, its body, the time to read it
//	    and the time to answer it.
//	I2  An answer of /v1 is complete JSON or an error status, never a part.
//
// Each address has one goroutine that accepts; net/http has one for each
// connection. Close ends all of them and waits.
package console
