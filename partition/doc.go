// SPDX-License-Identifier: Apache-2.0

// Package partition is one topic partition: its local log, its cold tier, its
// high watermark and its leader epoch, and the decision of what may be
// deleted.
//
//	Append ──▶ hot.Log ──seal──▶ tier.Log (archiver) ──▶ object store
//	             │ durable offset        │ end of the durable chain
//	             ▼                       ▼
//	        high watermark          retention: what may go, and from where
//
// It does not know the wire protocol, it runs no reads of its own accord and
// it never touches a file or an object except through hot and tier. Routing a
// read to one of its tiers is the work of fetch.
//
// Invariants:
//
//	I1  The high watermark never passes a batch of acks=all that is not
//	    synced, and never falls, except in ResetTo.
//	I2  A local segment below the local start was either named by a durable
//	    manifest, or expired as a whole, or lies below the log start.
//	I3  While the manifest of a tiered partition has not been read, nothing is
//	    deleted in either tier.
//	I4  The log start is durable before anything below it is removed.
//	I5  The last stable offset is at most the high watermark, and not above the
//	    first record of a transaction whose marker lies at or above that, unless
//	    the log start is.
//
// Goroutines: none. Callbacks of hot and tier come on their goroutines;
// retention runs on the caller's.
package partition
