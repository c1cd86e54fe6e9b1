// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"firn/record"
)

// BlockSize is what one CRC-32C of a segment object covers, in bytes: the
// smallest range of the log that can be read and believed.
const BlockSize = 1 << 20

// indexInterval is how many bytes of log lie at least between two entries of
// the indexes in a segment object. It is Kafka's default, whatever the topic's
// index.interval.bytes: equal logs give equal objects.
const indexInterval = 4096

// The footer's parts. docs/format/segment-object.md draws them.
const (
	footerVersion      = 1
	footerHeaderSize   = 96
	sectionEntrySize   = 56
	footerTrailerSize  = 16
	sectionCount       = 6
	maxLogSize         = math.MaxInt32 // positions in the offset index are int32
	maxFooterSize      = footerHeaderSize + sectionCount*sectionEntrySize + 4*((maxLogSize+BlockSize-1)/BlockSize) + footerTrailerSize
	minFooterSize      = footerHeaderSize + sectionCount*sectionEntrySize + 4 + footerTrailerSize
	maxIndexAreaSize   = 256 << 20 // everything behind the log; bounds what one GET of it may allocate
	footerMagic        = "firn.seg"
	footerTrailerMagic = "firn.end"
)

// SectionKind tells the sections of a segment object apart.
type SectionKind uint16

// The sections of version 1, in the order in which they lie in the object.
const (
	SectionLog SectionKind = iota + 1
	SectionOffsetIndex
	SectionTimeIndex
	SectionAbortedTxns
	SectionProducerState
	SectionLeaderEpochs
)

// String is the section's name for people.
func (k SectionKind) String() string {
	switch k {
	case SectionLog:
		return "log"
	case SectionOffsetIndex:
		return "offset index"
	case SectionTimeIndex:
		return "time index"
	case SectionAbortedTxns:
		return "aborted transactions"
	case SectionProducerState:
		return "producer state"
	case SectionLeaderEpochs:
		return "leader epochs"
	default:
		return fmt.Sprintf("section %d", uint16(k))
	}
}

// Section is where one section lies in its object, and what it must hold.
type Section struct {
	Kind     SectionKind
	Position int64 // bytes from the start of the object
	Length   int64 // bytes
	Digest   [sha256.Size]byte
}

// Footer is the end of a segment object: it says where everything is and
// carries a digest of every section and a CRC-32C of every block of the log, so
// that its own hash, which stands in the object's key, vouches for every byte.
// It is immutable once built or parsed.
//
// Invariants, checked by whoever builds or parses one:
//
//	F1  BaseOffset < NextOffset, at most record.MaxRelativeOffset apart,
//	    MaxTimestampOffset lies between them, and FirstEpoch <= LastEpoch.
//	F2  The sections are the six of version 1, in order, without a hole from
//	    byte 0 to the footer.
//	F3  There is one block CRC for each BlockSize bytes of the log or the rest.
//	F4  1 <= Batches, Records <= NextOffset - BaseOffset.
type Footer struct {
	BaseOffset, NextOffset record.Offset
	// FirstEpoch and LastEpoch are the leader epochs of the first and the last
	// batch.
	FirstEpoch, LastEpoch record.Epoch
	// FirstTimestamp is the base timestamp of the first batch, MaxTimestamp the
	// largest of all batches, in ms since the Unix epoch; NoTimestamp when none
	// is known.
	FirstTimestamp, MaxTimestamp int64
	// MaxTimestampOffset is the last offset of the first batch that reaches
	// MaxTimestamp, as in Kafka's time index; of the first batch when no batch
	// has a timestamp.
	MaxTimestampOffset record.Offset
	Records, Batches   int64
	Sections           [sectionCount]Section
	// BlockCRCs are the CRC-32Cs of the log's blocks.
	BlockCRCs []uint32
}

