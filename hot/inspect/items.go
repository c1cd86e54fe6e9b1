// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/base64"
	"unicode/utf8"

	"firn/record"
)

// Item is one thing that Dump found. Its dynamic type is one of the pointers
// to the types below, whose JSON is the output of machines.
type Item interface {
	// At is the file that holds the item.
	At() string
	// Kind is the item's word in the field "kind".
	Kind() string
}

// place is what all items have.
type place struct {
	What string `json:"kind"`
	File string `json:"file"`
}

func (p place) At() string   { return p.File }
func (p place) Kind() string { return p.What }

// Batch is the header of a batch in a .log file.
type Batch struct {
	place
	Position      int64         `json:"position"`
	Bytes         int64         `json:"bytes"`
	BaseOffset    record.Offset `json:"base_offset"`
	LastOffset    record.Offset `json:"last_offset"`
	Records       int32         `json:"records"`
	LeaderEpoch   record.Epoch  `json:"leader_epoch"`
	Codec         string        `json:"codec"`
	LogAppendTime bool          `json:"log_append_time"`
	BaseTimestamp int64         `json:"base_timestamp_ms"`
	MaxTimestamp  int64         `json:"max_timestamp_ms"`
	ProducerID    int64         `json:"producer_id"`
	ProducerEpoch int16         `json:"producer_epoch"`
	BaseSequence  int32         `json:"base_sequence"`
	LastSequence  int32         `json:"last_sequence"`
	Transactional bool          `json:"transactional"`
	Control       bool          `json:"control"`
	CRC           uint32        `json:"crc"`
	// Valid says whether the CRC is that of the bytes.
	Valid bool `json:"valid"`
}

// Record is one record of a batch. Of a key or value one of the two forms is
// set: the text where the bytes are UTF-8, base64 where not; neither for null.
type Record struct {
	place
	Offset        record.Offset `json:"offset"`
	Timestamp     int64         `json:"timestamp_ms"`
	Sequence      int32         `json:"sequence"`
	Key           *string       `json:"key"`
	KeyBase64     string        `json:"key_base64,omitempty"`
	Payload       *string       `json:"payload"`
	PayloadBase64 string        `json:"payload_base64,omitempty"`
	Headers       []Header      `json:"headers,omitempty"`
	// Marker is set for the record of a control batch that ends a transaction.
	Marker *Marker `json:"marker,omitempty"`
}

// Header is one header of a record, in the forms of a Record's value.
type Header struct {
	Name        string  `json:"name"`
	Value       *string `json:"value"`
	ValueBase64 string  `json:"value_base64,omitempty"`
}

// Marker is the end of a transaction.
type Marker struct {
	Type             string `json:"type"` // commit or abort
	CoordinatorEpoch int32  `json:"coordinator_epoch"`
}

// IndexEntry is an entry of an offset index.
type IndexEntry struct {
	place
	Offset   record.Offset `json:"offset"`
	Position int32         `json:"position"`
}

// TimeIndexEntry is an entry of a time index.
type TimeIndexEntry struct {
	place
	Timestamp int64         `json:"timestamp_ms"`
	Offset    record.Offset `json:"offset"`
}

// AbortedTxn is an entry of a transaction index.
type AbortedTxn struct {
	place
	ProducerID       int64         `json:"producer_id"`
	FirstOffset      record.Offset `json:"first_offset"`
	LastOffset       record.Offset `json:"last_offset"`
	LastStableOffset record.Offset `json:"last_stable_offset"`
}

// Producer is an entry of a producer snapshot. Offsets and sequences that are
// not there are -1.
type Producer struct {
	place
	ProducerID       int64         `json:"producer_id"`
	ProducerEpoch    int16         `json:"producer_epoch"`
	CoordinatorEpoch int32         `json:"coordinator_epoch"`
	FirstSequence    int32         `json:"first_sequence"`
	LastSequence     int32         `json:"last_sequence"`
	LastOffset       record.Offset `json:"last_offset"`
	OffsetDelta      int32         `json:"offset_delta"`
	Timestamp        int64         `json:"timestamp_ms"`
	TxnFirstOffset   record.Offset `json:"txn_first_offset"`
}

// Epoch is an entry of leader-epoch-checkpoint.
type Epoch struct {
	place
	Epoch       record.Epoch  `json:"epoch"`
	StartOffset record.Offset `json:"start_offset"`
}

// Metadata is the content of partition.metadata.
type Metadata struct {
	place
	TopicID string `json:"topic_id"`
}

// Checkpoint is one line of a checkpoint at the top of a log directory.
type Checkpoint struct {
	place
	Topic     string        `json:"topic"`
	Partition int32         `json:"partition"`
	Offset    record.Offset `json:"offset"`
}

// CleanMark is the mark of a clean stop.
type CleanMark struct {
	place
	Content string `json:"content"`
}

// Padding are zeros at the end of an index, which Kafka leaves when it gives
// the file its size in advance.
type Padding struct {
	place
	Position int64 `json:"position"`
	Bytes    int64 `json:"bytes"`
}

// Damage is a place that could not be read as what it should be.
type Damage struct {
	place
	Position int64  `json:"position"`
	Reason   string `json:"reason"`
}

// CodecName is Kafka's name of a codec.
func CodecName(c record.Codec) string {
	if names := [...]string{"none", "gzip", "snappy", "lz4", "zstd"}; c >= 0 && int(c) < len(names) {
		return names[c]
	}
	return "unknown"
}

func batchItem(path string, at int64, h record.Header, valid bool) *Batch {
	return &Batch{
		place: place{"batch", path}, Position: at, Bytes: int64(h.Size()), BaseOffset: h.BaseOffset, LastOffset: h.LastOffset(),
		Records: h.Count, LeaderEpoch: h.LeaderEpoch, Codec: CodecName(h.Codec()), LogAppendTime: h.IsLogAppendTime(),
		BaseTimestamp: h.BaseTimestamp, MaxTimestamp: h.MaxTimestamp, ProducerID: h.ProducerID, ProducerEpoch: h.ProducerEpoch,
		BaseSequence: h.BaseSequence, LastSequence: h.LastSequence(), Transactional: h.IsTransactional(), Control: h.IsControl(),
		CRC: h.CRC, Valid: valid,
	}
}

func recordItem(path string, h record.Header, r record.Record) *Record {
	item := &Record{
		place: place{"record", path}, Offset: h.RecordOffset(r), Timestamp: h.RecordTimestamp(r), Sequence: record.NoSequence,
	}
	if h.BaseSequence >= 0 {
		item.Sequence = record.AddSequence(h.BaseSequence, r.OffsetDelta)
	}
	item.Key, item.KeyBase64 = text(r.Key)
	item.Payload, item.PayloadBase64 = text(r.Value)
	for k, v := range r.EachHeader() {
		one := Header{Name: string(k)}
		one.Value, one.ValueBase64 = text(v)
		item.Headers = append(item.Headers, one)
	}
	if h.IsControl() {
		if m, err := parseMarker(r); err == nil {
			item.Marker = &m
		}
	}
	return item
}

// text gives bytes as a string where they are UTF-8, in base64 where not, and
// neither when they are null.
func text(b []byte) (*string, string) {
	switch {
	case b == nil:
		return nil, ""
	case utf8.Valid(b):
		s := string(b)
		return &s, ""
	}
	return nil, base64.StdEncoding.EncodeToString(b)
}
