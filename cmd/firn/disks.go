// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"firn/cluster"
	"firn/hot"
	"firn/internal/vfs"
	"firn/record"
)

// metadataName is the metadata file, in one of the log directories.
const metadataName = "firn.db"

const (
	// dirWatch is how often a log directory is looked at.
	dirWatch = time.Second
	// The ballast of a disk is ballastBytes, or 1/ballastPart of a small one.
	ballastBytes = 16 << 20
	ballastPart  = 100
)

// errDisksLost stops a broker that has no log directory left.
var errDisksLost = errors.New("no log directory is left (log.dirs)")

// openDisk takes the log directories into use.
func (n *node) openDisk(ctx context.Context) error {
	if err := n.probeDisks(); err != nil {
		return err
	}
	var err error
	n.logs, err = hot.OpenDisks(ctx, n.cfg.Log.Dirs, hot.Options{
		IO:                 n.io,
		Logger:             n.logger,
		CheckpointInterval: n.cfg.Log.CheckpointInterval,
		FileDeleteDelay:    orNone(n.cfg.Log.FileDeleteDelay),
		RecoveryThreads:    n.cfg.Log.RecoveryThreads,
		NoFsync:            !n.cfg.Log.AcksAllFsync,
		HotBytes:           max(n.cfg.Fetch.TailBytes, 1),
		WatchInterval:      dirWatch,
		Ballast:            ballastBytes,
		BallastPart:        ballastPart,
		Registerer:         n.metrics,
	})
	dirs := strings.Join(n.cfg.Log.Dirs, ", ")
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("the data directory %s is in use by another process: %w", dirs, err)
	}
	if err != nil {
		return fmt.Errorf("open the data directory %s: %w", dirs, err)
	}
	n.onClose("the logs", n.logs.Close)
	return nil
}

// probeDisks makes the directories and finds out how the first that can be
// written to does its I/O; methods that do not work on the disk of another are
// left for it as they are met.
func (n *node) probeDisks() error {
	var errs []error
	for _, dir := range n.cfg.Log.Dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			errs = append(errs, fmt.Errorf("make the data directory (log.dirs): %w", err))
			continue
		}
		io, err := vfs.ProbeIO(dir, n.cfg.Operation.IOForce)
		if err == nil {
			n.io = io
			return nil
		}
		errs = append(errs, fmt.Errorf("probe the I/O methods of %s: %w", dir, err))
	}
	return errors.Join(errs...)
}

// openMetadata opens the metadata, in whichever log directory it is, and makes
// sure that every directory belongs to this broker.
func (n *node) openMetadata(ctx context.Context) error {
	home, clusterID, err := n.findMetadata()
	if err != nil {
		return err
	}
	n.metadata, err = cluster.OpenLocal(ctx, cluster.LocalOptions{
		Path:      filepath.Join(home.Dir(), metadataName),
		NodeID:    n.cfg.Node.ID,
		ClusterID: clusterID,
		Healthy:   home.Failed,
		Logger:    n.logger,
	})
	if err != nil {
		return fmt.Errorf("open the metadata: %w", err)
	}
	n.onClose("the metadata", func(context.Context) error { return n.metadata.Close() })
	return n.bindDirs(ctx, home)
}

// findMetadata finds the directory with the metadata, or the first one when
// there is none yet, and the cluster that the directories say they belong to,
// empty when they say nothing. Beginning anew while the metadata may be in a
// directory that is not there would make strays of all partitions.
func (n *node) findMetadata() (home *hot.Store, clusterID string, err error) {
	var used *hot.Store
	for _, s := range n.logs.Online() {
		switch _, err := os.Stat(filepath.Join(s.Dir(), metadataName)); {
		case err == nil && home != nil:
			return nil, "", fmt.Errorf("the metadata is in two log directories, %s and %s: move one %s away", home.Dir(), s.Dir(), metadataName)
		case err == nil:
			home = s
		case !errors.Is(err, fs.ErrNotExist):
			return nil, "", fmt.Errorf("look for the metadata: %w", err)
		}
		m := s.Metadata()
		if clusterID == "" {
			clusterID = m.ClusterID
		}
		if m.Firn && used == nil {
			used = s
		}
	}
	if home != nil {
		return home, "", nil // which says itself what cluster it is of
	}
	if missing := n.logs.Offline(); missing != nil {
		return nil, "", fmt.Errorf("no log directory in use holds %s, and not all are in use: %w", metadataName, missing)
	}
	if used != nil {
		return nil, "", fmt.Errorf("log directory %s belongs to a broker of cluster %s, and none holds its %s: name the one that does in log.dirs as well; to begin a new cluster, remove %s",
			used.Dir(), used.Metadata().ClusterID, metadataName, filepath.Join(used.Dir(), "meta.properties"))
	}
	if cluster.CheckClusterID(clusterID) != nil {
		clusterID = ""
	}
	return n.logs.Online()[0], clusterID, nil
}

