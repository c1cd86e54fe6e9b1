// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/hot"
	"firn/record"
	"firn/wire"
)

// DescribeLogDirs (key 35, KIP-113), versions 0 to 5.
//
// Tells, for each log directory, the size on local disk of the partitions asked
// for, all of them for null; what does not exist is left out. A partition that
// is offline for its own sake counts with the bytes of its segments; a
// directory that is offline has KAFKA_STORAGE_ERROR and nothing else. Nothing is
// moved between directories, so that no partition is a future one, and there is
// no lag. Version 2 is flexible, 3 has an error code of its own (KIP-784), 4
// the size and the free space of the disk (KIP-827), 5 says whether the
// directory is cordoned (KIP-1066), which it never is.

func (b *Broker) handleDescribeLogDirs(_ context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.DescribeLogDirsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	wanted := wantedPartitions(req)
	topics := b.topics.all()
	slices.SortFunc(topics, func(a, b *topic) int { return strings.Compare(a.Name, b.Name) })
	for _, d := range b.options.Logs.Dirs() {
		dir := kmsg.NewDescribeLogDirsResponseDir()
		dir.Dir = d.Path()
		if err := d.Offline(); err != nil {
			dir.ErrorCode = errorCode(err)
			resp.Dirs = append(resp.Dirs, dir)
			continue
		}
		usage, err := d.Store().Usage()
		if err != nil {
			dir.ErrorCode = errorCode(fmt.Errorf("%w: %w", record.ErrStorage, err))
		} else {
			dir.TotalBytes, dir.UsableBytes = int64(usage.Total), int64(usage.Free)
		}
		found := b.foundSizes(d.Store())
		for _, t := range topics {
			if one := describeLogs(t, d.Store(), found, wanted); len(one.Partitions) > 0 {
				dir.Topics = append(dir.Topics, one)
			}
		}
		resp.Dirs = append(resp.Dirs, dir)
	}
	return reply(resp), nil
}

// wantedPartitions is what a request asks for.
func wantedPartitions(req *kmsg.DescribeLogDirsRequest) func(record.TopicPartition) bool {
	if req.Topics == nil {
		return func(record.TopicPartition) bool { return true }
	}
	named := make(map[record.TopicPartition]bool)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			named[record.TopicPartition{Topic: t.Topic, Partition: p}] = true
		}
	}
	return func(tp record.TopicPartition) bool { return named[tp] }
}

// foundSizes are the bytes of the partitions that are in a directory and not
// open. One whose directory cannot be listed counts as empty.
func (b *Broker) foundSizes(s *hot.Store) map[foundKey]int64 {
	sizes := make(map[foundKey]int64)
	for _, f := range s.Found() {
		size, err := s.FoundSize(f)
		if err != nil {
			b.logger.Warn("cannot tell the size of an offline partition", "event", "offline_size_unknown", "dir", f.Dir, "error", err)
		}
		sizes[foundKey{f.TopicID, f.TopicPartition.Partition}] = size
	}
	return sizes
}

// foundKey names a partition by its topic's id: a directory may also hold one of
// an earlier topic of the same name.
type foundKey struct {
	topic     record.TopicID
	partition int32
}

// describeLogs lists the partitions of a topic that lie in one directory.
func describeLogs(t *topic, s *hot.Store, found map[foundKey]int64, wanted func(record.TopicPartition) bool) kmsg.DescribeLogDirsResponseDirTopic {
	one := kmsg.NewDescribeLogDirsResponseDirTopic()
	one.Topic = t.Name
	for i, p := range t.partitions {
		tp := record.TopicPartition{Topic: t.Name, Partition: int32(i)}
		size, here := found[foundKey{t.ID, tp.Partition}]
		if p != nil && p.Store() == s {
			size, here = p.Log().Size(), true
		}
		if !here || !wanted(tp) {
			continue
		}
		got := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		got.Partition, got.Size = tp.Partition, size
		one.Partitions = append(one.Partitions, got)
	}
	return one
}
