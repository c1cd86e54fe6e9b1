// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"time"

	"firn/record"
)

// janitorTick is how often the janitor looks at what is due.
const janitorTick = 500 * time.Millisecond

// janitor does what is due by the clock: rolls by RollAfter, deletes the
// directories that were moved aside, writes the recovery points, expires
// producers, and tries again what failed in the background.
func (s *Store) janitor() {
	tick := time.NewTicker(janitorTick)
	defer tick.Stop()
	checkpointed := s.now()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		if s.Failed() != nil {
			return // another directory may be in its place
		}
		now := s.now()
		checkpoint := now.Sub(checkpointed) >= s.checkpointEvery
		for _, l := range s.openLogs() {
			l.tidy(now, checkpoint)
		}
		s.emptyTrash(now)
		if checkpoint {
			checkpointed = now
			s.checkpoint()
		}
	}
}

// openLogs are the logs that are open at the moment.
func (s *Store) openLogs() []*Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	logs := make([]*Log, 0, len(s.logs))
	for _, l := range s.logs {
		if l != nil {
			logs = append(logs, l)
		}
	}
	return logs
}

// tidy is the janitor's work on one log.
func (l *Log) tidy(now time.Time, checkpoint bool) {
	if l.writable() != nil {
		return
	}
	if after := l.options().RollAfter; after > 0 && l.active().dueToRoll(after, now) {
		l.rollIfDue(after, now)
	}
	if !checkpoint {
		return
	}
	l.store.sealer.request(l)
	l.expireProducers(now)
	l.sealMu.Lock()
	err := l.purge()
	l.sealMu.Unlock()
	if err != nil {
		l.logger.Warn("dropped segments are not deleted yet", "event", "segment_delete_failed", "error", err)
	}
}

// expireGrace is how long after its opening a log forgets no producer. What was
// loaded has only the batches' timestamps to tell how old it is, and a producer
// of old timestamps may be in the middle of a retry.
const expireGrace = 10 * time.Minute

func (l *Log) expireProducers(now time.Time) {
	if now.Sub(l.opened) < expireGrace {
		return
	}
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	l.producers.Expire(now.UnixMilli(), l.options().ProducerExpiry)
}

// rollIfDue rolls unless an append was quicker.
func (l *Log) rollIfDue(after time.Duration, now time.Time) {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if l.writable() != nil || !l.active().dueToRoll(after, now) {
		return
	}
	if err := l.rollLocked(); err != nil {
		l.logger.Warn("log did not roll by time", "event", "roll_failed", "error", err)
	}
}

// checkpoint writes the recovery points. Without a change since the last
// start there is nothing to write, and the clean mark stays.
func (s *Store) checkpoint() {
	if !s.dirty.Load() {
		return
	}
	if err := s.recoveryPoints.write(); err != nil {
		s.logger.Warn("recovery points not written", "event", "checkpoint_failed", "error", err)
		s.doubt(err)
	}
}

// emptyTrash removes the directories whose time has come.
func (s *Store) emptyTrash(now time.Time) {
	s.mu.Lock()
	var due, later []trash
	for _, t := range s.trash {
		if now.Before(t.due) {
			later = append(later, t)
		} else {
			due = append(due, t)
		}
	}
	s.trash = later
	s.mu.Unlock()
	for _, t := range due {
		err := s.beginWriting()
		if err == nil {
			err = s.fs.RemoveAll(t.dir)
		}
		if err != nil {
			s.logger.Warn("deleted log is not removed yet", "event", "log_delete_failed", "dir", t.dir, "error", err)
			s.doubt(err)
			s.mu.Lock()
			s.trash = append(s.trash, trash{dir: t.dir, due: now.Add(s.checkpointEvery)})
			s.mu.Unlock()
		}
	}
}

// deleteAfter is when a directory that is moved aside now may go.
func (s *Store) deleteAfter() time.Time { return s.now().Add(max(s.deleteDelay, 0)) }

// forget takes a deleted log out of the checkpoints. A partition created anew
// under the same name must not begin with them.
func (s *Store) forget(tp record.TopicPartition) error {
	s.recoveryPoints.remove(tp)
	s.logStarts.remove(tp)
	if err := s.logStarts.write(); err != nil {
		return err
	}
	return s.recoveryPoints.write()
}
