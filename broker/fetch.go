// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/fetch"
	"firn/partition"
	"firn/record"
	"firn/wire"
)

// Fetch (key 1), versions 4 to 18.
//
// Reads are routed by package fetch; the connection reads no further request
// while a fetch is parked, as in Kafka. Version 7 has fetch sessions (KIP-227),
// see fetch_session.go. Version 12 may tell the last epoch fetched and is
// answered with the diverging epoch, if any (KIP-595); from 13 topics are
// named by id (KIP-516). What 11 (rack), 15 (replica state), 17 (directory id)
// and 18 (high watermark) add concerns replicas, of which there is one. A client
// may ask which tier its records came from, see wire.TagTier.

func (b *Broker) handleFetch(ctx context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.FetchRequest)
	exchange, err := b.sessionOf(req)
	if err != nil {
		return b.answerFetch(r, &wire.FetchResponse{ErrorCode: sessionCode(err)}, nil)
	}
	resp := &wire.FetchResponse{}
	reads := &fetch.Request{
		MinBytes:      int(req.MinBytes),
		MaxBytes:      min(max(int(req.MaxBytes), 0), b.options.MaxFetchBytes),
		MaxWait:       min(time.Duration(req.MaxWaitMillis)*time.Millisecond, maxFetchWait),
		ReadCommitted: isolation(req.IsolationLevel) == partition.ReadCommitted,
	}
	b.resolveFetch(exchange.Partitions, req.Version >= fetchByID, resp, reads)
	result, err := b.consumers.of(ctx, r.Conn.ID, b.options.Fetcher).Fetch(ctx, reads)
	if err != nil {
		return nil, err
	}
	fillFetch(resp, reads, result)
	if asksTier(req) {
		fillTier(resp, result)
	}
	endExchange(exchange, resp)
	return b.answerFetch(r, resp, result)
}

// isolation is the level that a request asks for. As in Kafka, what is not
// read_committed is read_uncommitted.
func isolation(level int8) partition.Isolation {
	if level == int8(partition.ReadCommitted) {
		return partition.ReadCommitted
	}
	return partition.ReadUncommitted
}

// maxFetchWait bounds a long poll, whatever the client asks for. Nothing is
// read from a connection while its fetch is parked, so that a client that has
// gone is noticed only by answering it.
const maxFetchWait = 10 * time.Minute

// resolveFetch finds the partitions that are asked for and lays out the answer,
// in their order. What is wrong with one is answered at once, together with what
// the others have.
func (b *Broker) resolveFetch(asked []fetch.SessionPartition, byID bool, resp *wire.FetchResponse, reads *fetch.Request) {
	reads.Partitions = make([]fetch.PartitionRequest, len(asked))
	for i := range asked {
		want := &asked[i]
		if i == 0 || !want.SameTopic(asked[i-1].SessionKey) {
			resp.Topics = append(resp.Topics, wire.FetchTopic{Topic: want.Topic, TopicID: want.TopicID})
		}
		got, read := wire.NewFetchPartition(want.Partition), &reads.Partitions[i]
		read.Offset, read.MaxBytes = want.Offset, want.MaxBytes
		p, err := b.fetchedPartition(want.SessionKey, byID)
		if err == nil {
			err = checkEpoch(p, want.CurrentEpoch)
		}
		if err == nil {
			got.DivergingEpoch = diverging(p, want.LastFetchedEpoch, read.Offset)
		}
		switch {
		case err != nil:
			got.ErrorCode = errorCode(err)
			reads.MinBytes = 0
		case got.DivergingEpoch != nil:
			reads.MinBytes = 0
		default:
			read.Partition = p
		}
		out := &resp.Topics[len(resp.Topics)-1]
		out.Partitions = append(out.Partitions, got)
	}
}

func (b *Broker) fetchedPartition(k fetch.SessionKey, byID bool) (*partition.Partition, error) {
	if byID {
		return b.partitionByID(k.TopicID, k.Partition)
	}
	return b.partition(k.Topic, k.Partition)
}

// diverging tells a fetcher whose last epoch does not reach its offset in our
// log where the two logs part; nil when they do not, or when it did not say.
func diverging(p *partition.Partition, last record.Epoch, offset record.Offset) *wire.FetchDiverging {
	if last < 0 {
		return nil
	}
	epoch, end := p.EpochEnd(last)
	if epoch == last && end >= offset {
		return nil
	}
	return &wire.FetchDiverging{Epoch: epoch, EndOffset: end}
}

// fillFetch copies the result into the response, partition by partition.
func fillFetch(resp *wire.FetchResponse, reads *fetch.Request, result *fetch.Result) {
	i := 0
	for t := range resp.Topics {
		for p := range resp.Topics[t].Partitions {
			out, got := &resp.Topics[t].Partitions[p], &result.Partitions[i]
			asked := reads.Partitions[i].Partition != nil
			i++
			if !asked {
				continue
			}
			out.ErrorCode = errorCode(got.Err)
			out.HighWatermark, out.LastStableOffset, out.LogStartOffset = got.HighWatermark, got.LastStableOffset, got.LogStartOffset
			if reads.ReadCommitted {
				out.AbortedTransactions = make([]wire.FetchAborted, len(got.Aborted))
				for i, t := range got.Aborted {
					out.AbortedTransactions[i] = wire.FetchAborted{ProducerID: t.ProducerID, FirstOffset: t.FirstOffset}
				}
			}
			switch {
			case got.Region != nil:
				out.Records = []wire.Part{{Region: got.Region}}
			case len(got.Bytes) > 0:
				out.Records = []wire.Part{{Bytes: got.Bytes}}
			}
		}
	}
}

// asksTier says whether the client asks which way its records were read.
func asksTier(req *kmsg.FetchRequest) (asks bool) {
	if req.UnknownTags.Len() > 0 {
		req.UnknownTags.Each(func(tag uint32, _ []byte) { asks = asks || tag == wire.TagTier })
	}
	return asks
}

// fillTier names the class of every partition's records.
func fillTier(resp *wire.FetchResponse, result *fetch.Result) {
	i := 0
	for t := range resp.Topics {
		for p := range resp.Topics[t].Partitions {
			if got := &result.Partitions[i]; got.Class != fetch.ClassNone {
				resp.Topics[t].Partitions[p].Tier = got.Class.String()
			}
			i++
		}
	}
}

// answerFetch encodes the response now, so that the writer has only to send.
func (b *Broker) answerFetch(r *wire.Request, resp *wire.FetchResponse, result *fetch.Result) (wire.Answer, error) {
	release := func(bool) {
		if result != nil {
			result.Release()
		}
	}
	parts, err := wire.EncodeFetch(r.Version, r.CorrelationID, resp)
	if err != nil {
		release(false)
		return nil, err
	}
	answer := &wire.Response{Parts: parts, Done: release}
	if result != nil {
		answer.Bulk, answer.Appended = result.Bulk, result.Appended
	}
	return func(context.Context) (*wire.Response, error) { return answer, nil }, nil
}
