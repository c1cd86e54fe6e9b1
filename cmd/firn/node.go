// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"firn/broker"
	"firn/cluster"
	"firn/config"
	"firn/console"
	"firn/fetch"
	"firn/hot"
	"firn/internal/bulk"
	"firn/internal/vfs"
	"firn/tier"
	"firn/tier/store"
	"firn/wire"
)

// storeWait bounds how long a start waits for the object store when it must
// ask it: a data directory that has its place there serves without it.
const storeWait = 10 * time.Second

// node is a running broker with everything it is made of.
type node struct {
	cfg     *config.Config
	logger  *slog.Logger
	started time.Time
	metrics *prometheus.Registry

	io        *vfs.IO
	turns     *bulk.Turns
	logs      *hot.Disks
	metadata  *cluster.Local
	store     store.Store // nil without a store
	probe     storeProbe
	tier      *tier.Tier
	fetcher   *fetch.Fetcher
	broker    *broker.Broker
	server    *wire.Server
	addresses []string // name://host:port, in the settings' order
	console   *console.Server
	ready     atomic.Bool
	// failed takes the reason why a node that serves must stop.
	failed chan error

	// closers undo the steps of the start, in their order.
	closers []closer
}

type closer struct {
	what  string
	close func(context.Context) error
}

// nodeOptions are what a start is told beside the settings.
type nodeOptions struct {
	logger *slog.Logger
	// newCluster lets an unbound data directory begin beside the clusters
	// that the bucket holds.
	newCluster bool
}

// startNode brings a broker up, from the disk to the sockets. After an error
// nothing is left running.
func startNode(ctx context.Context, cfg *config.Config, o nodeOptions) (*node, error) {
	n := &node{cfg: cfg, logger: o.logger, started: time.Now(), metrics: newRegistry(), turns: bulk.NewTurns(0), failed: make(chan error, 1)}
	for _, step := range []func(context.Context) error{
		n.openDisk,
		n.openMetadata,
		func(ctx context.Context) error { return n.openTier(ctx, o.newCluster) },
		n.openBroker,
		n.listen,
		n.openConsole,
	} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, n.Close(ctx))
		}
	}
	n.ready.Store(true)
	if n.tier != nil {
		n.tier.Begin()
	}
	return n, nil
}

// Close stops the node in the reverse order of its start and joins what
// failed. Requests under way are answered, as long as ctx allows.
func (n *node) Close(ctx context.Context) error {
	n.ready.Store(false)
	var errs []error
	for _, c := range slices.Backward(n.closers) {
		if err := c.close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", c.what, err))
		}
	}
	n.closers = nil
	return errors.Join(errs...)
}

func (n *node) onClose(what string, close func(context.Context) error) {
	n.closers = append(n.closers, closer{what, close})
}

// orNone is a setting as the options of a package take it: there 0 stands for
// the default, and a negative value for nothing, which is what 0 means to
// whoever set it.
func orNone[T int | int64 | time.Duration](v T) T {
	if v == 0 {
		return -1
	}
	return v
}

// bulkPerProcessor is what replays may get of a processor, in bytes a second,
// where the setting does not say. Measured on 2 cores with 64 replays: the
// tail's p99 is 0.9 times that of an idle broker with it, and 1.4 times without.
const bulkPerProcessor = 400 << 20

// bulkPace is the setting as package wire takes it.
func bulkPace(bytesPerSecond int64) *bulk.Pace {
	switch {
	case bytesPerSecond < 0:
		return nil
	case bytesPerSecond == 0:
		bytesPerSecond = bulkPerProcessor * int64(runtime.GOMAXPROCS(0))
	}
	return bulk.NewPace(bytesPerSecond)
}