// bindDirs makes sure that every log directory in use belongs to this broker,
// and writes down those that are new. The metadata knows all of them: a
// directory that comes empty is a disk that was not mounted, or a new one in an
// old one's place, and is not written to.
func (n *node) bindDirs(ctx context.Context, home *hot.Store) error {
	known := n.metadata.LogDirs()
	at := make(map[string]record.TopicID)
	for _, d := range known {
		at[d.Path] = d.ID
	}
	ids := make(map[record.TopicID]string)
	now := []cluster.LogDir{}
	for _, d := range n.logs.Dirs() {
		if d.Offline() != nil {
			if id, ok := at[d.Path()]; ok {
				now = append(now, cluster.LogDir{ID: id, Path: d.Path()})
			}
			continue
		}
		m := d.Store().Metadata()
		if err := n.checkOwner(d, m); err != nil {
			return err
		}
		id, ok := at[d.Path()]
		if ok && m.DirectoryID.IsZero() && d.Store() != home && d.Store().Partitions() == 0 {
			why := fmt.Errorf("it is empty, though it belongs to this broker as %s: is its disk mounted? An empty disk in place of a lost one needs another path", id)
			if err := d.Refuse(ctx, why); err != nil {
				return err
			}
			now = append(now, cluster.LogDir{ID: id, Path: d.Path()})
			continue
		}
		if m.DirectoryID.IsZero() {
			m.DirectoryID = id // zero for a new one
		}
		id, err := n.markDir(d, m)
		if err != nil {
			return err
		}
		if id.IsZero() {
			continue
		}
		if other, ok := ids[id]; ok {
			return fmt.Errorf("log directories %s and %s have the same id %s: one is a copy of the other; take one out of log.dirs", other, d.Path(), id)
		}
		ids[id] = d.Path()
		now = append(now, cluster.LogDir{ID: id, Path: d.Path()})
	}
	n.tellDropped(known, now)
	if len(n.logs.Online()) == 0 {
		return fmt.Errorf("%w: %w", errDisksLost, n.logs.Offline())
	}
	return n.metadata.SetLogDirs(ctx, now)
}

// checkOwner refuses a directory of another cluster or node, as Kafka does.
func (n *node) checkOwner(d *hot.Dir, m record.DirectoryMetadata) error {
	if id := n.metadata.Metadata().ClusterID; m.ClusterID != "" && m.ClusterID != id {
		return fmt.Errorf("log directory %s belongs to cluster %s, this broker to %s (meta.properties)", d.Path(), m.ClusterID, id)
	}
	if m.NodeID >= 0 && m.NodeID != n.cfg.Node.ID {
		return fmt.Errorf("log directory %s belongs to node %d, this is node.id %d (meta.properties)", d.Path(), m.NodeID, n.cfg.Node.ID)
	}
	return nil
}

// markDir makes sure that a directory says whose it is, and answers its id. On
// a full disk that waits for the next start, and the id is zero.
func (n *node) markDir(d *hot.Dir, m record.DirectoryMetadata) (record.TopicID, error) {
	if m.Firn && !m.DirectoryID.IsZero() && m.ClusterID != "" && m.NodeID >= 0 {
		return m.DirectoryID, nil
	}
	if m.DirectoryID.IsZero() {
		id, err := cluster.NewTopicID()
		if err != nil {
			return record.TopicID{}, err
		}
		m.DirectoryID = id
	}
	m.ClusterID, m.NodeID, m.Firn = n.metadata.Metadata().ClusterID, n.cfg.Node.ID, true
	err := d.Store().SetMetadata(m)
	if vfs.IsFull(err) {
		n.logger.Warn("the disk is full: the log directory is marked at the next start", "event", "log_dir_unmarked", "dir", d.Path(), "error", err)
		return record.TopicID{}, nil
	}
	if err != nil {
		return record.TopicID{}, fmt.Errorf("mark the log directory %s: %w", d.Path(), err)
	}
	n.logger.Info("log directory taken into use", "event", "log_dir_new", "dir", d.Path(), "id", m.DirectoryID.String())
	return m.DirectoryID, nil
}

// tellDropped says which directories are not in log.dirs any more: that is the
// operator's word to go on without them.
func (n *node) tellDropped(known, now []cluster.LogDir) {
	for _, old := range known {
		if !slices.ContainsFunc(now, func(d cluster.LogDir) bool { return d.ID == old.ID }) {
			n.logger.Warn("a log directory is not in log.dirs any more: partitions that lie in it begin anew", "event", "log_dir_dropped", "dir", old.Path, "id", old.ID.String())
		}
	}
}
