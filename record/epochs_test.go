// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"firn/record"
)

var history = record.Epochs{{Epoch: 2, StartOffset: 0}, {Epoch: 5, StartOffset: 10}, {Epoch: 6, StartOffset: 20}}

func TestEpochsEndOffset(t *testing.T) {
	const end = 100
	tests := []struct {
		ask, epoch record.Epoch
		offset     record.Offset
	}{
		{record.NoEpoch, record.NoEpoch, record.NoOffset},
		{0, 0, 0},   // below every known epoch
		{2, 2, 10},  // ends where the next one starts
		{3, 2, 10},  // between two: the lower one
		{4, 2, 10},  //
		{5, 5, 20},  //
		{6, 6, end}, // the newest ends at the log's end
		{7, record.NoEpoch, record.NoOffset},
	}
	for _, tt := range tests {
		if epoch, offset := history.EndOffset(tt.ask, end); epoch != tt.epoch || offset != tt.offset {
			t.Errorf("EndOffset(%d) = %d, %d, want %d, %d", tt.ask, epoch, offset, tt.epoch, tt.offset)
		}
	}
	if epoch, offset := record.Epochs(nil).EndOffset(0, end); epoch != record.NoEpoch || offset != record.NoOffset {
		t.Errorf("without entries: %d, %d", epoch, offset)
	}
}

func TestEpochsFor(t *testing.T) {
	es := history.TruncateTo(5)
	for o, want := range map[record.Offset]record.Epoch{0: record.NoEpoch, 4: record.NoEpoch, 5: 2, 9: 2, 10: 5, 19: 5, 20: 6, 1000: 6} {
		if got := es.For(o); got != want {
			t.Errorf("For(%d) = %d, want %d", o, got, want)
		}
	}
}

func TestEpochsAppend(t *testing.T) {
	tests := []struct {
		name string
		add  record.EpochEntry
		want record.Epochs
	}{
		{"a new epoch", record.EpochEntry{Epoch: 7, StartOffset: 30}, append(slices.Clone(history), record.EpochEntry{Epoch: 7, StartOffset: 30})},
		{"the same epoch again", record.EpochEntry{Epoch: 6, StartOffset: 25}, history},
		{"the same epoch from an earlier start", record.EpochEntry{Epoch: 6, StartOffset: 15}, record.Epochs{history[0], history[1], {Epoch: 6, StartOffset: 15}}},
		{"a new epoch where the last one had written nothing", record.EpochEntry{Epoch: 7, StartOffset: 20}, record.Epochs{history[0], history[1], {Epoch: 7, StartOffset: 20}}},
		{"a lower epoch", record.EpochEntry{Epoch: 4, StartOffset: 30}, record.Epochs{history[0], {Epoch: 4, StartOffset: 30}}},
		{"everything replaced", record.EpochEntry{Epoch: 1, StartOffset: 0}, record.Epochs{{Epoch: 1, StartOffset: 0}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(history)
			if got := history.Append(tt.add); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if !slices.Equal(history, before) {
				t.Errorf("the receiver became %v", history)
			}
		})
	}
}

func TestEpochsTruncate(t *testing.T) {
	for end, want := range map[record.Offset]int{0: 0, 1: 1, 10: 1, 11: 2, 20: 2, 21: 3, 99: 3} {
		if got := history.TruncateFrom(end); !slices.Equal(got, history[:want]) {
			t.Errorf("TruncateFrom(%d) = %v", end, got)
		}
	}
	for start, want := range map[record.Offset]record.Epochs{
		0:  history,
		7:  {{Epoch: 2, StartOffset: 7}, history[1], history[2]},
		10: {{Epoch: 5, StartOffset: 10}, history[2]},
		25: {{Epoch: 6, StartOffset: 25}},
	} {
		if got := history.TruncateTo(start); !slices.Equal(got, want) {
			t.Errorf("TruncateTo(%d) = %v, want %v", start, got, want)
		}
	}
	if got := (record.Epochs{{Epoch: 1, StartOffset: 9}}).TruncateTo(5); !slices.Equal(got, record.Epochs{{Epoch: 1, StartOffset: 9}}) {
		t.Errorf("below the first entry: %v", got)
	}
	if got := record.Epochs(nil).TruncateTo(5); len(got) != 0 {
		t.Errorf("without entries: %v", got)
	}
}

// TestEpochsStayAscending appends anything and checks the order, and that the
// text round-trips.
func TestEpochsStayAscending(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var es record.Epochs
		for range rapid.IntRange(0, 12).Draw(t, "appends") {
			e := record.EpochEntry{Epoch: record.Epoch(rapid.IntRange(0, 9).Draw(t, "epoch")), StartOffset: record.Offset(rapid.IntRange(0, 30).Draw(t, "start"))}
			es = es.Append(e)
			if last, ok := es.Last(); !ok || last.Epoch != e.Epoch || last.StartOffset > e.StartOffset {
				t.Fatalf("after %v the last is %v", e, last)
			}
		}
		for i := 1; i < len(es); i++ {
			if es[i].Epoch <= es[i-1].Epoch || es[i].StartOffset <= es[i-1].StartOffset {
				t.Fatalf("out of order: %v", es)
			}
		}
		got, err := record.ParseEpochs(es.Marshal())
		if err != nil || !slices.Equal(got, es) {
			t.Fatalf("%v came back as %v, %v", es, got, err)
		}
	})
}

func TestParseEpochsRefuses(t *testing.T) {
	for _, text := range []string{
		"0\n1\n1 0", "0\n1\n-1 0\n", "0\n1\n1 -1\n", "0\n1\n2147483648 0\n", "0\n1\n1\n", "0\n1\n1 0 0\n",
		"0\n2\n1 0\n1 5\n", "0\n2\n2 0\n1 5\n", "0\n2\n1 5\n2 5\n", "0\n2\n1 5\n2 4\n", "0\n1\n",
	} {
		if es, err := record.ParseEpochs([]byte(text)); !errors.Is(err, record.ErrCorruptBatch) || es != nil {
			t.Errorf("%q: %v, %v", text, es, err)
		}
	}
	if es, err := record.ParseEpochs(nil); err != nil || len(es) != 0 {
		t.Errorf("an empty file: %v, %v", es, err)
	}
	if _, err := record.ParseEpochs([]byte("7\n0\n")); !errors.Is(err, record.ErrUnsupportedVersion) {
		t.Errorf("version 7: %v", err)
	}
}
