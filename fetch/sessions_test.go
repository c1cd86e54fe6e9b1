// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"firn/record"
)

var sessionStart = time.Unix(1_700_000_000, 0)

func wantOf(partition int32, offset record.Offset) SessionPartition {
	return SessionPartition{SessionKey: SessionKey{Topic: "t", Partition: partition}, Offset: offset, MaxBytes: 100}
}

// open begins a session with so many partitions, and answers it empty.
func open(t testing.TB, s *Sessions, now time.Time, partitions int) (id int32) {
	t.Helper()
	r := SessionRequest{Names: true}
	for i := range partitions {
		r.Wants = append(r.Wants, wantOf(int32(i), 0))
	}
	e, err := s.Begin(now, r)
	if err != nil {
		t.Fatal(err)
	}
	id, _ = e.End(make([]SessionOutcome, partitions))
	return id
}

func (s *Sessions) has(id int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id] != nil
}

// follower is a client that keeps book of what it wants and of what it was told.
type follower struct {
	id, epoch int32
	wants     map[int32]record.Offset
	told      map[int32]SessionOutcome
}

// Whatever a client adds, moves and forgets, the broker reads exactly what the
// client wants, in an order in which everybody comes first in turn, and what the
// client was told last of a partition is what there is to tell.
func TestSessionsTellWhatChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := NewSessions(SessionOptions{})
		now := sessionStart
		truth := map[int32]SessionOutcome{} // of each partition, without data
		f := &follower{wants: map[int32]record.Offset{}, told: map[int32]SessionOutcome{}}
		partition := rapid.Int32Range(0, 5)
		for range rapid.IntRange(1, 30).Draw(rt, "fetches") {
			now = now.Add(time.Second)
			r := SessionRequest{ID: f.id, Epoch: f.epoch, Names: true}
			wants := rapid.MapOfN(partition, rapid.Int64Range(0, 9), 0, 3).Draw(rt, "wants")
			if f.id == 0 {
				wants[0] = 1
			}
			for _, p := range slices.Sorted(maps.Keys(wants)) {
				f.wants[p] = record.Offset(wants[p])
				r.Wants = append(r.Wants, wantOf(p, record.Offset(wants[p])))
			}
			if f.id != 0 {
				for _, p := range rapid.SliceOfN(partition, 0, 2).Draw(rt, "forgotten") {
					delete(f.wants, p)
					delete(f.told, p)
					r.Forgotten = append(r.Forgotten, SessionKey{Topic: "t", Partition: p})
				}
			}
			for p := range int32(6) {
				if rapid.Bool().Draw(rt, "changes") {
					truth[p] = SessionOutcome{
						HighWatermark: record.Offset(rapid.IntRange(0, 3).Draw(rt, "high")),
						LogStart:      record.Offset(rapid.IntRange(0, 2).Draw(rt, "start")),
						Wrong:         rapid.IntRange(0, 5).Draw(rt, "wrong") == 0,
					}
				}
			}
			f.exchange(rt, s, now, r, truth)
		}
	})
}

// exchange sends one request and takes in its answer.
func (f *follower) exchange(rt *rapid.T, s *Sessions, now time.Time, r SessionRequest, truth map[int32]SessionOutcome) {
	e, err := s.Begin(now, r)
	if err != nil {
		rt.Fatal(err)
	}
	var outcomes []SessionOutcome
	read := map[int32]record.Offset{}
	for _, p := range e.Partitions {
		read[p.Partition] = p.Offset
		o := truth[p.Partition]
		o.Data = rapid.IntRange(0, 3).Draw(rt, "data") == 0
		outcomes = append(outcomes, o)
	}
	if !maps.Equal(read, f.wants) || len(e.Partitions) != len(f.wants) {
		rt.Fatalf("read %v, want %v", read, f.wants)
	}
	id, named := e.End(outcomes)
	for i, p := range e.Partitions {
		o := outcomes[i]
		if named != nil && !named[i] {
			if o.Data || o.Wrong {
				rt.Fatalf("partition %d is left out with %+v", p.Partition, o)
			}
			continue
		}
		o.Data = false
		f.told[p.Partition] = o
	}
	for p := range f.wants {
		if f.told[p] != truth[p] {
			rt.Fatalf("partition %d: the client was told %+v, and it is %+v", p, f.told[p], truth[p])
		}
	}
	if f.id, f.epoch = id, nextEpoch(f.epoch); id == 0 { // nothing is wanted any more
		if len(f.wants) > 0 {
			rt.Fatalf("the session has ended with %v wanted", f.wants)
		}
		f.epoch, f.told = EpochInitial, map[int32]SessionOutcome{}
	}
}

