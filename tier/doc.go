// SPDX-License-Identifier: Apache-2.0

// Package tier is the cold tier: it moves closed segments into an object
// store, remembers in a manifest where every offset lies, and reads history
// back.
//
//	               partition
//	     Wake, SetLogStart │ ▲ OnChange        Read, OffsetForTimestamp
//	┌──────────────────────▼─┴──────┐        ┌──────────▼────────────┐
//	│ Log: one partition's chain    │  chain │ Reader: sections,     │
//	│  take over, reconcile         ├───────►│ chunks, read-ahead,   │
//	│  upload, verify, write heads  │        │ caches                │
//	│  drop, delete                 │        └──────────┬────────────┘
//	└──────┬─────────────────┬──────┘                   │ GET
//	       │ Sealed, Local   │ PUT LIST DELETE          │
//	       ▼                 ▼                          ▼
//	   local log         object store (tier/store, with retries)
//
// The parts, from the inside out:
//
//   - keys.go: every key of the bucket. entry.go: what a chain is made of.
//   - manifest.go, change.go, reconcile.go: pure. A Manifest is a value, a
//     change makes another one, the invariants M1 to M6 stand beside it.
//   - codec.go, head.go, page.go, claim.go, storeid.go, topic.go, localcopy.go:
//     the bytes, drawn in docs/format/bucket.md and docs/format/manifest.md.
//   - object.go, footer.go, source.go: the segment object, in two passes.
//   - takeover.go, archive.go, commit.go, delete.go, step.go: what a partition
//     does, as steps that may fail at any point and are repeated. scheduler.go
//     runs them. log.go and tier.go are what others see.
//   - reader.go, loader.go, chunkcache.go, timestamps.go, read.go: the way back.
//
// The package does not decide what may be deleted in either tier (partition
// does, and tells the log start), never touches the local log except through
// Local and Sealed, decompresses nothing, and does not know Kafka's error
// codes.
//
// Invariants, beyond those of the types:
//
//	I1  A segment counts as tiered (Log.End) only after its object was
//	    verified, a head that names it is durable, a LIST after that showed no
//	    other writer, and the local copy is synced.
//	I2  No key is written with two contents.
//	I3  An object is deleted only after its tombstone was in a durable head for
//	    the grace and a LIST showed no higher head or claim.
//	I4  Nothing is uploaded, condemned or deleted before the partition was
//	    reconciled with the bucket in this life.
//	I5  A partition's work is done by one step at a time. What fails is repeated
//	    with backoff for as long as it takes; only a conflict, an unknown
//	    version or a wrong bucket ends it, and says so.
//	I6  record.ErrOffsetOutOfRange comes from a loaded manifest only.
//
// Goroutines: the scheduler's workers, a fixed number for each lane, ended by
// Tier.Close; one for each page load and each GET under way, and those of the
// Reader, ended by Tier.Close as well. A Log owns none. Timers belong to the
// scheduler's tasks and stop with them.
package tier
