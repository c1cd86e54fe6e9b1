// SPDX-License-Identifier: Apache-2.0

// Package cluster holds the agreed metadata of a cluster: its id, its topics
// and their configs, the ids and epochs that must never be given out twice.
//
// Readers take an immutable snapshot and never lock. Every change is one
// durable commit, and the snapshot that shows it is published only after the
// commit:
//
//	change ──► check against the snapshot ──► bbolt commit (synced) ──► publish
//	                                                                     │
//	readers ◄───────────────── Metadata(), an atomic load ◄──────────────┘
//
// The local backend keeps everything in one bbolt file, firn.db, for a lone
// broker; docs/format/metadata.md shows its buckets. The table of topic
// configs stands here as well, because what a topic may be told is part of
// what is agreed: it is the one place that knows a config's type, default,
// limits and the broker setting that it falls back to.
//
// The package does not open logs, talk to clients or know Kafka's error
// codes, and it does not act on a topic that is being deleted: it only
// remembers, durably, that it is.
//
// Invariants:
//
//	I1  A Metadata value never changes; its Version rises by one with every
//	    change to topics and is durable before it can be seen.
//	I2  At any time at most one topic holds a name, and a topic id is never
//	    used twice.
//	I3  A deleting topic stays known, across restarts, until RemoveTopic; its
//	    name is held until ReleaseName.
//	I4  A producer id, and a broker epoch, is handed out at most once in the
//	    life of the file: the commit comes before the answer.
//	I5  A file of another schema version is refused and left untouched.
//
// The package owns no goroutine.
package cluster
