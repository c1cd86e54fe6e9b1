// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/internal/vfs"
	"firn/internal/vfs/faultfs"
	"firn/tier"
)

// inBucket is the newest state of the only topic that the store knows.
func (s *site) inBucket() tier.TopicState {
	s.t.Helper()
	files := filesBelow(s.t, s.cold, "/store")
	files = slices.DeleteFunc(files, func(f string) bool { return !strings.Contains(f, "/topics/") })
	slices.Sort(files)
	if len(files) == 0 {
		return tier.TopicState{}
	}
	newest := files[len(files)-1]
	b, err := vfs.ReadFile(s.cold, newest, 1<<20)
	if err != nil {
		s.t.Fatal(err)
	}
	state, err := tier.DecodeTopic(newest, b)
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

func filesBelow(t *testing.T, fs vfs.FS, dir string) []string {
	t.Helper()
	entries, err := fs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		if path := dir + "/" + e.Name(); e.IsDir() {
			files = append(files, filesBelow(t, fs, path)...)
		} else {
			files = append(files, path)
		}
	}
	return files
}

// A writer of the bucket's topic state that comes late does not write what the
// topic was over what it is.
func TestLateStateDoesNotReplaceANewerOne(t *testing.T) {
	s := newSite(t)
	b := s.start()
	makeTopic(t, b, "clicks", 1, nil)
	old, _ := b.topics.byName("clicks")
	got := call[*kmsg.CreatePartitionsResponse](t, b, growRequest("clicks", 3)).Topics[0]
	wantAnswer(t, "grow", got.ErrorCode, got.ErrorMessage, nil)
	if state := s.inBucket(); state.Partitions != 3 {
		t.Fatalf("the bucket has %+v", state)
	}
	if err := b.putTopic(t.Context(), old, false); err != nil {
		t.Fatal(err)
	}
	if state := s.inBucket(); state.Partitions != 3 {
		t.Errorf("the bucket went back to %+v", state)
	}
}

// A store that is away holds up no change; the bucket is told when it is back.
func TestChangeWhileTheStoreIsAway(t *testing.T) {
	s := newSite(t)
	b := s.start(func(o *Options) { o.StoreTimeout = 200 * time.Millisecond })
	makeTopic(t, b, "clicks", 1, nil)
	away := s.coldFaults.FailFrom(1, faultfs.IOError())
	got := call[*kmsg.IncrementalAlterConfigsResponse](t, b, alterRequest(kmsg.ConfigResourceTypeTopic, "clicks", op{opSet, "retention.ms", "77"})).Resources[0]
	wantAnswer(t, "alter", got.ErrorCode, got.ErrorMessage, nil)
	one, _ := b.topics.byName("clicks")
	if one.Config["retention.ms"] != "77" || one.saved.Load() {
		t.Fatalf("config %v, saved %v", one.Config, one.saved.Load())
	}
	away.Stop()
	deadline := time.After(20 * time.Second)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !one.saved.Load() {
		b.kickSweep()
		select {
		case <-look.C:
		case <-deadline:
			t.Fatal("the bucket was never told")
		}
	}
	if state := s.inBucket(); state.Config["retention.ms"] != "77" {
		t.Errorf("the bucket has %+v", state)
	}
}

// A disk that refuses new partitions leaves the topic as it was, and the next
// try has nothing in its way.
func TestGrowOnADiskThatRefuses(t *testing.T) {
	for n := 1; ; n++ {
		s := newSite(t)
		b := s.start(func(o *Options) { o.OpenThreads = 1 })
		makeTopic(t, b, "local-clicks", 1, nil)
		fault := s.diskFaults.FailNth(n, faultfs.NoSpace(0), faultfs.OpMkdir, faultfs.OpCreate)
		got := call[*kmsg.CreatePartitionsResponse](t, b, growRequest("local-clicks", 3)).Topics[0]
		fault.Stop()
		if fault.Fired() == 0 {
			if n < 4 {
				t.Errorf("two partitions take only %d operations", n-1)
			}
			return
		}
		wantAnswer(t, "grow", got.ErrorCode, got.ErrorMessage, kerr.KafkaStorageError)
		if one, _ := b.topics.byName("local-clicks"); one.Partitions != 1 || b.cluster.Metadata().Topics()[0].Partitions != 1 {
			t.Errorf("refused, but the topic has %d partitions", one.Partitions)
		}
		got = call[*kmsg.CreatePartitionsResponse](t, b, growRequest("local-clicks", 3)).Topics[0]
		wantAnswer(t, "grow again", got.ErrorCode, got.ErrorMessage, nil)
		appendTo(t, b, "local-clicks", 2, 1)
		s.stop()
	}
}

// A log start that is there already costs nothing: Kafka Streams asks for it
// time and again.
func TestDeleteRecordsTwiceWritesOnce(t *testing.T) {
	s := newSite(t)
	b := s.start()
	const partitions = 100
	makeTopic(t, b, "local-repartition", partitions, nil)
	offsets := make(map[int32]int64)
	for number := range int32(partitions) {
		appendTo(t, b, "local-repartition", number, 1)
		offsets[number] = 10
	}
	before := s.diskFaults.Count(faultfs.OpRename)
	for range 3 {
		for _, p := range call[*kmsg.DeleteRecordsResponse](t, b, deleteRecordsRequest("local-repartition", offsets)).Topics[0].Partitions {
			if p.ErrorCode != 0 || p.LowWatermark != 10 {
				t.Fatalf("partition %d: code %d, start %d", p.Partition, p.ErrorCode, p.LowWatermark)
			}
		}
	}
	if writes := s.diskFaults.Count(faultfs.OpRename) - before; writes < 1 || writes > partitions {
		t.Errorf("%d partitions took %d writes of the checkpoint", partitions, writes)
	}
}
