// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// checkTogether judges what one row alone cannot.
func (l *loader) checkTogether(c *Config) {
	l.checkDataDir(c)
	if f := c.Topics.ReplicationFactor; f > 1 && !c.Topics.ClampReplication {
		l.blame(c, "default.replication.factor", "want 1: this is a lone broker; firn.replication.factor.clamp=true accepts more and lowers it")
	}
	if c.Network.RequestMemory == -1 {
		c.Network.RequestMemory = max(mustInt(l.table.byName["queued.max.request.bytes"].def), int64(c.Network.MaxRequestBytes))
	}
	if c.Network.RequestMemory < int64(c.Network.MaxRequestBytes) {
		l.blame(c, "queued.max.request.bytes", "want at least socket.request.max.bytes, which is "+strconv.Itoa(c.Network.MaxRequestBytes))
	}
	for _, pattern := range c.Topics.Defaults.ExcludeTopics {
		if _, err := path.Match(pattern, ""); err != nil {
			l.blame(c, "tier.exclude.topics", "want topic names with * and ? as wildcards, "+strconv.Quote(pattern)+" is none")
		}
	}
	l.checkTier(c)
}

func (l *loader) checkDataDir(c *Config) {
	if len(c.Log.Dirs) == 0 {
		l.blame(c, "log.dirs", "want at least one directory")
	}
	for i, dir := range c.Log.Dirs {
		for _, other := range c.Log.Dirs[:i] {
			if within(dir, other) || within(other, dir) {
				l.blame(c, "log.dirs", "want directories that lie apart, not "+other+" and "+dir)
			}
		}
		if c.Tier.Store == StoreDir && c.Tier.DirPath != "" && (within(c.Tier.DirPath, dir) || within(dir, c.Tier.DirPath)) {
			l.blame(c, "tier.dir.path", "want a directory that is neither inside the data directory "+dir+" nor around it")
		}
	}
}

// within says whether p is dir or lies in it, going by the names alone.
func within(p, dir string) bool {
	absP, errP := filepath.Abs(p)
	absDir, errDir := filepath.Abs(dir)
	if errP != nil || errDir != nil {
		return false
	}
	rel, err := filepath.Rel(absDir, absP)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

func (l *loader) checkTier(c *Config) {
	t := c.Tier
	switch t.Store {
	case StoreDir:
		if t.DirPath == "" {
			l.missing("tier.dir.path", "tier.store="+t.Store)
		}
	case StoreS3, StoreMinio:
		if t.S3.Bucket == "" {
			l.missing("tier.s3.bucket", "tier.store="+t.Store)
		}
		if t.Store == StoreMinio && t.S3.Endpoint == "" {
			l.missing("tier.s3.endpoint", "tier.store="+t.Store)
		}
	}
	if id, key := t.S3.AccessKeyID, t.S3.SecretAccessKey; id != "" && key == "" {
		l.missing("tier.s3.secret.access.key", "tier.s3.access.key.id")
	} else if id == "" && key != "" {
		l.missing("tier.s3.access.key.id", "tier.s3.secret.access.key")
	}
	if t.ChunkBytes%(1<<20) != 0 {
		l.blame(c, "tier.chunk.bytes", "want a multiple of 1 MiB (1048576)")
	}
	if t.RetryBackoffMax < t.RetryBackoff {
		l.blame(c, "remote.log.manager.task.retry.backoff.max.ms", "want at least remote.log.manager.task.retry.backoff.ms, which is "+c.text("remote.log.manager.task.retry.backoff.ms"))
	}
}

// blame notes a fault of the setting that gives a value.
func (l *loader) blame(c *Config, name, want string) {
	giver, v := c.resolve(name)
	l.fault(giver, v.text, v.source, want)
}

// missing notes that a setting must be set because of another.
func (l *loader) missing(name, because string) {
	l.faults = append(l.faults, Fault{Key: name, Want: "must be set with " + because})
}

func checkEndpoint(v string) error {
	if v == "" {
		return nil
	}
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return errors.New("want http://host:port or https://host, without path or credentials")
	}
	return nil
}

func checkPrefix(v string) error {
	if v == "" {
		return nil
	}
	for e := range strings.SplitSeq(v, "/") {
		if e == "" || e == "." || e == ".." {
			return errors.New("want path elements joined by single slashes, none at the ends")
		}
	}
	for _, r := range v {
		if r < ' ' || r > '~' || r == '\\' {
			return errors.New("want printable ASCII characters only")
		}
	}
	if len(v) > 200 {
		return errors.New("want at most 200 characters")
	}
	return nil
}

// mustInt reads a number that was checked before.
func mustInt(v string) int64 {
	n, _ := strconv.ParseInt(v, 10, 64)
	return n
}
