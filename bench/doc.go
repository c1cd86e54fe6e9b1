// SPDX-License-Identifier: Apache-2.0

// Package bench makes load on a broker and measures what it does to it: the
// workloads behind firn bench and firn demo.
//
// A workload runs in one of two modes. The full client (franz-go) shows what a
// user gets, and costs as much CPU as the broker or more. Raw frames, encoded
// beforehand and pipelined over plain sockets, show what the broker can do:
//
//	raw     frame ─▶ socket ─▶ broker ─▶ socket ─▶ headers of batches looked at
//	client  record ─▶ batch ─▶ socket ─▶ broker ─▶ socket ─▶ batch ─▶ record
//
// With a rate, a workload is an open loop: every record has a time at which it
// is due, whatever happened to those before it, and its latency counts from
// then. Without one it is a closed loop that sends as fast as answers allow,
// and latency counts from the send.
//
// The package also has what a demonstration needs besides: values that a
// replay can check record by record, a server that replays as a broker without
// tiers does (Control), the use of CPU and memory by process, memory cgroups
// and the picture of a run.
//
// It starts no process, prints nothing and knows no command line.
//
// Invariants:
//
//	I1  A latency of an open loop counts from the due time, so that a broker
//	    that stalls cannot hide it by slowing its clients.
//	I2  A workload that lost, doubled or changed a record fails; it never
//	    reports figures beside that.
//	I3  Every workload ends soon after its context, with all its goroutines.
//
// Goroutines: each function that runs a workload owns the goroutines it starts
// and has waited for them when it returns; Control owns one for each
// connection, ended by Close.
package bench
