// SPDX-License-Identifier: Apache-2.0

// Package wire speaks Kafka's framing over TCP: it owns connections, bounds
// what they may cost, turns bytes into requests and answers into bytes, and
// sends stored records without copying them where the kernel allows it.
//
// It does not know what any API key means beyond its encoding, holds no Kafka
// error code, authenticates nobody, and decides nothing about which data may
// be sent when: that is the broker's and fetch's business.
//
// The flow of one connection:
//
//	socket -> reader -> frame buffer (budgeted) -> header, body -> Handler.Handle
//	                                                                    |
//	                                                     Answer (nil: no response)
//	                                                                    v
//	socket <- sender <- Response{Message | Parts} <- writer <- queue, in read order
//
// A frame on the wire, all big-endian:
//
//	request  int32 length | int16 key | int16 version | int32 correlation id |
//	         nullable string client id | tags (flexible versions) | body
//	response int32 length | int32 correlation id | tags (flexible versions,
//	         never for ApiVersions) | body
//
// How a part of a response leaves:
//
//	bytes                     write; small ones are gathered into one write
//	region under 32 KiB       pread behind what is gathered, one write
//	region from 32 KiB up     explicit-offset sendfile in 256 KiB chunks, behind
//	                          a header sent with MSG_MORE
//	chunk that is not         Options.ChunkReader into memory, then write
//	resident any more
//	no descriptor, no TCP,    pread into memory, then write
//	no Linux
//	TLS                       as without a descriptor, sealed into a buffer of its
//	                          own, then write
//
// Bulk answers take turns, one for each system call (package bulk), and no turn
// is ever held by a connection that waits for its client.
//
// Invariants:
//
//	I1  Answers reach the client in the order in which requests were read.
//	I2  Handle is called by one goroutine per connection, in read order.
//	I3  Every Answer that Handle returned is run exactly once, and Done of
//	    every Response is called exactly once, whatever happens to the
//	    connection.
//	I4  A frame's buffer is charged to the global budget before its first byte
//	    is allocated, and given back after its answer was sent or dropped. A
//	    connection that has not sent the first KiB of a frame, or all of a
//	    shorter one, holds none of it.
//	I5  No byte of a frame is used before its length was checked against both
//	    ends. A frame that is malformed costs its own connection only.
//	I6  A response is sent whole or its connection is closed: a file that ends
//	    before its region does is never padded.
//	I7  No more than MaxInFlight requests of a connection are between read and
//	    sent.
//
// Goroutines: one accept loop per listener, one reader and one writer per
// connection. Server owns them all; Close stops them and waits.
package wire
