// SPDX-License-Identifier: Apache-2.0

package wire

import "sync/atomic"

// Stats counts what a Server has done since it was made.
type Stats struct {
	// Connections are open now; Accepted and Refused count those that came in
	// and those closed at once for a limit.
	Connections int
	Accepted    uint64
	Refused     uint64
	// Requests were decoded and handed to the Handler; Malformed frames cost
	// their connection, as did requests of Unsupported keys and versions.
	Requests    uint64
	Malformed   uint64
	Unsupported uint64
	// Bytes sent, by the path they took: straight from the page cache by
	// sendfile; from a file through memory by pread; and from memory, which
	// is encoded messages, headers, parts of bytes and cold chunks.
	SendfileBytes uint64
	PreadBytes    uint64
	MemoryBytes   uint64
	// ColdChunks were not in the page cache when their turn came and were
	// read by the ChunkReader.
	ColdChunks uint64
	// BulkTurns were taken by bulk answers, those that found the socket full
	// included.
	BulkTurns uint64
	// FailedHandshakes counts clients with which no TLS session came about.
	FailedHandshakes uint64
	// SlowClients were closed for taking nothing within SendTimeout.
	SlowClients uint64
}

// counters are the live form of Stats.
type counters struct {
	accepted, refused                atomic.Uint64
	requests, malformed, unsupported atomic.Uint64
	sendfile, pread, memory          atomic.Uint64
	cold, turns, slow, handshakes    atomic.Uint64
}

// Stats reads all counters. They are not read at one instant.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	open := len(s.conns)
	s.mu.Unlock()
	c := &s.counters
	return Stats{
		Connections: open,
		Accepted:    c.accepted.Load(), Refused: c.refused.Load(),
		Requests: c.requests.Load(), Malformed: c.malformed.Load(), Unsupported: c.unsupported.Load(),
		SendfileBytes: c.sendfile.Load(), PreadBytes: c.pread.Load(), MemoryBytes: c.memory.Load(),
		ColdChunks: c.cold.Load(), BulkTurns: c.turns.Load(), SlowClients: c.slow.Load(),
		FailedHandshakes: c.handshakes.Load(),
	}
}