// Section finds a section. A kind that version 1 does not know is empty.
func (f *Footer) Section(k SectionKind) Section {
	if k < SectionLog || int(k) > sectionCount {
		return Section{Kind: k}
	}
	return f.Sections[k-1]
}

// LogSize is the size of the log section in bytes.
func (f *Footer) LogSize() int64 { return f.Sections[SectionLog-1].Length }

// Size is the size of the encoded footer in bytes.
func (f *Footer) Size() int64 {
	return footerHeaderSize + sectionCount*sectionEntrySize + 4*int64(len(f.BlockCRCs)) + footerTrailerSize
}

// ObjectSize is the size of the whole object in bytes.
func (f *Footer) ObjectSize() int64 {
	last := f.Sections[sectionCount-1]
	return last.Position + last.Length + f.Size()
}

// Marshal encodes the footer. Equal footers give equal bytes.
func (f *Footer) Marshal() []byte {
	b := make([]byte, 0, f.Size())
	b = append(b, footerMagic...)
	b = binary.BigEndian.AppendUint16(b, footerVersion)
	b = binary.BigEndian.AppendUint16(b, 0) // flags, none in version 1
	b = binary.BigEndian.AppendUint32(b, BlockSize)
	b = binary.BigEndian.AppendUint32(b, indexInterval)
	b = binary.BigEndian.AppendUint32(b, sectionCount)
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.BlockCRCs)))
	b = binary.BigEndian.AppendUint32(b, 0) // reserved
	b = binary.BigEndian.AppendUint32(b, uint32(f.FirstEpoch))
	b = binary.BigEndian.AppendUint32(b, uint32(f.LastEpoch))
	for _, v := range []int64{
		int64(f.BaseOffset), int64(f.NextOffset), f.FirstTimestamp, f.MaxTimestamp,
		int64(f.MaxTimestampOffset), f.Records, f.Batches,
	} {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	for _, s := range f.Sections {
		b = binary.BigEndian.AppendUint16(b, uint16(s.Kind))
		b = binary.BigEndian.AppendUint16(b, 0) // flags, none in version 1
		b = binary.BigEndian.AppendUint32(b, 0) // reserved
		b = binary.BigEndian.AppendUint64(b, uint64(s.Position))
		b = binary.BigEndian.AppendUint64(b, uint64(s.Length))
		b = append(b, s.Digest[:]...)
	}
	for _, crc := range f.BlockCRCs {
		b = binary.BigEndian.AppendUint32(b, crc)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(f.Size()))
	b = binary.BigEndian.AppendUint32(b, record.CRC32C(b))
	return append(b, footerTrailerMagic...)
}

// footerHash is what stands in the object's key: the first 16 bytes of SHA-256
// over the encoded footer.
func footerHash(encoded []byte) Hash {
	sum := sha256.Sum256(encoded)
	return Hash(sum[:len(Hash{})])
}

// errFooter is what a footer is refused with, before the object's key is known.
type errFooter struct {
	at     int64 // bytes from the start of the object
	reason string
}

func (e *errFooter) Error() string { return e.reason }

// ParseFooter reads the footer at the end of tail, which is the end of an
// object of objectSize bytes. The error is a *record.CorruptionError that names
// key, or wraps record.ErrUnsupportedVersion for an object that a newer Firn
// wrote, which is whole but not ours to read.
func ParseFooter(key string, tail []byte, objectSize int64) (*Footer, error) {
	f, err := parseFooter(tail, objectSize)
	var bad *errFooter
	switch {
	case err == nil:
		return f, nil
	case errors.As(err, &bad):
		return nil, fmt.Errorf("parse footer: %w", &record.CorruptionError{Path: key, Position: bad.at, Reason: bad.reason})
	default:
		return nil, fmt.Errorf("parse footer of %s: %w", key, err)
	}
}

