// SPDX-License-Identifier: Apache-2.0

// Package fetch serves one read of many partitions, each from the tier that
// holds it, so that none waits for another.
//
//	                    ┌ hot:  local, in the page cache ─▶ Region, sent by the connection
//	Consumer.Fetch ─────┼ warm: local, not in the cache ──▶ warm pool ─▶ memory
//	                    └ cold: below the local start ────▶ cold pool ─▶ memory
//
// Hot data is answered at once. A warm or cold read that is not ready when its
// fetch is answered goes on, and its result waits in the connection's Consumer
// for the next fetch of the same partition at the same offset.
//
// It does not know the wire protocol and does not decide what is kept. The
// long poll parks on the partitions' notifications: watch, read again, park.
//
// Invariants:
//
//	I1  No read that may block on a disk or a store runs on the goroutine of a
//	    fetch; hot reads never wait for warm or cold ones.
//	I2  A fetch reserves the memory of its reads once, before any I/O, and
//	    holds nothing that it has not reserved; while it waits for memory it
//	    holds no pool worker.
//	I3  What was reserved is given back exactly once: when the answer was
//	    sent, when the read is abandoned, or when the connection goes.
//	I4  Batches from the warm path leave only after their CRC was checked;
//	    those from the cold path were checked by tier.
//
// Goroutines: the workers of the two pools, owned by the Fetcher and ended by
// its Close.
package fetch