// openTier opens the object store and the cold tier. A store that does not
// answer stops the start only of a data directory that was never bound to it:
// any other serves what it has.
func (n *node) openTier(ctx context.Context, newCluster bool) error {
	bound := n.metadata.StoreID() != ""
	if !n.cfg.Tier.Enabled() {
		if bound {
			return errors.New("tier.store is none, but this data directory has history in an object store: set tier.store again")
		}
		return nil
	}
	var err error
	if n.store, err = openStore(ctx, n.cfg.Tier, n.io, n.turns); err != nil {
		return fmt.Errorf("open the object store: %w", err)
	}
	n.store = store.WithMetrics(n.store, n.metrics)
	n.onClose("the object store", func(context.Context) error { return n.store.Close() })

	ask, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	if !bound {
		if away := n.probeStore(ask); away != nil {
			return fmt.Errorf("the object store does not answer, and this data directory was never bound to it: %w", away)
		}
		if err := n.bind(ask, newCluster); err != nil {
			return err
		}
	}
	id, err := tier.ParseStoreID(n.metadata.StoreID())
	if err != nil {
		return fmt.Errorf("read the store id in the metadata: %w", err)
	}
	n.tier, err = tier.Open(ctx, n.tierOptions(id))
	if err != nil {
		return err
	}
	n.onClose("the cold tier", n.tier.Close)
	if !bound {
		err := n.verifyStore(ask)
		if err == nil || errors.Is(err, tier.ErrStoreMismatch) {
			return err
		}
	}
	n.askStore()
	return nil
}

// verifyStore makes sure that the bucket is the one that this data directory
// belongs to.
func (n *node) verifyStore(ctx context.Context) error {
	if err := n.tier.Verify(ctx); err != nil {
		return err
	}
	return n.metadata.SetStoreSeen(ctx)
}

// tierOptions are the settings as package tier takes them.
func (n *node) tierOptions(id tier.StoreID) tier.Options {
	t := n.cfg.Tier
	return tier.Options{
		Store:           n.store,
		ClusterID:       n.metadata.Metadata().ClusterID,
		Prefix:          t.Prefix,
		StoreID:         id,
		StoreSeen:       n.metadata.StoreSeen(),
		FS:              vfs.Disk(),
		IO:              n.io,
		Logger:          n.logger,
		Uploaders:       t.Uploaders,
		ChunkBytes:      t.ChunkBytes,
		CacheBytes:      orNone(t.CacheBytes),
		IndexCacheBytes: orNone(t.IndexCacheBytes),
		PrefetchBytes:   orNone(t.PrefetchBytes),
		MaxGets:         n.cfg.Fetch.ReaderThreads,
		Turns:           n.turns,
		Held:            true,
		DeleteGrace:     max(t.DeleteGrace, time.Millisecond),
		RetryBackoffMin: t.RetryBackoff,
		RetryBackoffMax: t.RetryBackoffMax,
		Registerer:      n.metrics,
	}
}

// bind gives an unbound data directory its place in the bucket. One that holds
// clusters already may be somebody's only copy: beginning anew beside them
// takes a word of the operator.
func (n *node) bind(ctx context.Context, newCluster bool) error {
	found, err := tier.FindClusters(ctx, n.store, n.cfg.Tier.Prefix)
	if err != nil {
		return fmt.Errorf("look for clusters in the bucket: %w", err)
	}
	if len(found) > 0 && !newCluster {
		return fmt.Errorf("the bucket holds the history of %s under the prefix %q, and this data directory is not part of it: start with --new-cluster to begin another one beside it",
			strings.Join(found, ", "), n.cfg.Tier.Prefix)
	}
	// Durable here before the bucket sees it.
	return n.metadata.SetStoreID(ctx, tier.NewStoreID().String())
}

