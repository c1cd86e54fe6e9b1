// SPDX-License-Identifier: Apache-2.0

package config

import (
	"log/slog"
	"path/filepath"
	"strings"

	"firn/cluster"
)

// fill turns checked values into the typed structs.
func (l *loader) fill(c *Config) {
	c.Node.ID = l.nodeID(c)
	c.Network = Network{
		Listeners:           l.listeners(c),
		TLS:                 l.tls(c),
		MaxRequestBytes:     c.int("socket.request.max.bytes"),
		RequestMemory:       c.num("queued.max.request.bytes"),
		MaxConnections:      c.int("max.connections"),
		MaxConnectionsPerIP: c.int("max.connections.per.ip"),
		IdleTimeout:         c.millis("connections.max.idle.ms"),
		SendTimeout:         c.millis("fetch.send.timeout.ms"),
	}
	c.Topics = Topics{
		Partitions:        int32(c.num("num.partitions")),
		ReplicationFactor: int16(c.num("default.replication.factor")),
		AutoCreate:        c.flag("auto.create.topics.enable"),
		DeleteEnable:      c.flag("delete.topic.enable"),
		ClampReplication:  c.flag("firn.replication.factor.clamp"),
		Defaults:          l.topicDefaults(c),
	}
	c.Log = Log{
		AcksAllFsync:           c.flag("log.acks.all.fsync"),
		RetentionCheckInterval: c.millis("log.retention.check.interval.ms"),
		CheckpointInterval:     c.millis("log.flush.offset.checkpoint.interval.ms"),
		FileDeleteDelay:        c.millis("log.segment.delete.delay.ms"),
		RecoveryThreads:        c.int("num.recovery.threads.per.data.dir"),
		ProducerExpiry:         c.millis("producer.id.expiration.ms"),
	}
	for _, dir := range c.list("log.dirs") {
		c.Log.Dirs = append(c.Log.Dirs, filepath.Clean(dir))
	}
	c.Fetch = Fetch{
		MaxBytes:                 c.int("fetch.max.bytes"),
		TailBytes:                c.num("fetch.tail.bytes"),
		BulkBytesPerSecond:       c.num("fetch.bulk.max.bytes.per.second"),
		ColdMaxBytes:             c.int("fetch.cold.max.bytes"),
		Sessions:                 c.int("max.incremental.fetch.session.cache.slots"),
		RemoteMaxWait:            c.millis("remote.fetch.max.wait.ms"),
		RemoteListOffsetsTimeout: c.millis("remote.list.offsets.request.timeout.ms"),
		ReaderThreads:            c.int("remote.log.reader.threads"),
	}
	c.Tier = tierOf(c)
	c.Operation = Operation{
		AdminListeners:   l.adminListeners(c),
		LogLevel:         levelOf(c.text("firn.log.level")),
		LogJSON:          c.text("firn.log.format") == "json",
		DiskReserveBytes: c.num("firn.disk.reserve.bytes"),
		IOForce:          strings.Join(c.list("firn.io.force"), ","),
	}
}

func (l *loader) nodeID(c *Config) int32 {
	node, broker := c.values["node.id"], c.values["broker.id"]
	if node.set() && broker.set() && node.text != broker.text {
		l.fault("broker.id", broker.text, broker.source, "contradicts node.id="+node.text+" (from "+node.source+")")
	}
	return int32(c.num("node.id"))
}

// topicDefaults gathers what the topics' table falls back to.
func (l *loader) topicDefaults(c *Config) cluster.Defaults {
	d := cluster.Defaults{
		Settings:      make(map[string]string),
		Store:         c.text("tier.store") != StoreNone,
		ExcludeTopics: c.list("tier.exclude.topics"),
	}
	for _, k := range cluster.TopicKeys() {
		for _, s := range k.Synonyms {
			if v := c.values[s.Name]; v.set() {
				d.Settings[s.Name] = v.text
			}
		}
	}
	return d
}

func tierOf(c *Config) Tier {
	t := Tier{
		Store:   c.text("tier.store"),
		DirPath: c.text("tier.dir.path"),
		S3: S3{
			Endpoint:        c.text("tier.s3.endpoint"),
			Bucket:          c.text("tier.s3.bucket"),
			Region:          c.text("tier.s3.region"),
			AccessKeyID:     c.text("tier.s3.access.key.id"),
			SecretAccessKey: c.text("tier.s3.secret.access.key"),
		},
		Prefix:          c.text("tier.s3.prefix"),
		RollAfter:       c.millis("tier.roll.ms"),
		DeleteGrace:     c.millis("tier.delete.grace.ms"),
		ChunkBytes:      c.num("tier.chunk.bytes"),
		CacheBytes:      c.num("tier.cache.bytes"),
		IndexCacheBytes: c.num("tier.index.cache.bytes"),
		PrefetchBytes:   c.num("tier.prefetch.bytes"),
		Uploaders:       c.int("remote.log.manager.copier.thread.pool.size"),
		RetryBackoff:    c.millis("remote.log.manager.task.retry.backoff.ms"),
		RetryBackoffMax: c.millis("remote.log.manager.task.retry.backoff.max.ms"),
	}
	switch c.text("tier.s3.path.style") {
	case "true":
		t.S3.PathStyle = true
	case "auto":
		t.S3.PathStyle = t.S3.Endpoint != ""
	}
	return t
}

func levelOf(name string) slog.Level {
	switch name {
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}