func parseFooter(tail []byte, objectSize int64) (*Footer, error) {
	b, err := cutFooter(tail, objectSize)
	if err != nil {
		return nil, err
	}
	start := objectSize - int64(len(b))
	if string(b[:8]) != footerMagic {
		return nil, &errFooter{start, fmt.Sprintf("footer begins with %q, want %q", b[:8], footerMagic)}
	}
	if v, flags := binary.BigEndian.Uint16(b[8:]), binary.BigEndian.Uint16(b[10:]); v != footerVersion || flags != 0 {
		return nil, fmt.Errorf("%w: segment object of version %d with flags %#x, only version %d without flags is known", record.ErrUnsupportedVersion, v, flags, footerVersion)
	}
	if block, interval := binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint32(b[16:]); block != BlockSize || interval != indexInterval {
		return nil, &errFooter{start + 12, fmt.Sprintf("blocks of %d bytes indexed every %d, want %d and %d", block, interval, BlockSize, indexInterval)}
	}
	sections, blocks := binary.BigEndian.Uint32(b[20:]), int64(binary.BigEndian.Uint32(b[24:]))
	if sections != sectionCount || binary.BigEndian.Uint32(b[28:]) != 0 {
		return nil, &errFooter{start + 20, fmt.Sprintf("%d sections, want %d", sections, sectionCount)}
	}
	if want := footerHeaderSize + sectionCount*sectionEntrySize + 4*blocks + footerTrailerSize; int64(len(b)) != want {
		return nil, &errFooter{start + 24, fmt.Sprintf("a footer of %d bytes, with %d blocks it has %d", len(b), blocks, want)}
	}
	f := &Footer{
		FirstEpoch:         record.Epoch(binary.BigEndian.Uint32(b[32:])),
		LastEpoch:          record.Epoch(binary.BigEndian.Uint32(b[36:])),
		BaseOffset:         record.Offset(binary.BigEndian.Uint64(b[40:])),
		NextOffset:         record.Offset(binary.BigEndian.Uint64(b[48:])),
		FirstTimestamp:     int64(binary.BigEndian.Uint64(b[56:])),
		MaxTimestamp:       int64(binary.BigEndian.Uint64(b[64:])),
		MaxTimestampOffset: record.Offset(binary.BigEndian.Uint64(b[72:])),
		Records:            int64(binary.BigEndian.Uint64(b[80:])),
		Batches:            int64(binary.BigEndian.Uint64(b[88:])),
		BlockCRCs:          make([]uint32, blocks),
	}
	rest := b[footerHeaderSize:]
	for i := range f.Sections {
		if binary.BigEndian.Uint16(rest[2:]) != 0 || binary.BigEndian.Uint32(rest[4:]) != 0 {
			return nil, fmt.Errorf("%w: section %d has flags that are not known", record.ErrUnsupportedVersion, i+1)
		}
		f.Sections[i] = Section{
			Kind:     SectionKind(binary.BigEndian.Uint16(rest)),
			Position: int64(binary.BigEndian.Uint64(rest[8:])),
			Length:   int64(binary.BigEndian.Uint64(rest[16:])),
			Digest:   [sha256.Size]byte(rest[24:sectionEntrySize]),
		}
		rest = rest[sectionEntrySize:]
	}
	for i := range f.BlockCRCs {
		f.BlockCRCs[i] = binary.BigEndian.Uint32(rest[4*i:])
	}
	if err := f.check(objectSize); err != nil {
		return nil, &errFooter{start, err.Error()}
	}
	return f, nil
}

