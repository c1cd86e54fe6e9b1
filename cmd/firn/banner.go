// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"firn/config"
)

// printBanner tells a person what came up: where it listens, where the data
// is, how it does its I/O, what an acknowledgement means and what a dead disk
// would lose.
func (n *node) printBanner(w io.Writer) {
	m := n.io.Methods()
	lines := [][2]string{
		{"listening on", strings.Join(n.addresses, ", ")},
		{"data", fmt.Sprintf("%s (cluster %s, broker %d)", strings.Join(n.cfg.Log.Dirs, ", "), n.metadata.Metadata().ClusterID, n.cfg.Node.ID)},
		{"i/o", fmt.Sprintf("uncached read %s, uncached write %s, residency %s, send %s", m.UncachedRead, m.UncachedWrite, m.Residency, m.Send)},
		{"store", n.describeStore()},
		{"durability", n.describeDurability()},
		{"a dead disk", n.describeLoss()},
	}
	if n.console != nil {
		var addresses []string
		for _, a := range n.console.Addrs() {
			addresses = append(addresses, "http://"+a.String())
		}
		lines = append(lines, [2]string{"admin", strings.Join(addresses, ", ")})
	}
	fmt.Fprintf(w, "firn %s\n", buildVersion().Version)
	for _, line := range lines {
		fmt.Fprintf(w, "  %-13s %s\n", line[0], line[1])
	}
}

func (n *node) describeStore() string {
	if n.store == nil {
		return "none: everything stays on this disk (tier.store)"
	}
	capabilities, err := n.probe.get()
	if errors.Is(err, errNotAsked) {
		return n.storePlace()
	}
	if err != nil {
		return fmt.Sprintf("%s, which does not answer: %v", n.storePlace(), err)
	}
	return fmt.Sprintf("%s: %s", n.storePlace(), capabilities)
}

// storePlace names the store without its secrets.
func (n *node) storePlace() string {
	t := n.cfg.Tier
	if t.Store == config.StoreDir {
		return "dir " + t.DirPath
	}
	place := fmt.Sprintf("%s bucket %s", t.Store, t.S3.Bucket)
	if t.S3.Endpoint != "" {
		place += " at " + t.S3.Endpoint
	}
	if t.Prefix != "" {
		place += " under " + t.Prefix + "/"
	}
	return place
}

func (n *node) describeDurability() string {
	if n.cfg.Log.AcksAllFsync {
		return "acks=all is answered after fdatasync; acks=1 from the page cache, which a power cut loses"
	}
	return "log.acks.all.fsync is false: every acknowledgement comes from the page cache, which a power cut loses"
}

func (n *node) describeLoss() string {
	if n.store == nil {
		return "loses everything"
	}
	if n.cfg.Tier.RollAfter == 0 {
		return "loses what is not in the store: the open segment of each partition, and what waits for its upload"
	}
	return fmt.Sprintf("loses what is not in the store: at most about %s of records (tier.roll.ms), and what waits for its upload", n.cfg.Tier.RollAfter.Round(time.Millisecond))
}
