// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"errors"
	"testing"

	"github.com/IBM/sarama"

	"firn/internal/testutil"
)

// Another client's admin calls, in the versions that it speaks.
func TestSaramaChangesTopics(t *testing.T) {
	b := testutil.StartBroker(t, nil)
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	admin, err := sarama.NewClusterAdmin([]string{b.Addr}, config)
	if err != nil {
		t.Fatalf("make an admin client: %v", err)
	}
	defer admin.Close()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	value := func(s string) *string { return &s }
	must("create", admin.CreateTopic("clicks", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false))
	produceAll(t, b, "clicks", 0, numbered(0, 100))

	must("alter", admin.IncrementalAlterConfig(sarama.TopicResource, "clicks", map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: value("5000")},
	}, false))
	if got := configOf(t, b, "clicks")["retention.ms"]; got != "5000" {
		t.Errorf("retention.ms is %q", got)
	}
	must("replace the config", admin.AlterConfig(sarama.TopicResource, "clicks", map[string]*string{"retention.bytes": value("7000000")}, false))
	if got := configOf(t, b, "clicks"); len(got) != 1 || got["retention.bytes"] != "7000000" {
		t.Errorf("the config is %v", got)
	}
	err = admin.AlterConfig(sarama.TopicResource, "clicks", map[string]*string{"retention.bytes": value("many")}, false)
	if err == nil {
		t.Error("retention.bytes=many was taken")
	}

	must("grow", admin.CreatePartitions("clicks", 3, [][]int32{{1}, {1}}, false))
	produceAll(t, b, "clicks", 2, numbered(0, 1))
	if err := admin.CreatePartitions("clicks", 2, nil, false); !errors.Is(err, sarama.ErrInvalidPartitions) {
		t.Errorf("shrink: %v", err)
	}

	must("delete records", admin.DeleteRecords("clicks", map[int32]int64{0: 60}))
	if start := startOffset(t, b, "clicks", 0); start != 60 {
		t.Errorf("the start offset is %d, want 60", start)
	}
	if err := admin.DeleteRecords("clicks", map[int32]int64{0: 101}); err == nil {
		t.Error("records beyond the end were deleted")
	}

	dirs, err := admin.DescribeLogDirs([]int32{1})
	must("describe the log directories", err)
	if len(dirs[1]) != 1 || dirs[1][0].Path != b.DataDir || len(dirs[1][0].Topics) != 1 || len(dirs[1][0].Topics[0].Partitions) != 3 {
		t.Errorf("the directories are %+v", dirs[1])
	}
}
