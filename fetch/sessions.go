// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"firn/record"
)

// Why a fetch cannot go on in its session: the client begins another one.
var (
	ErrNoSession    = errors.New("there is no such fetch session")
	ErrSessionEpoch = errors.New("the fetch session is at another epoch")
	ErrSessionNames = errors.New("the fetch session names topics in another way")
)

// The epochs that do not count a session's fetches.
const (
	// EpochInitial asks for a new session with the partitions of the request.
	EpochInitial int32 = 0
	// EpochFinal asks for no session, and ends the one that is named.
	EpochFinal int32 = -1
)

// maxSessionPartitions bounds the partitions of all sessions together, some
// 150 bytes each. Beyond it nobody gets a session, which costs clients no more
// than longer requests.
const maxSessionPartitions = 500_000

// SessionKey names a partition as the client does: by the topic's name or by
// its id, the other one is zero.
type SessionKey struct {
	Topic     string
	TopicID   record.TopicID
	Partition int32
}

// SameTopic says whether both name one topic.
func (k SessionKey) SameTopic(o SessionKey) bool { return k.Topic == o.Topic && k.TopicID == o.TopicID }

// SessionPartition is what a client wants of one partition until it says
// otherwise.
type SessionPartition struct {
	SessionKey
	Offset           record.Offset
	MaxBytes         int
	CurrentEpoch     record.Epoch
	LastFetchedEpoch record.Epoch
}

// SessionOptions configure Sessions.
type SessionOptions struct {
	// Slots is how many sessions there may be
	// (max.incremental.fetch.session.cache.slots). 0 means 1,000, negative none.
	Slots int
	// MinEviction is how long a session is left alone, since its beginning by
	// larger ones and since its last use by any other. 0 means Kafka's 2 min.
	MinEviction time.Duration
	// Registerer takes the metrics. Nil means none.
	Registerer prometheus.Registerer
}

// Sessions are the incremental fetch sessions of a broker (KIP-227): what each
// client wants, so that it says only what changes, and what each client knows,
// so that it is told only what changes. They take no part in reading. Safe for
// concurrent use; there is nothing to close.
type Sessions struct {
	slots       int
	minEviction time.Duration
	evictions   prometheus.Counter

	mu         sync.Mutex
	byID       map[int32]*session
	partitions int // of all sessions
}

// session is one of them. All of it belongs to Sessions.mu.
type session struct {
	id            int32
	epoch         int32 // of the next fetch
	names         bool  // topics go by name, not by id
	created, used time.Time
	wants         map[SessionKey]*sessionWant
	// order is that in which partitions are read. Those that had data go to
	// its end, so that each comes first in turn.
	order []*sessionWant
}

// sessionWant is a partition that a session wants, and what the client knows
// of it.
type sessionWant struct {
	SessionPartition
	gone           bool // forgotten
	high, logStart record.Offset
}

// NewSessions makes a broker's sessions, none at first.
func NewSessions(o SessionOptions) *Sessions {
	setDefault(&o.Slots, 1000)
	setDefault(&o.MinEviction, 2*time.Minute)
	s := &Sessions{slots: max(0, o.Slots), minEviction: o.MinEviction, byID: make(map[int32]*session)}
	factory := promauto.With(o.Registerer)
	s.evictions = factory.NewCounter(prometheus.CounterOpts{
		Name: "firn_fetch_session_evictions_total", Help: "Fetch sessions that were ended to make room for others.",
	})
	gauge := func(name, help string, value func() int) {
		factory.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return float64(value())
		})
	}
	gauge("firn_fetch_sessions", "Incremental fetch sessions that are open.", func() int { return len(s.byID) })
	gauge("firn_fetch_session_partitions", "Partitions of all open fetch sessions.", func() int { return s.partitions })
	return s
}

// SessionRequest is what a fetch says of its session.
type SessionRequest struct {
	ID, Epoch int32
	// Names says that topics go by name in this request, not by id.
	Names     bool
	Wants     []SessionPartition
	Forgotten []SessionKey
}

// Exchange is one fetch as its session sees it.
type Exchange struct {
	// Partitions are to be read, in this order.
	Partitions []SessionPartition

	sessions *Sessions
	session  *session // nil without
	whole    bool     // the answer names every partition
	wants    []*sessionWant
}

// Begin takes in a request. The error is ErrNoSession, ErrSessionEpoch or
// ErrSessionNames, and the session is as it was. Where a client asks for a
// session and there is no room for it, the fetch goes on without one.
func (s *Sessions) Begin(now time.Time, r SessionRequest) (*Exchange, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Epoch == EpochInitial || r.Epoch == EpochFinal {
		if old := s.byID[r.ID]; old != nil {
			s.end(old)
		}
		if r.Epoch == EpochFinal || !s.room(now, len(r.Wants)) {
			return &Exchange{Partitions: r.Wants, whole: true}, nil
		}
		one := s.create(now, r)
		return s.exchange(one, true), nil
	}
	one := s.byID[r.ID]
	switch {
	case one == nil:
		return nil, fmt.Errorf("%w: %d", ErrNoSession, r.ID)
	case r.Epoch != one.epoch:
		return nil, fmt.Errorf("%w: session %d is at %d, the request at %d", ErrSessionEpoch, r.ID, one.epoch, r.Epoch)
	case r.Names != one.names:
		return nil, fmt.Errorf("%w: session %d", ErrSessionNames, r.ID)
	case s.partitions+len(r.Wants) > maxSessionPartitions:
		s.end(one)
		return nil, fmt.Errorf("%w: %d has grown too large", ErrNoSession, r.ID)
	}
	s.update(one, r)
	one.used, one.epoch = now, nextEpoch(one.epoch)
	if len(one.wants) == 0 {
		s.end(one) // nothing is left to tell about
		return &Exchange{whole: true}, nil
	}
	return s.exchange(one, false), nil
}