// What had data goes behind the others.
func TestSessionsTakePartitionsInTurn(t *testing.T) {
	s := NewSessions(SessionOptions{})
	id := open(t, s, sessionStart, 4)
	order := func(e *Exchange) (out []int32) {
		for _, p := range e.Partitions {
			out = append(out, p.Partition)
		}
		return out
	}
	for epoch, want := range [][]int32{{0, 1, 2, 3}, {1, 2, 3, 0}, {2, 3, 0, 1}} {
		e, err := s.Begin(sessionStart, SessionRequest{ID: id, Epoch: int32(epoch) + 1, Names: true})
		if err != nil || !slices.Equal(order(e), want) {
			t.Fatalf("order %v, %v, want %v", order(e), err, want)
		}
		outcomes := make([]SessionOutcome, 4)
		outcomes[0].Data = true
		e.End(outcomes)
	}
}

func TestSessionErrors(t *testing.T) {
	s := NewSessions(SessionOptions{})
	id := open(t, s, sessionStart, 1)
	for name, c := range map[string]struct {
		r    SessionRequest
		want error
	}{
		"another id":             {SessionRequest{ID: id + 1, Epoch: 1, Names: true}, ErrNoSession},
		"no id":                  {SessionRequest{Epoch: 1, Names: true}, ErrNoSession},
		"an epoch ahead":         {SessionRequest{ID: id, Epoch: 2, Names: true}, ErrSessionEpoch},
		"a negative epoch":       {SessionRequest{ID: id, Epoch: -2, Names: true}, ErrSessionEpoch},
		"topics by another":      {SessionRequest{ID: id, Epoch: 1}, ErrSessionNames},
		"more than there may be": {SessionRequest{ID: open(t, s, sessionStart, 1), Epoch: 1, Names: true, Wants: make([]SessionPartition, maxSessionPartitions)}, ErrNoSession},
	} {
		if _, err := s.Begin(sessionStart, c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	// None of it has harmed the session; a request that comes twice does not pass.
	again := SessionRequest{ID: id, Epoch: 1, Names: true}
	if _, err := s.Begin(sessionStart, again); err != nil {
		t.Error(err)
	}
	if _, err := s.Begin(sessionStart, again); !errors.Is(err, ErrSessionEpoch) {
		t.Errorf("the same epoch twice: %v", err)
	}
}

func TestSessionEpochsGoRound(t *testing.T) {
	s := NewSessions(SessionOptions{})
	id := open(t, s, sessionStart, 1)
	s.byID[id].epoch = math.MaxInt32
	for _, epoch := range []int32{math.MaxInt32, 1, 2} {
		if _, err := s.Begin(sessionStart, SessionRequest{ID: id, Epoch: epoch, Names: true}); err != nil {
			t.Errorf("epoch %d: %v", epoch, err)
		}
	}
}

// A client that begins anew, or wants no session any more, ends the one it had.
func TestSessionsEnd(t *testing.T) {
	s := NewSessions(SessionOptions{})
	one := open(t, s, sessionStart, 1)
	e, err := s.Begin(sessionStart, SessionRequest{ID: one, Epoch: EpochInitial, Names: true, Wants: []SessionPartition{wantOf(0, 0), wantOf(1, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	two, named := e.End(make([]SessionOutcome, 2))
	if two == 0 || two == one || named != nil || s.has(one) {
		t.Errorf("session %d follows %d, which is there: %v; named %v", two, one, s.has(one), named)
	}
	e, err = s.Begin(sessionStart, SessionRequest{ID: two, Epoch: EpochFinal, Names: true, Wants: []SessionPartition{wantOf(0, 7)}})
	if err != nil || len(e.Partitions) != 1 || e.Partitions[0].Offset != 7 {
		t.Fatalf("%+v, %v", e, err)
	}
	if id, named := e.End(make([]SessionOutcome, 1)); id != 0 || named != nil || s.has(two) || s.partitions != 0 {
		t.Errorf("session %d, named %v; %d partitions are left", id, named, s.partitions)
	}
}

// Who comes when all slots are taken gets that of a session nobody uses, or of
// a smaller one that has had its time, or none.
func TestSessionsMakeRoom(t *testing.T) {
	later := sessionStart.Add(time.Minute)
	due := sessionStart.Add(3 * time.Minute)
	use := func(s *Sessions, id int32) {
		if _, err := s.Begin(due, SessionRequest{ID: id, Epoch: 1, Names: true}); err != nil {
			t.Fatal(err)
		}
	}
	setUp := func() (s *Sessions, small, large int32) {
		s = NewSessions(SessionOptions{Slots: 2})
		return s, open(t, s, sessionStart, 2), open(t, s, later, 9)
	}
	s, small, large := setUp()
	if id := open(t, s, later, 50); id != 0 || !s.has(small) || !s.has(large) {
		t.Error("one that was used a minute ago has gone")
	}
	use(s, large)
	if id := open(t, s, due, 1); id == 0 || s.has(small) || !s.has(large) {
		t.Error("the idle one should have gone")
	}
	s, small, large = setUp()
	use(s, small)
	use(s, large)
	if id := open(t, s, due, 2); id != 0 {
		t.Error("one no smaller than the new one has gone")
	}
	if id := open(t, s, due, 3); id == 0 || s.has(small) || !s.has(large) {
		t.Error("the smaller one should have gone")
	}
	if none := NewSessions(SessionOptions{Slots: -1}); open(t, none, due, 1) != 0 {
		t.Error("a session without slots")
	}
}
