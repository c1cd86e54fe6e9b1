// SPDX-License-Identifier: Apache-2.0

// Package broker turns Kafka's requests into calls on the packages below and
// their errors into Kafka's error codes.
//
//	wire.Server ─▶ Handle ─▶ one file per API key
//	                           │        │          │
//	                      partition   fetch     cluster
//	                      hot + tier  pools     metadata
//
// The table in apis.go says which keys and versions are served; ApiVersions is
// derived from it. The codes of Kafka's protocol appear in errors.go alone.
// The broker also owns what happens to topics over time: opening their
// partitions at the start, creating, changing and deleting them, retention,
// and the watch over the disk's reserve.
//
// It does not frame or send anything, store anything of its own, or know
// about viper and flags.
//
// Invariants:
//
//	I1  Appends of one connection are made in the order of its requests.
//	I2  A topic is durable in the metadata before its first partition can be
//	    written to, and its deletion is durable before the first byte of it
//	    goes. A change is durable before it is in force, and in force before
//	    it is answered; the bucket's description of the topic never goes back.
//	I3  What is not in the table is not advertised, and what is in it is done.
//
// Goroutines: one for retention, one for the deletion of topics and one for
// the disk, owned by the Broker, ended by Close.
package broker