func (n *node) openBroker(ctx context.Context) error {
	f := n.cfg.Fetch
	var err error
	n.fetcher, err = fetch.New(fetch.Options{
		ColdWorkers:      f.ReaderThreads,
		FetchMemoryBytes: f.ColdMaxBytes,
		TailBytes:        max(f.TailBytes, 1),
		ColdWait:         f.RemoteMaxWait,
		Logger:           n.logger,
		Registerer:       n.metrics,
	})
	if err != nil {
		return err
	}
	n.onClose("the fetch pools", func(context.Context) error { n.fetcher.Close(); return nil })
	t := n.cfg.Topics
	n.broker, err = broker.Open(ctx, broker.Options{
		Logs:               n.logs,
		Cluster:            n.metadata,
		Fetcher:            n.fetcher,
		Tier:               n.tier,
		TopicDefaults:      t.Defaults,
		BrokerConfigs:      n.cfg.Describe(),
		RollAfter:          n.cfg.Tier.RollAfter,
		ProducerExpiry:     n.cfg.Log.ProducerExpiry,
		NumPartitions:      t.Partitions,
		AutoCreateTopics:   t.AutoCreate,
		ClampReplication:   t.ClampReplication,
		MaxFetchBytes:      f.MaxBytes,
		FetchSessions:      orNone(f.Sessions),
		RetentionInterval:  n.cfg.Log.RetentionCheckInterval,
		DeleteTopics:       t.DeleteEnable,
		DeleteGrace:        n.cfg.Tier.DeleteGrace,
		DiskReserve:        n.cfg.Operation.Reserve,
		ListOffsetsTimeout: f.RemoteListOffsetsTimeout,
		OpenThreads:        n.cfg.Log.RecoveryThreads,
		Logger:             n.logger,
		Registerer:         n.metrics,
	})
	if err != nil {
		return err
	}
	n.onClose("the broker", func(ctx context.Context) error {
		if n.tier != nil {
			n.tier.Hold()
		}
		return n.broker.Close(ctx)
	})
	return nil
}

func (n *node) listen(context.Context) error {
	w := n.cfg.Network
	var err error
	n.server, err = wire.New(wire.Options{
		Table:               broker.Table(),
		Handler:             n.broker,
		Logger:              n.logger,
		MaxRequestBytes:     w.MaxRequestBytes,
		RequestMemory:       w.RequestMemory,
		MaxConnections:      w.MaxConnections,
		MaxConnectionsPerIP: w.MaxConnectionsPerIP,
		IdleTimeout:         w.IdleTimeout,
		SendTimeout:         w.SendTimeout,
		ChunkReader:         n.fetcher,
		Turns:               n.turns,
		BulkPace:            bulkPace(n.cfg.Fetch.BulkBytesPerSecond),
		Registerer:          n.metrics,
	})
	if err != nil {
		return err
	}
	n.onClose("the listeners", func(ctx context.Context) error {
		n.fetcher.Drain() // or the stop waits for long polls
		return n.server.Close(ctx)
	})
	for _, l := range w.Listeners {
		port := l.Advertised.Port
		advertise := func() {
			n.broker.Advertise(broker.Listener{Name: l.Name, Host: l.Advertised.Host, Port: int32(port)})
		}
		if port != 0 {
			advertise()
		}
		var secure *tls.Config
		if l.TLS {
			var err error
			if secure, err = serverTLS(w.TLS); err != nil {
				return fmt.Errorf("listener %s: %w", l.Name, err)
			}
		}
		bound, err := n.server.ListenTLS(l.Name, l.Bind.String(), secure)
		if err != nil {
			return fmt.Errorf("listener %s: %w", l.Name, err)
		}
		if port == 0 {
			port = bound.(*net.TCPAddr).Port
			advertise()
		}
		n.addresses = append(n.addresses, l.Name+"://"+bound.String())
	}
	return nil
}

func (n *node) openConsole(ctx context.Context) error {
	if len(n.cfg.Operation.AdminListeners) == 0 {
		return nil
	}
	var addresses []string
	for _, a := range n.cfg.Operation.AdminListeners {
		addresses = append(addresses, a.String())
	}
	var err error
	n.console, err = console.Listen(ctx, console.Options{
		Addresses: addresses, Source: (*view)(n), Gatherer: n.metrics, Logger: n.logger,
	})
	if err != nil {
		return fmt.Errorf("open the admin port (admin.listeners): %w", err)
	}
	n.onClose("the admin port", n.console.Close)
	return nil
}
