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
// Sessions know what each client wants and what it was told, so that requests
// and answers say only what changes (KIP-227).
//
// It does not know the wire protocol and does not decide what is kept. The
// long poll parks on the partitions' notifications: watch, read again, park.
//
// Invariants:
//
//	I1  No read that may block on a disk or a store runs on the goroutine of a
//	    fetch; hot reads never wait for warm or cold ones, nor these two for
//	    one another: each kind has workers and memory of its own.
//	I2  A fetch reserves the memory of its reads of a kind once, before any
//	    I/O. While it waits for memory it holds no pool worker. A first batch
//	    that is larger than was reserved is read once there is room for it;
//	    one over the whole limit when nothing else is held.
//	I3  What was reserved is given back exactly once: when the answer was
//	    sent, when the read is abandoned, or when the connection goes.
//	I4  Batches from the warm path leave only after their CRC was checked;
//	    those from the cold path were checked by tier.
//	I5  A partition whose read failed is answered with its error no sooner
//	    than an empty answer would be: a store that is away makes no client
//	    spin.
//
//	I6  A partition that a session wants and an answer does not name is as the
//	    client was told last, without records and without an error.
//
// Goroutines: the workers of the three pools and the sweeper, which drops
// results that nobody came for; owned by the Fetcher and ended by its Close.
package fetch
