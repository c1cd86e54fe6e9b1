// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/record"
	"firn/wire"
)

// DescribeLogDirs (key 35, KIP-113), versions 0 to 5.
//
// Tells the size on local disk of the partitions asked for, all of them for
// null, in the one log directory that there is; what does not exist is left
// out. A partition that is offline counts with the bytes of its segments.
// Nothing is moved between directories, so that no partition is a future one,
// and there is no lag. Version 2 is flexible, 3 has an error code of its own
// (KIP-784), 4 the size and the free space of the disk (KIP-827), 5 says
// whether the directory is cordoned (KIP-1066), which it never is.

func (b *Broker) handleDescribeLogDirs(_ context.Context, r *wire.Request) (wire.Answer, error) {
	req := r.Message.(*kmsg.DescribeLogDirsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = b.options.Logs.Dir()
	if absolute, err := filepath.Abs(dir.Dir); err == nil {
		dir.Dir = absolute
	}
	usage, err := b.options.Logs.Usage()
	if err != nil {
		dir.ErrorCode = errorCode(fmt.Errorf("%w: %w", record.ErrStorage, err))
	} else {
		dir.TotalBytes, dir.UsableBytes = int64(usage.Total), int64(usage.Free)
	}
	wanted := wantedPartitions(req)
	found := b.foundSizes()
	topics := b.topics.all()
	slices.SortFunc(topics, func(a, b *topic) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range topics {
		if one := describeLogs(t, found, wanted); len(one.Partitions) > 0 {
			dir.Topics = append(dir.Topics, one)
		}
	}
	resp.Dirs = append(resp.Dirs, dir)
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

// foundSizes are the bytes of the partitions that are on disk and not open.
// One whose directory cannot be listed counts as empty.
func (b *Broker) foundSizes() map[record.TopicPartition]int64 {
	sizes := make(map[record.TopicPartition]int64)
	for _, f := range b.options.Logs.Found() {
		size, err := b.options.Logs.FoundSize(f)
		if err != nil {
			b.logger.Warn("cannot tell the size of an offline partition", "event", "offline_size_unknown", "dir", f.Dir, "error", err)
		}
		sizes[f.TopicPartition] = size
	}
	return sizes
}

func describeLogs(t *topic, found map[record.TopicPartition]int64, wanted func(record.TopicPartition) bool) kmsg.DescribeLogDirsResponseDirTopic {
	one := kmsg.NewDescribeLogDirsResponseDirTopic()
	one.Topic = t.Name
	for i, p := range t.partitions {
		tp := record.TopicPartition{Topic: t.Name, Partition: int32(i)}
		if !wanted(tp) {
			continue
		}
		got := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		got.Partition, got.Size = tp.Partition, found[tp]
		if p != nil {
			got.Size = p.Log().Size()
		}
		one.Partitions = append(one.Partitions, got)
	}
	return one
}
