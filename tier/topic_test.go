// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"fmt"
	"testing"
	"time"

	"firn/tier/store"
	"firn/tier/store/faultstore"
)

func (w *world) topicVersionsNow(t *testing.T) []string {
	t.Helper()
	keys, _, err := w.tier.topicVersions(t.Context(), testTopicID)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestPutTopic(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.open()
		state := TopicState{Name: "topic", ID: testTopicID, Partitions: 1}
		for i := range 6 {
			state.Partitions = int32(i + 1)
			for range 2 { // the second changes nothing
				if err := w.tier.PutTopic(t.Context(), state); err != nil {
					t.Fatal(err)
				}
			}
		}
		keys := w.topicVersionsNow(t)
		last, err := ParseKey(w.tier.root, keys[len(keys)-1])
		if err != nil || len(keys) > keptTopicVersions+1 || last.Version != 6 {
			t.Fatalf("versions %v, %v, want about 4 up to 6", keys, err)
		}
		got, err := DecodeTopic(keys[len(keys)-1], w.bucket.objects[keys[len(keys)-1]])
		if err != nil || got.Partitions != 6 {
			t.Fatalf("newest is %+v, %v", got, err)
		}
		for _, bad := range []TopicState{{Name: "..", ID: testTopicID, Partitions: 1}, {Name: "t", Partitions: 1}, {Name: "t", ID: testTopicID}} {
			if w.tier.PutTopic(t.Context(), bad) == nil {
				t.Errorf("%+v was accepted", bad)
			}
		}
	})
}

// A Put that failed and arrived all the same is found when it is repeated.
func TestPutTopicThatArrivedUnnoticed(t *testing.T) {
	for _, effect := range []faultstore.Effect{faultstore.AppliedButFailed, faultstore.AppliedLate, faultstore.Unavailable} {
		bubble(t, func(t *testing.T, w *world) {
			w.open()
			w.pass(time.Second)
			w.faults.Inject(faultstore.Fault{Op: store.OpPut, Key: ofKind(KeyTopic), Times: 1, Effect: effect})
			state := TopicState{Name: "topic", ID: testTopicID, Partitions: 3, Config: map[string]string{"a": "b"}}
			if err := w.tier.PutTopic(t.Context(), state); err == nil {
				t.Fatal("the failure was not told")
			}
			state.Deleting = true
			if err := w.tier.PutTopic(t.Context(), state); err != nil {
				t.Fatal(err)
			}
			if _, err := w.faults.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			keys := w.topicVersionsNow(t)
			newest, err := DecodeTopic("newest", w.bucket.objects[keys[len(keys)-1]])
			if err != nil || !newest.Deleting {
				t.Fatalf("newest is %+v, %v", newest, err)
			}
		})
	}
}

func TestDeleteTopicObjects(t *testing.T) {
	calls := 0
	run := func(t *testing.T, n int) {
		bubble(t, func(t *testing.T, w *world) {
			w.open()
			for range 5 {
				w.produce(1)
			}
			w.pass(time.Second)
			for _, name := range []string{"topic-2", "topi", "topic.x"} { // neighbours by name
				w.bucket.objects["pre/fix/cluster/data/"+name+"/"+testTopicID.String()+"/0/claim/0000000001"] = []byte("x")
			}
			if err := w.tier.PutTopic(t.Context(), TopicState{Name: "topic", ID: testTopicID, Partitions: 1, Deleting: true}); err != nil {
				t.Fatal(err)
			}
			if err := w.log.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.faults.Forget()
			if n >= 0 {
				w.faults.Inject(faultstore.Fault{Skip: n, Times: 1, Effect: faultstore.AppliedButFailed})
				if done, err := w.tier.DeleteTopicObjects(t.Context(), testTopicID, "topic"); err == nil || done {
					t.Fatalf("done %v, %v, want the failure", done, err)
				}
			}
			if done, err := w.tier.DeleteTopicObjects(t.Context(), testTopicID, "topic"); err != nil || !done {
				t.Fatalf("done %v, %v", done, err)
			}
			calls = w.faults.Count("")
			if keys := w.bucket.keys(); len(keys) != 4 {
				t.Fatalf("want the store object and three neighbours, found %s", fmtKeys(keys))
			}
		})
	}
	run(t, -1)
	for n := range calls {
		t.Run(fmt.Sprint(n), func(t *testing.T) { run(t, n) })
	}
}
