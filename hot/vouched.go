// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"firn/internal/vfs"
	"firn/record"
)

// vouchedLog is what a clean stop says of one log, so that the start after it
// need not look into the partition's directory. It holds only for a directory
// and an active segment that are still as they were left: their times of
// change are part of it. docs/format/local.md draws the file.
type vouchedLog struct {
	tp record.TopicPartition
	id record.TopicID
	// refused says that the log could not be opened, and that nothing is
	// vouched for: a clean stop does not make a damaged log a good one.
	refused bool
	// aborts says that a segment may have an aborted transaction.
	aborts bool
	// dirTime is when the directory's entries changed last, in ns since the
	// Unix epoch, and activeTime the same of the active segment's bytes.
	dirTime, activeTime int64
	logStart, next      record.Offset
	maxPID              int64
	// firstStamp and firstAppend (ns) are those of the active segment.
	firstStamp, firstAppend int64
	segments                []vouchedSegment // ascending, the active one last
	epochs                  record.Epochs
	// producers is the snapshot at next, nil where it is larger than
	// maxVouchedProducers: then its file is read.
	producers []byte
}

// vouchedSegment is one segment; modified is in ns since the Unix epoch.
type vouchedSegment struct {
	base           record.Offset
	size, modified int64
}

const (
	vouchedMagic = "FIRNSTOP"
	// vouchedVersion is the only version of the file so far.
	vouchedVersion = 1
	// vouchedHead is the size of magic, version, CRC and count.
	vouchedHead = 20
	// The flags of a log.
	vouchedRefused = 1
	vouchedAborts  = 2
	// maxVouchedProducers bounds the part of one log's producers in the file.
	maxVouchedProducers = 4 << 10
)

var vouchedCRC = crc32.MakeTable(crc32.Castagnoli)

// marshalVouched is the content of the file.
func marshalVouched(logs []vouchedLog) []byte {
	b := append(make([]byte, 0, 256*len(logs)+vouchedHead), vouchedMagic...)
	b = binary.BigEndian.AppendUint32(b, vouchedVersion)
	b = binary.BigEndian.AppendUint32(b, 0) // the CRC
	b = binary.BigEndian.AppendUint32(b, uint32(len(logs)))
	for _, l := range logs {
		b = l.append(b)
	}
	binary.BigEndian.PutUint32(b[12:], crc32.Checksum(b[16:], vouchedCRC))
	return b
}

func (l *vouchedLog) append(b []byte) []byte {
	u32 := func(v int) { b = binary.BigEndian.AppendUint32(b, uint32(v)) }
	u64 := func(v int64) { b = binary.BigEndian.AppendUint64(b, uint64(v)) }
	u32(len(l.tp.Topic))
	b = append(b, l.tp.Topic...)
	u32(int(l.tp.Partition))
	b = append(b, l.id[:]...)
	flags := 0
	if l.refused {
		flags |= vouchedRefused
	}
	if l.aborts {
		flags |= vouchedAborts
	}
	u32(flags)
	for _, v := range []int64{l.dirTime, l.activeTime, int64(l.logStart), int64(l.next), l.maxPID, l.firstStamp, l.firstAppend} {
		u64(v)
	}
	u32(len(l.segments))
	for _, s := range l.segments {
		u64(int64(s.base))
		u64(s.size)
		u64(s.modified)
	}
	u32(len(l.epochs))
	for _, e := range l.epochs {
		u32(int(e.Epoch))
		u64(int64(e.StartOffset))
	}
	u32(len(l.producers))
	return append(b, l.producers...)
}

// parseVouched reads the content of the file. The error is a
// *record.CorruptionError, or wraps record.ErrUnsupportedVersion.
func parseVouched(b []byte) (map[record.TopicPartition]*vouchedLog, error) {
	bad := func(reason string) error { return &record.CorruptionError{Reason: reason} }
	if len(b) < vouchedHead || string(b[:8]) != vouchedMagic {
		return nil, bad("this is no record of a clean stop")
	}
	if v := binary.BigEndian.Uint32(b[8:]); v != vouchedVersion {
		return nil, fmt.Errorf("%w: record of a clean stop, version %d", record.ErrUnsupportedVersion, v)
	}
	if binary.BigEndian.Uint32(b[12:]) != crc32.Checksum(b[16:], vouchedCRC) {
		return nil, bad("the CRC does not match")
	}
	r := fields{rest: b[vouchedHead:]}
	count := int(binary.BigEndian.Uint32(b[16:]))
	logs := make(map[record.TopicPartition]*vouchedLog, min(count, len(b)/64))
	for range count {
		l := r.vouchedLog()
		if r.short || !l.sane() {
			return nil, bad(fmt.Sprintf("log %d of %d does not make sense", len(logs), count))
		}
		logs[l.tp] = l
	}
	if len(r.rest) > 0 || len(logs) != count {
		return nil, bad("it does not hold the logs that it announces")
	}
	return logs, nil
}

