// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"net"
	"os"
	"testing"
	"time"
)

// A raw producer takes a sink for a broker, and nothing is left of it.
func TestSinkTakesWhatAProducerSends(t *testing.T) {
	for _, acks := range []int16{0, 1, -1} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Sink{Dir: dir}.Serve(ctx, listener) }()
		o := Options{Broker: listener.Addr().String(), Topic: "t", Raw: true, Acks: acks, Partitions: 2, Clients: 2,
			RecordBytes: 100, BatchBytes: 4 << 10, InFlight: 5, Duration: 50 * time.Millisecond}
		got, err := Produce(t.Context(), o)
		if err != nil || got.Records == 0 {
			t.Errorf("acks %d: %d records, %v", acks, got.Records, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("acks %d: the sink leaves %v, %v", acks, left, err)
		}
	}
}

// What is no produce request ends the connection.
func FuzzSinkAnswer(f *testing.F) {
	f.Add([]byte{0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff})
	f.Add(make([]byte, 8))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) < 8 {
			return
		}
		if b, err := appendSinkAnswer(nil, frame); err == nil && len(b) > 0 && len(b) < 8 {
			t.Errorf("an answer of %d bytes", len(b))
		}
	})
}