// cutFooter finds the footer in the tail by its trailer and checks its CRC.
func cutFooter(tail []byte, objectSize int64) ([]byte, error) {
	end := int64(len(tail))
	if end > objectSize || end < footerTrailerSize {
		return nil, &errFooter{0, fmt.Sprintf("%d bytes from the end of an object of %d", end, objectSize)}
	}
	trailer := tail[end-footerTrailerSize:]
	if string(trailer[8:]) != footerTrailerMagic {
		return nil, &errFooter{objectSize - 8, fmt.Sprintf("object ends with %q, want %q", trailer[8:], footerTrailerMagic)}
	}
	size := int64(binary.BigEndian.Uint32(trailer))
	if size < minFooterSize || size > maxFooterSize || size > end {
		return nil, &errFooter{objectSize - footerTrailerSize, fmt.Sprintf("a footer of %d bytes, want %d to %d", size, minFooterSize, min(maxFooterSize, end))}
	}
	b := tail[end-size:]
	if got, want := record.CRC32C(b[:size-12]), binary.BigEndian.Uint32(trailer[4:]); got != want {
		return nil, &errFooter{objectSize - size, fmt.Sprintf("CRC-32C of the footer is %08x, it says %08x", got, want)}
	}
	return b, nil
}

// check holds F1 to F4 against an object of objectSize bytes.
func (f *Footer) check(objectSize int64) error {
	switch span := int64(f.NextOffset) - int64(f.BaseOffset); {
	case f.BaseOffset < 0 || f.NextOffset <= f.BaseOffset || span-1 > record.MaxRelativeOffset:
		return fmt.Errorf("offsets from %d to %d", f.BaseOffset, f.NextOffset)
	case f.FirstEpoch < record.NoEpoch || f.LastEpoch < f.FirstEpoch:
		return fmt.Errorf("leader epochs from %d to %d", f.FirstEpoch, f.LastEpoch)
	case f.MaxTimestamp < record.NoTimestamp || f.MaxTimestampOffset < f.BaseOffset || f.MaxTimestampOffset >= f.NextOffset:
		return fmt.Errorf("maximum timestamp %d at offset %d, in offsets from %d to %d", f.MaxTimestamp, f.MaxTimestampOffset, f.BaseOffset, f.NextOffset)
	case f.Batches < 1 || f.Batches > f.LogSize()/record.HeaderSize || f.Records < 0 || f.Records > span:
		return fmt.Errorf("%d records in %d batches at %d offsets in %d bytes", f.Records, f.Batches, span, f.LogSize())
	}
	return f.checkSections(objectSize)
}

func (f *Footer) checkSections(objectSize int64) error {
	position := int64(0)
	for i, s := range f.Sections {
		if s.Kind != SectionKind(i+1) {
			return fmt.Errorf("section %d is %v, want %v", i+1, s.Kind, SectionKind(i+1))
		}
		if s.Position != position || s.Length < 0 || s.Length > objectSize-position {
			return fmt.Errorf("%v of %d bytes at %d in an object of %d, want it at %d", s.Kind, s.Length, s.Position, objectSize, position)
		}
		position += s.Length
	}
	switch logSize := f.LogSize(); {
	case logSize < record.HeaderSize || logSize > maxLogSize:
		return fmt.Errorf("a log of %d bytes, want %d to %d", logSize, record.HeaderSize, maxLogSize)
	case f.Section(SectionOffsetIndex).Length%record.IndexEntrySize != 0,
		f.Section(SectionTimeIndex).Length%record.TimeIndexEntrySize != 0,
		f.Section(SectionAbortedTxns).Length%record.AbortedTxnSize != 0:
		return errors.New("a section holds a part of an entry")
	case position-logSize > maxIndexAreaSize-maxFooterSize:
		return fmt.Errorf("%d bytes of sections behind the log, at most %d", position-logSize, maxIndexAreaSize-maxFooterSize)
	case int64(len(f.BlockCRCs)) != blocksOf(logSize):
		return fmt.Errorf("%d block CRCs for a log of %d bytes, want %d", len(f.BlockCRCs), logSize, blocksOf(logSize))
	case f.ObjectSize() != objectSize:
		return fmt.Errorf("object has %d bytes, its footer says %d", objectSize, f.ObjectSize())
	}
	return nil
}

// blocksOf is how many blocks a log of size bytes has.
func blocksOf(size int64) int64 { return (size + BlockSize - 1) / BlockSize }