// nextEpoch goes from the last number back to 1: 0 would begin anew.
func nextEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

func (s *Sessions) create(now time.Time, r SessionRequest) *session {
	one := &session{epoch: 1, names: r.Names, created: now, used: now, wants: make(map[SessionKey]*sessionWant, len(r.Wants))}
	for one.id == 0 || s.byID[one.id] != nil {
		one.id = rand.Int32()
	}
	s.byID[one.id] = one
	s.update(one, r)
	return one
}

// update takes in what a request changes. A partition that is both wanted and
// forgotten is wanted no more.
func (s *Sessions) update(one *session, r SessionRequest) {
	for _, want := range r.Wants {
		if known := one.wants[want.SessionKey]; known != nil {
			known.SessionPartition = want
			continue
		}
		known := &sessionWant{SessionPartition: want, high: record.NoOffset, logStart: record.NoOffset}
		one.wants[want.SessionKey] = known
		one.order = append(one.order, known)
		s.partitions++
	}
	forgot := false
	for _, key := range r.Forgotten {
		if known := one.wants[key]; known != nil {
			known.gone, forgot = true, true
			delete(one.wants, key)
			s.partitions--
		}
	}
	if forgot {
		kept := make([]*sessionWant, 0, len(one.wants))
		for _, want := range one.order {
			if !want.gone {
				kept = append(kept, want)
			}
		}
		one.order = kept
	}
}

func (s *Sessions) exchange(one *session, whole bool) *Exchange {
	e := &Exchange{sessions: s, session: one, whole: whole, wants: one.order, Partitions: make([]SessionPartition, len(one.order))}
	for i, want := range one.order {
		e.Partitions[i] = want.SessionPartition
	}
	return e
}

// SessionOutcome is what became of one partition of an Exchange.
type SessionOutcome struct {
	// Data says that the answer has records; Wrong that it has an error or
	// something else that the client must act upon.
	Data, Wrong             bool
	HighWatermark, LogStart record.Offset
}

// End notes what the answer tells, one outcome for each partition in their
// order. It says which session the client is in, 0 for none, and which
// partitions the answer must name; nil are all. Call it once.
func (e *Exchange) End(outcomes []SessionOutcome) (id int32, named []bool) {
	if e.session == nil {
		return 0, nil
	}
	e.sessions.mu.Lock()
	defer e.sessions.mu.Unlock()
	if !e.whole {
		named = make([]bool, len(outcomes))
	}
	data := false
	for i, o := range outcomes {
		want := e.wants[i]
		if !e.whole {
			named[i] = o.Data || o.Wrong || o.HighWatermark != want.high || o.LogStart != want.logStart
		}
		want.high, want.logStart = o.HighWatermark, o.LogStart
		if o.Wrong {
			want.high = record.NoOffset // what follows the error is told again
		}
		data = data || o.Data
	}
	// A fetch in the same session may have come between, over another
	// connection: then the order is its own.
	if one := e.session; data && len(one.order) == len(e.wants) && &one.order[0] == &e.wants[0] {
		one.order = dataLast(e.wants, outcomes)
	}
	return e.session.id, named
}

// dataLast is the order of the next fetch: as it was, but those that had data
// behind the others.
func dataLast(wants []*sessionWant, outcomes []SessionOutcome) []*sessionWant {
	order := make([]*sessionWant, 0, len(wants))
	for _, data := range []bool{false, true} {
		for i, want := range wants {
			if outcomes[i].Data == data {
				order = append(order, want)
			}
		}
	}
	return order
}

// end takes a session out.
func (s *Sessions) end(one *session) {
	delete(s.byID, one.id)
	s.partitions -= len(one.wants)
}

// room makes room for a session of so many partitions and says whether there
// is: a slot that is free, or that of the session unused for longest, if it was
// not used for some time, or that of the smallest one, if it has had its time
// and is smaller than the new one.
func (s *Sessions) room(now time.Time, partitions int) bool {
	if partitions == 0 || s.slots == 0 || s.partitions+partitions > maxSessionPartitions {
		return false
	}
	if len(s.byID) < s.slots {
		return true
	}
	var idle, small *session
	for _, one := range s.byID {
		if idle == nil || one.used.Before(idle.used) {
			idle = one
		}
		if now.Sub(one.created) >= s.minEviction && (small == nil || len(one.wants) < len(small.wants)) {
			small = one
		}
	}
	switch {
	case now.Sub(idle.used) >= s.minEviction:
		s.end(idle)
	case small != nil && len(small.wants) < partitions:
		s.end(small)
	default:
		return false
	}
	s.evictions.Inc()
	return true
}