// sane says whether what was read can be a log.
func (l *vouchedLog) sane() bool {
	if record.CheckTopicName(l.tp.Topic) != nil || l.tp.Partition < 0 {
		return false
	}
	if l.refused {
		return true
	}
	next := record.Offset(-1)
	for _, s := range l.segments {
		if s.base <= next || s.size < 0 || s.size > maxSegmentBytes {
			return false
		}
		next = s.base
	}
	last, epoch := record.Offset(-1), record.NoEpoch
	for _, e := range l.epochs {
		if e.Epoch <= epoch || e.StartOffset <= last {
			return false
		}
		epoch, last = e.Epoch, e.StartOffset
	}
	return len(l.segments) > 0 && l.next >= next && l.logStart >= 0 && l.logStart <= l.next
}

// fields takes bytes apart; short is set when they end too early, and what was
// read then is zero.
type fields struct {
	rest  []byte
	short bool
}

func (f *fields) bytes(n int) []byte {
	if f.short || n < 0 || n > len(f.rest) {
		f.short = true
		return make([]byte, min(max(n, 0), 16))
	}
	b := f.rest[:n:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) u32() int   { return int(int32(binary.BigEndian.Uint32(f.bytes(4)))) }
func (f *fields) i64() int64 { return int64(binary.BigEndian.Uint64(f.bytes(8))) }

// count is a number of elements of size bytes each that are all there.
func (f *fields) count(size int) int {
	n := f.u32()
	if n < 0 || n > len(f.rest)/size {
		f.short = true
		return 0
	}
	return n
}

func (f *fields) vouchedLog() *vouchedLog {
	l := new(vouchedLog)
	l.tp.Topic = string(f.bytes(f.count(1)))
	l.tp.Partition = int32(f.u32())
	copy(l.id[:], f.bytes(len(l.id)))
	flags := f.u32()
	l.refused, l.aborts = flags&vouchedRefused != 0, flags&vouchedAborts != 0
	l.dirTime, l.activeTime = f.i64(), f.i64()
	l.logStart, l.next = record.Offset(f.i64()), record.Offset(f.i64())
	l.maxPID, l.firstStamp, l.firstAppend = f.i64(), f.i64(), f.i64()
	l.segments = make([]vouchedSegment, f.count(24))
	for i := range l.segments {
		l.segments[i] = vouchedSegment{record.Offset(f.i64()), f.i64(), f.i64()}
	}
	l.epochs = make(record.Epochs, f.count(12))
	for i := range l.epochs {
		l.epochs[i] = record.EpochEntry{Epoch: record.Epoch(f.u32()), StartOffset: record.Offset(f.i64())}
	}
	if n := f.count(1); n > 0 {
		l.producers = f.bytes(n)
	}
	return l
}

// readVouched reads what the last clean stop has left. Whatever is wrong with
// it costs time, not records: without it every directory is looked into.
func (s *Store) readVouched() {
	path := filepath.Join(s.dir, vouchedName)
	b, err := vfs.ReadFile(s.fs, path, maxSmallFile)
	if err == nil {
		s.vouched, err = parseVouched(b)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.repaired(repairStop, "the record of the clean stop cannot be read: every directory is looked into", "error", record.InFile(err, path))
	}
	if err == nil {
		s.vouchedSum = crc32.Checksum(b, vouchedCRC)
	}
}

// restorePoints takes lost recovery points from what the clean stop wrote down.
func (s *Store) restorePoints() {
	if !s.pointsLost {
		return
	}
	for tp, v := range s.vouched {
		if !v.refused {
			s.recoveryPoints.set(tp, v.next)
		}
	}
}

// vouchedDir is what is vouched for of a directory that is as it was left, or
// nil.
func (s *Store) vouchedDir(tp record.TopicPartition) *vouchedLog {
	v := s.vouched[tp]
	if v == nil || v.refused {
		return nil
	}
	info, err := s.fs.Stat(filepath.Join(s.dir, tp.String()))
	if err != nil || info.ModTime().UnixNano() != v.dirTime {
		delete(s.vouched, tp)
		return nil
	}
	return v
}

// takeVouched answers once what is vouched for of a log with this id.
func (s *Store) takeVouched(tp record.TopicPartition, id record.TopicID) *vouchedLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.vouched[tp]
	delete(s.vouched, tp)
	if v != nil && !v.refused && v.id == id {
		return v
	}
	if v != nil && v.refused {
		s.refused[tp] = true
	}
	return nil
}

