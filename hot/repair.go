// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"

	"firn/internal/vfs"
	"firn/record"
)

// What can be found damaged and is made good, as the label kind of
// firn_log_repairs_total has it.
const (
	repairIndex      = "index"
	repairSnapshot   = "snapshot"
	repairEpochs     = "epochs"
	repairCheckpoint = "checkpoint"
	repairTopicID    = "topic_id"
	repairTail       = "tail"
	repairStop       = "clean_stop"
)

var repairKinds = []string{repairIndex, repairSnapshot, repairEpochs, repairCheckpoint, repairTopicID, repairTail, repairStop}

// repaired tells of something that was damaged and is made good: one line, one
// count. Without an event among args it is log_repaired.
func (s *Store) repaired(kind, message string, args ...any) {
	s.tellRepair(s.logger, kind, message, args)
}

// repaired is Store.repaired for what belongs to one log.
func (l *Log) repaired(kind, message string, args ...any) {
	l.store.tellRepair(l.logger, kind, message, args)
}

func (s *Store) tellRepair(logger *slog.Logger, kind, message string, args []any) {
	if len(args) == 0 || args[0] != "event" {
		args = append([]any{"event", "log_repaired"}, args...)
	}
	logger.Log(context.Background(), slog.LevelWarn, message, append(args, "kind", kind)...)
	s.metrics.repairs.WithLabelValues(kind).Inc()
}

// isDamage says whether err tells of content that does not make sense.
func isDamage(err error) bool {
	var damage *record.CorruptionError
	return errors.As(err, &damage)
}

// readLogStarts reads where the logs begin. A damaged file is made anew from
// what a clean stop wrote down; without that, logs begin where their first
// segment does, as in Kafka: what clients had deleted and is there still can
// be read again.
func (s *Store) readLogStarts() error {
	path := filepath.Join(s.dir, logStartName)
	starts, err := openCheckpoint(s.fs, path)
	if isDamage(err) {
		s.repaired(repairCheckpoint, "log starts are lost: they are taken from the last clean stop, or logs begin at their first segment",
			"event", "log_starts_lost", "clean_stop", s.vouched != nil, "error", err)
		starts, err = emptyCheckpoint(s.fs, path), nil
		for tp, v := range s.vouched {
			if v.logStart > 0 {
				starts.set(tp, v.logStart)
			}
		}
	}
	s.logStarts = starts
	return err
}

// wasRefused says whether the log could not be opened the last time.
func (s *Store) wasRefused(tp record.TopicPartition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[tp]
}

// remakeEpochs makes leader-epoch-checkpoint anew, which cause says is damaged.
func (l *Log) remakeEpochs(cause error) error {
	l.repaired(repairEpochs, "the history of leader epochs is damaged and is made anew from the batches", "event", "epochs_lost", "error", cause)
	epochs, err := l.rebuildEpochs()
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.epochs = epochs
	l.epochsChanged++
	l.mu.Unlock()
	if err := l.store.beginWriting(); err != nil {
		return err
	}
	// On a full disk the file follows with the next sync.
	if err := l.writeEpochs(); err != nil && !vfs.IsFull(err) {
		return err
	}
	return nil
}

// sealedBelow is an offset below which the log is known to be synced though the
// recovery points are lost, from the order in which segments are completed: one
// after another, each with the snapshot at its end. What was synced must not be
// cut, whatever becomes of the checkpoint.
func (inv *inventory) sealedBelow() record.Offset {
	for i := len(inv.bases) - 1; i > 0; i-- {
		if _, found := slices.BinarySearch(inv.snapshots, inv.bases[i]); found {
			return inv.bases[i-1]
		}
	}
	return 0
}

// rebuildEpochs is the history of leader epochs as the batches of all segments
// tell it. What lies below the first segment is not known any more.
func (l *Log) rebuildEpochs() (record.Epochs, error) {
	var epochs record.Epochs
	for _, s := range l.list() {
		if err := s.eachHeader(func(h record.Header) {
			if last, ok := epochs.Last(); h.LeaderEpoch >= 0 && (!ok || last.Epoch < h.LeaderEpoch) {
				epochs = epochs.Append(record.EpochEntry{Epoch: h.LeaderEpoch, StartOffset: h.BaseOffset})
			}
		}); err != nil {
			return nil, fmt.Errorf("rebuild leader epochs: %w", err)
		}
	}
	return epochs, nil
}

// eachHeader calls do for the header of each batch up to the first that is
// damaged, which is for recovery to judge.
func (s *Segment) eachHeader(do func(record.Header)) error {
	f, err := s.acquire()
	if err != nil {
		return err
	}
	defer s.release()
	var c cursor
	s.walk(&c, f, 0, s.Size())
	defer c.done()
	for {
		h, _, err := c.header()
		if errors.Is(err, io.EOF) || isDamage(err) {
			return nil
		}
		if err != nil {
			return err
		}
		do(h)
	}
}
