// SPDX-License-Identifier: Apache-2.0

// Package bulk keeps bulk work off the backs of threads that others wait for.
//
// Its duty is one semaphore for all that a broker does in bulk: answers of
// replays, bytes that come from the object store or go to it, checksums over
// them. A turn is one piece of work of some tens of microseconds that never
// parks (one system call on at most Size bytes, one checksum over as much),
// then a yield of the thread while the turn is still held. It decides neither
// what is bulk nor how fast it may be.
//
//	replay's answer ─┐
//	GET's body ──────┼─► Take ─► one call on <= Size bytes ─► Give: sched_yield, next
//	chunk's CRC ─────┘
//
// Invariants:
//
//	B1  At most n turns are held at once, one less than the processors that Go
//	    may use: a goroutine that somebody waits for always finds one of them.
//	B2  A turn is never held while its goroutine is parked.
//	B3  The thread is yielded to the kernel before the turn is given up, so that
//	    a thread that was just woken runs first. runtime.Gosched would not do:
//	    it keeps the thread.
//
// Measured on 2 cores, beside 4 replays at full speed: without turns the p99 of
// the tail is 23 to 48 times that of an idle broker, with Gosched in place of
// the yield 12 to 20 times, with as many turns as processors 64 times, and with
// this 1.1 times.
//
// It has no goroutines.
package bulk