// loadVouched brings a log into memory by what a clean stop says of it; false
// means that it is not as it was left.
func (l *Log) loadVouched(v *vouchedLog) bool {
	last := v.segments[len(v.segments)-1]
	info, err := l.store.fs.Stat(segmentFile(l.dir, last.base, logSuffix))
	if err != nil || info.Size() != last.size || info.ModTime().UnixNano() != v.activeTime ||
		l.store.recoveryPoints.get(l.tp) != v.next || l.LogStartOffset() > v.next {
		return false
	}
	snapshot := v.producers
	if snapshot == nil {
		if snapshot, err = vfs.ReadFile(l.store.fs, segmentFile(l.dir, v.next, snapshotSuffix), maxSmallFile); err != nil {
			return false
		}
	}
	producers, err := record.ParseProducers(snapshot)
	if err != nil {
		return false
	}
	list := make([]*Segment, len(v.segments))
	for i, s := range v.segments {
		list[i] = vouchedFor(l, s)
		if i > 0 {
			list[i-1].next, list[i-1].sealed, list[i-1].complete = s.base, true, true
			list[i-1].handle.least = v.segments[i-1].size
		}
	}
	active := list[len(list)-1]
	active.next, active.firstStamp, active.firstAppend = v.next, v.firstStamp, timeOf(v.firstAppend)
	if v.next != active.base {
		l.strays = append(l.strays, v.next)
	}
	l.epochs = v.epochs
	l.maxPID.Store(v.maxPID)
	l.setProducers(producers)
	l.aborts.Store(v.aborts)
	l.mu.Lock()
	l.setSegmentsLocked(list)
	l.mu.Unlock()
	l.end.Store(int64(v.next))
	l.durable.Store(int64(v.next))
	return true
}

// vouch describes a log that finish has made durable.
func (l *Log) vouch() (vouchedLog, error) {
	v := vouchedLog{tp: l.tp, id: l.id, logStart: l.LogStartOffset(), next: l.EndOffset(), maxPID: l.MaxProducerID(), epochs: l.Epochs(), aborts: l.aborts.Load()}
	for _, s := range l.list() {
		s.mu.Lock()
		v.segments = append(v.segments, vouchedSegment{s.base, s.size, nanosOf(s.modified)})
		v.firstStamp, v.firstAppend = s.firstStamp, nanosOf(s.firstAppend)
		s.mu.Unlock()
	}
	dir, err := l.store.fs.Stat(l.dir)
	if err != nil {
		return v, err
	}
	active, err := l.store.fs.Stat(l.active().path)
	if err != nil {
		return v, err
	}
	v.dirTime, v.activeTime = dir.ModTime().UnixNano(), active.ModTime().UnixNano()
	if b := l.producers.Marshal(v.next); len(b) <= maxVouchedProducers {
		v.producers = b
	}
	return v, nil
}

// writeVouched writes down what the stop leaves, unless it is what the file
// says. All logs were finished.
func (s *Store) writeVouched(logs []*Log) error {
	all := make([]vouchedLog, 0, len(logs))
	for _, l := range logs {
		v, err := l.vouch()
		if err != nil {
			return fmt.Errorf("write down the clean stop: %w", err)
		}
		all = append(all, v)
	}
	for tp := range s.refused {
		if s.logs[tp] == nil {
			all = append(all, vouchedLog{tp: tp, refused: true})
		}
	}
	for tp, v := range s.vouched { // of those that nobody opened
		if _, there := s.found[tp]; there && !v.refused && s.logs[tp] == nil {
			all = append(all, *v)
		}
	}
	slices.SortFunc(all, func(a, b vouchedLog) int {
		return cmp.Or(strings.Compare(a.tp.Topic, b.tp.Topic), cmp.Compare(a.tp.Partition, b.tp.Partition))
	})
	b := marshalVouched(all)
	if !s.dirty.Load() && crc32.Checksum(b, vouchedCRC) == s.vouchedSum {
		return nil
	}
	return vfs.ReplaceFile(s.fs, filepath.Join(s.dir, vouchedName), b)
}
