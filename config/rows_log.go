// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"math"
	"strconv"

	"firn/cluster"
)

func logSettings() []setting {
	dirs := list(areaLog, "log.dirs", "./firn-data", "The data directories, one for each disk: partitions and checkpoints. The first also gets the metadata. A new partition goes where it has most free space to itself.")
	dirs.instead = []string{"log.dir"}
	return []setting{
		dirs,
		list(areaLog, "log.dir", "", "Older name of log.dirs."),
		boolean(areaLog, "log.acks.all.fsync", true,
			"Whether acks=all waits until records are synced to disk. false answers as Kafka does, from the page cache: a power cut may then lose acknowledged records."),
		millis(areaLog, "log.retention.check.interval.ms", 300_000, 1,
			"Time between two looks for segments that may be deleted."),
		millis(areaLog, "log.flush.offset.checkpoint.interval.ms", 60_000, 1,
			"Time between two writes of the recovery point, which bounds what a start after a crash has to scan."),
		integer(areaLog, "num.recovery.threads.per.data.dir", 2, 1, 1024,
			"Partitions that are opened and recovered at once."),
		millis(areaLog, "producer.id.expiration.ms", 86_400_000, 1,
			"A producer that writes nothing for this long is forgotten, and with it what recognises its duplicates."),
	}
}

// topicDefaultSettings are the settings that the table of topic configs names
// as what a topic falls back to. Their limits are the topic config's.
func topicDefaultSettings() []setting {
	var out []setting
	for _, k := range cluster.TopicKeys() {
		for i, s := range k.Synonyms {
			out = append(out, topicDefault(k, s, i))
		}
	}
	return out
}

// topicDefault is the row of the i-th synonym of a topic config. As in Kafka,
// where several settings give one config, in different units, the weakest has
// the default and the others have none.
func topicDefault(k cluster.TopicKey, s cluster.Synonym, i int) setting {
	row := setting{
		name:  s.Name,
		area:  areaLog,
		typ:   k.Type,
		unit:  k.Unit,
		doc:   "Default of the topic config " + k.Name + ". " + k.Doc,
		check: k.Check,
	}
	if i > 0 {
		row.doc = "The same as " + k.Synonyms[0].Name + ", in another unit; the finer unit wins."
	}
	if i == len(k.Synonyms)-1 {
		row.def = k.Default
	}
	if s.Factor <= 1 {
		return row
	}
	row.typ, row.unit = cluster.TypeInt, cluster.UnitNone
	if def, err := strconv.ParseInt(row.def, 10, 64); err == nil {
		row.def = strconv.FormatInt(def/s.Factor, 10)
	}
	row.check = func(v string) error {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil {
			return errors.New("want a whole number")
		}
		if n > 0 {
			n *= s.Factor
		}
		if k.Check(strconv.FormatInt(n, 10)) != nil {
			return errors.New("want a whole number in the range of " + k.Name)
		}
		return nil
	}
	return row
}

func tierSettings() []setting {
	return []setting{
		text(areaTier, "tier.store", "none", "Where closed segments go: nowhere, a directory, AWS S3, or MinIO and what is compatible with it.",
			oneOf("none", "dir", "s3", "minio")),
		text(areaTier, "tier.dir.path", "", "Directory of the store dir. Not inside the data directory.", nil),
		text(areaTier, "tier.s3.endpoint", "", "Address of the store, such as http://127.0.0.1:9000. Empty means AWS; minio needs one.", checkEndpoint),
		text(areaTier, "tier.s3.bucket", "", "The bucket. It must exist; firn tier init --create-bucket makes it.", nil),
		text(areaTier, "tier.s3.region", "", "Region of the bucket. Empty takes AWS_REGION, and without that us-east-1.", nil),
		text(areaTier, "tier.s3.prefix", "firn", "What every key in the store begins with, without slashes at the ends. Holds for the store dir as well.", checkPrefix),
		text(areaTier, "tier.s3.path.style", "auto", "Whether the bucket stands in the path (true) or in the host name (false) of a request. auto: in the path when there is an endpoint.",
			oneOf("auto", "true", "false")),
		secret(areaTier, "tier.s3.access.key.id", "Access key. Empty takes the credentials that the AWS tools would find."),
		secret(areaTier, "tier.s3.secret.access.key", "Secret of tier.s3.access.key.id."),
		millis(areaTier, "tier.roll.ms", 3_600_000, 0, "Age at which the open segment of a tiered topic is closed, so that it can be uploaded: what a dead disk loses. 0 turns it off."),
		millis(areaTier, "tier.delete.grace.ms", 600_000, 0, "Time between taking an object out of the manifest and deleting it."),
		list(areaTier, "tier.exclude.topics", "", "Topics, with * and ? as wildcards, that are not tiered unless they set remote.storage.enable themselves."),
		size(areaTier, "tier.chunk.bytes", 4<<20, 1<<20, 64<<20, "Bytes that one request to the store reads. A multiple of 1 MiB."),
		size(areaTier, "tier.cache.bytes", 64<<20, 0, math.MaxInt64, "Memory for chunks that were read from the store."),
		size(areaTier, "tier.index.cache.bytes", 16<<20, 0, math.MaxInt64, "Memory for indexes of objects in the store."),
		size(areaTier, "tier.prefetch.bytes", 16<<20, 0, math.MaxInt64, "How far ahead of a reader that goes straight on chunks are fetched, at most."),
		integer(areaTier, "remote.log.manager.copier.thread.pool.size", 4, 1, 1024, "Segments that are uploaded at once."),
		millis(areaTier, "remote.log.manager.task.retry.backoff.ms", 500, 1, "Shortest wait before something that failed at the store is tried again."),
		millis(areaTier, "remote.log.manager.task.retry.backoff.max.ms", 30_000, 1, "Longest wait before something that failed at the store is tried again."),
	}
}
