// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/fetch"
	"firn/record"
	"firn/wire"
)

// Fetch sessions (KIP-227, version 7 up). What a session knows is in package
// fetch; here requests and answers are put into its terms and back.

// fetchByID is the version from which topics go by id (KIP-516).
const fetchByID = 13

// sessionOf takes the request into its session.
func (b *Broker) sessionOf(req *kmsg.FetchRequest) (*fetch.Exchange, error) {
	names := req.Version < fetchByID
	key := func(topic string, id [16]byte, partition int32) fetch.SessionKey {
		if names {
			return fetch.SessionKey{Topic: topic, Partition: partition}
		}
		return fetch.SessionKey{TopicID: id, Partition: partition}
	}
	r := fetch.SessionRequest{ID: req.SessionID, Epoch: req.SessionEpoch, Names: names}
	if req.Version < 7 {
		r.ID, r.Epoch = 0, fetch.EpochFinal
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			r.Wants = append(r.Wants, fetch.SessionPartition{
				SessionKey:       key(t.Topic, t.TopicID, p.Partition),
				Offset:           record.Offset(p.FetchOffset),
				MaxBytes:         max(int(p.PartitionMaxBytes), 0),
				CurrentEpoch:     record.Epoch(p.CurrentLeaderEpoch),
				LastFetchedEpoch: record.Epoch(p.LastFetchedEpoch),
			})
		}
	}
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, partition := range t.Partitions {
			r.Forgotten = append(r.Forgotten, key(t.Topic, t.TopicID, partition))
		}
	}
	return b.sessions.Begin(time.Now(), r)
}

// endExchange tells the session what the answer says, and takes out of the
// answer what the client knows already.
func endExchange(e *fetch.Exchange, resp *wire.FetchResponse) {
	outcomes := make([]fetch.SessionOutcome, 0, len(e.Partitions))
	for t := range resp.Topics {
		for p := range resp.Topics[t].Partitions {
			out := &resp.Topics[t].Partitions[p]
			outcomes = append(outcomes, fetch.SessionOutcome{
				Data:          len(out.Records) > 0,
				Wrong:         out.ErrorCode != 0 || out.DivergingEpoch != nil,
				HighWatermark: out.HighWatermark,
				LogStart:      out.LogStartOffset,
			})
		}
	}
	id, named := e.End(outcomes)
	resp.SessionID = id
	if named == nil {
		return
	}
	topics := resp.Topics[:0]
	for _, t := range resp.Topics {
		partitions := t.Partitions[:0]
		for _, p := range t.Partitions {
			if named[0] {
				partitions = append(partitions, p)
			}
			named = named[1:]
		}
		if t.Partitions = partitions; len(partitions) > 0 {
			topics = append(topics, t)
		}
	}
	resp.Topics = topics
}

// sessionCode is the error code of a fetch that cannot go on in its session.
func sessionCode(err error) int16 {
	switch {
	case errors.Is(err, fetch.ErrSessionEpoch):
		return codeSessionEpoch
	case errors.Is(err, fetch.ErrSessionNames):
		return codeSessionNames
	}
	return codeNoFetchSession
}
