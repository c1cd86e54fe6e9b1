// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/internal/testutil"
	"firn/record/recordtest"
)

// sessionFetch sends a fetch of a session and returns the answer, whatever its
// error code.
func sessionFetch(c *raw, id, epoch int32, req *kmsg.FetchRequest) *kmsg.FetchResponse {
	c.t.Helper()
	req.SessionID, req.SessionEpoch = id, epoch
	c.send(req)
	return c.receive(req).(*kmsg.FetchResponse)
}

// produceTo appends a record to a partition.
func produceTo(c *raw, topic string, partition int32) {
	c.t.Helper()
	resp := ask[*kmsg.ProduceResponse](c, produceRequest(newestProduce, acksAll, topic, partition, recordtest.Batch(0)))
	wantCode(c.t, "produce", resp.Topics[0].Partitions[0].ErrorCode, nil)
}

// told are the numbers of the partitions that an answer names, and how many of
// them have records.
func told(resp *kmsg.FetchResponse) (partitions []int32, withData int) {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			partitions = append(partitions, p.Partition)
			if len(p.RecordBatches) > 0 {
				withData++
			}
		}
	}
	return partitions, withData
}

// A session's answers name what has changed, whoever asks by which version,
// and a request without a partition asks for all that the session knows.
func TestFetchSessions(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "s", 3)
	c := dialRaw(t, b.Addr)
	topic := fetchTopicOf(c, "s")
	appended := int64(0) // to partition 1
	for version := int16(7); version <= newestFetch; version++ {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			c := dialRaw(t, b.Addr)
			want := func(what string, resp *kmsg.FetchResponse, id int32, partitions []int32, withData int) {
				t.Helper()
				wantCode(t, what, resp.ErrorCode, nil)
				slices.Sort(partitions)
				got, n := told(resp)
				slices.Sort(got)
				if resp.SessionID != id || !slices.Equal(got, partitions) || n != withData {
					t.Errorf("%s: session %d names %v, %d with records; want session %d, %v and %d", what, resp.SessionID, got, n, id, partitions, withData)
				}
			}
			at := func(partition int32, offset int64) fetchPartition {
				return fetchPartition{topic: topic, partition: partition, offset: offset}
			}
			first := sessionFetch(c, 0, 0, fetchRequest(version, at(0, 0), at(1, appended), at(2, 0)))
			id := first.SessionID
			if id == 0 {
				t.Fatal("there is no session")
			}
			want("the first answer", first, id, []int32{0, 1, 2}, 0)
			want("nothing has changed", sessionFetch(c, id, 1, fetchRequest(version)), id, nil, 0)

			produceTo(c, "s", 1)
			want("records have come", sessionFetch(c, id, 2, fetchRequest(version)), id, []int32{1}, 1)
			appended++
			want("they are still wanted", sessionFetch(c, id, 3, fetchRequest(version)), id, []int32{1}, 1)
			want("the client has gone on", sessionFetch(c, id, 4, fetchRequest(version, at(1, appended))), id, nil, 0)

			// An offset that is out of range is told as often as it is asked for.
			for epoch := int32(5); epoch < 7; epoch++ {
				resp := sessionFetch(c, id, epoch, fetchRequest(version, at(2, 999)))
				want("a wrong offset", resp, id, []int32{2}, 0)
				wantCode(t, "a wrong offset", resp.Topics[0].Partitions[0].ErrorCode, kerr.OffsetOutOfRange)
			}
			forget := fetchRequest(version)
			gone := kmsg.NewFetchRequestForgottenTopic()
			gone.Topic, gone.TopicID, gone.Partitions = topic.name, topic.id, []int32{2}
			forget.ForgottenTopics = append(forget.ForgottenTopics, gone)
			want("it is forgotten", sessionFetch(c, id, 7, forget), id, nil, 0)

			wantCode(t, "an epoch again", sessionFetch(c, id, 7, fetchRequest(version)).ErrorCode, kerr.InvalidFetchSessionEpoch)
			wantCode(t, "another session", sessionFetch(c, id+1, 8, fetchRequest(version)).ErrorCode, kerr.FetchSessionIDNotFound)
			want("the session goes on", sessionFetch(c, id, 8, fetchRequest(version)), id, nil, 0)
			want("without one", sessionFetch(c, id, -1, fetchRequest(version, at(0, 0))), 0, []int32{0}, 0)
			wantCode(t, "the session has ended", sessionFetch(c, id, 9, fetchRequest(version)).ErrorCode, kerr.FetchSessionIDNotFound)
		})
	}
	byName := sessionFetch(c, 0, 0, fetchRequest(12, fetchPartition{topic: topic}))
	wantCode(t, "by id in a session by name", sessionFetch(c, byName.SessionID, 1, fetchRequest(13)).ErrorCode, kerr.FetchSessionTopicIDError)
}

// A long poll in a session is woken by what it has not named, and its answer
// comes over another connection just as well.
func TestFetchSessionLongPoll(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	createTopic(t, b, "poll", 2)
	one, two := dialRaw(t, b.Addr), dialRaw(t, b.Addr)
	topic := fetchTopicOf(one, "poll")
	id := sessionFetch(one, 0, 0, fetchRequest(newestFetch, fetchPartition{topic: topic}, fetchPartition{topic: topic, partition: 1})).SessionID
	req := fetchRequest(newestFetch)
	req.SessionID, req.SessionEpoch, req.MaxWaitMillis = id, 1, int32(forever.Milliseconds())
	two.send(req)
	produceTo(one, "poll", 1)
	resp := two.receive(req).(*kmsg.FetchResponse)
	if partitions, n := told(resp); resp.SessionID != id || len(partitions) != 1 || partitions[0] != 1 || n != 1 {
		t.Errorf("session %d of %d names %v, %d with records", resp.SessionID, id, partitions, n)
	}
}

// With no slot for sessions clients get none, and all else is as before.
func TestNoFetchSessions(t *testing.T) {
	b := testutil.StartBroker(t, map[string]string{"max.incremental.fetch.session.cache.slots": "0"})
	createTopic(t, b, "s", 1)
	c := dialRaw(t, b.Addr)
	produceTo(c, "s", 0)
	resp := sessionFetch(c, 0, 0, fetchRequest(newestFetch, fetchPartition{topic: fetchTopicOf(c, "s")}))
	if _, n := told(resp); resp.SessionID != 0 || n != 1 {
		t.Errorf("%+v", resp)
	}
}
