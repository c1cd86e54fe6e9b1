// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"testing"

	"firn/internal/vfs"
)

// A partition whose file with the topic id is damaged is found by its name.
func TestADamagedTopicIDIsMadeGood(t *testing.T) {
	s := newSite(t)
	b := s.start()
	makeTopic(t, b, "clicks", 2, nil)
	end := appendTo(t, b, "clicks", 1, 3).EndOffset()
	s.stop()
	const path = "/firn/clicks-1/partition.metadata"
	for range 2 {
		if err := vfs.ReplaceFile(s.disk, path, []byte("version: 0\ntopic_id: nothing")); err != nil {
			t.Fatal(err)
		}
		b = s.start()
		p, err := b.partition("clicks", 1)
		if err != nil {
			t.Fatal(err)
		}
		if p.EndOffset() != end {
			t.Errorf("the partition ends at %d, want %d", p.EndOffset(), end)
		}
		if f := b.foundLogs(); len(f) != 0 {
			t.Errorf("found and not opened: %v", f)
		}
		s.stop()
		if content, err := vfs.ReadFile(s.disk, path, 1000); err != nil || string(content) == "version: 0\ntopic_id: nothing" {
			t.Errorf("the file is still damaged: %q, %v", content, err)
		}
	}
}
