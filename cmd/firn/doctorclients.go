// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"firn/config"
	"firn/tier/store"
)

// dialTimeout bounds the look at one address.
const dialTimeout = 5 * time.Second

func (d *doctor) checkPorts(ctx context.Context) {
	for _, l := range d.cfg.Network.Listeners {
		ours := d.status != nil && slices.ContainsFunc(d.status.Listeners, func(s string) bool { return samePort(s, l.Bind.Port) })
		d.checkPort(ctx, "port of "+l.Name, "listeners", l.Bind, ours)
	}
	for _, admin := range d.cfg.Operation.AdminListeners {
		d.checkPort(ctx, "admin port", "admin.listeners", admin, d.status != nil)
	}
}

// samePort says whether an address, which ends in :port, has that port.
func samePort(address string, port int) bool {
	_, text, err := net.SplitHostPort(address[lastSlash(address)+1:])
	return err == nil && text == strconv.Itoa(port)
}

func lastSlash(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '/' {
			return i
		}
	}
	return -1
}

// checkPort tries to listen. A port that is taken is well when our own broker
// has it.
func (d *doctor) checkPort(ctx context.Context, name, setting string, at config.Address, ours bool) {
	if at.Port == 0 {
		d.ok(name, "any free port")
		return
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", at.String())
	switch {
	case err == nil:
		if err := l.Close(); err != nil {
			d.warn(name, "see whether a broker can start", "%s: %v", at, err)
			return
		}
		d.ok(name, "%s is free", at)
	case errors.Is(err, syscall.EADDRINUSE) && ours:
		d.ok(name, "%s is the running broker's", at)
	case errors.Is(err, syscall.EADDRINUSE):
		d.fail(name, "stop what has it (ss -ltnp shows it) or change "+setting, "%s is taken by another process", at)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		d.fail(name, "set "+setting+" to an address of this machine, or to 0.0.0.0", "%s is no address of this machine", at)
	case errors.Is(err, syscall.EACCES):
		d.fail(name, "take a port from 1024 up", "%s may not be opened by this user", at)
	default:
		d.fail(name, "change "+setting, "%v", err)
	}
}

// checkAdvertised looks at the addresses that clients are told: as a client
// does when the broker runs, else as far as names go.
func (d *doctor) checkAdvertised(ctx context.Context) {
	for _, l := range d.cfg.Network.Listeners {
		name := "advertised by " + l.Name
		if d.status != nil && l.Bind.Port != 0 {
			d.askListener(ctx, name, l)
			continue
		}
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", l.Advertised.Host)
		if err != nil || len(ips) == 0 {
			d.fail(name, "set advertised.listeners to a name or address that clients can reach", "%s has no address: %v", l.Advertised.Host, err)
			continue
		}
		if cure, local := d.loopbackOnly(l, ips); local {
			d.warn(name, cure, "clients are told %s, which only this machine reaches, though %s is open to others", l.Advertised, l.Bind)
			continue
		}
		d.ok(name, "clients are told %s, which is %s; no broker runs to be asked", l.Advertised, ips[0].Unmap())
	}
}

// loopbackOnly says whether clients elsewhere are let in and then sent to
// themselves.
func (d *doctor) loopbackOnly(l config.Listener, ips []netip.Addr) (cure string, local bool) {
	bind, err := netip.ParseAddr(l.Bind.Host)
	open := l.Bind.Host == "" || err == nil && !bind.IsLoopback()
	loop := !slices.ContainsFunc(ips, func(ip netip.Addr) bool { return !ip.Unmap().IsLoopback() })
	return "set advertised.listeners to a name that clients can reach", open && loop && l.Bind.Host != "localhost"
}

// reachable is an address of a listener that this machine can connect to.
func reachable(bind config.Address) string {
	addr, err := ownAdmin([]config.Address{bind})
	if err != nil {
		return bind.String()
	}
	return addr
}

// askListener asks the broker by one of its listeners, in TLS if that speaks it,
// where the broker's own certificates are trusted and its name must be in them.
func (d *doctor) askListener(ctx context.Context, name string, l config.Listener) {
	if !l.TLS {
		d.askAdvertised(ctx, name, reachable(l.Bind), nil)
		return
	}
	const cure = "see that ssl.keystore.* holds a good certificate and its key"
	own, err := keystore(d.cfg.Network.TLS)
	if err != nil {
		d.fail(name, cure, "%v", err)
		return
	}
	if d.cfg.Network.TLS.ClientAuth == config.ClientAuthRequired {
		d.ok(name, "clients are told %s; it was not asked, since clients must show a certificate", l.Advertised)
		return
	}
	roots := x509.NewCertPool()
	for _, der := range own.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			d.fail(name, cure, "%v", err)
			return
		}
		roots.AddCert(c)
	}
	d.askAdvertised(ctx, name, reachable(l.Bind), &tls.Config{RootCAs: roots, ServerName: l.Advertised.Host, MinVersion: tls.VersionTLS12})
}

// askAdvertised asks the broker where its brokers are, and whether the same
// cluster answers there.
func (d *doctor) askAdvertised(ctx context.Context, name, at string, secure *tls.Config) {
	const cure = "set advertised.listeners to a name and port that clients can reach"
	told, err := metadataOf(ctx, at, secure)
	if err != nil {
		d.fail(name, "see the log of the broker", "%s does not answer: %v", at, err)
		return
	}
	for _, b := range told.Brokers {
		addr := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		there, err := metadataOf(ctx, addr, secure)
		switch {
		case err != nil:
			d.fail(name, cure, "clients are told %s, which does not answer from here: %v", addr, err)
		case there.Cluster != told.Cluster:
			d.fail(name, cure, "clients are told %s, where another cluster answers (%s)", addr, there.Cluster)
		default:
			d.ok(name, "clients are told %s, and this cluster answers there", addr)
		}
	}
}

// metadataOf asks one address for its brokers, as a client begins.
func metadataOf(ctx context.Context, addr string, secure *tls.Config) (kadm.Metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	opts := []kgo.Opt{kgo.SeedBrokers(addr), kgo.ClientID("firn-doctor"), kgo.DialTimeout(dialTimeout), kgo.RequestRetries(0)}
	if secure != nil {
		opts = append(opts, kgo.DialTLSConfig(secure))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return kadm.Metadata{}, err
	}
	defer cl.Close()
	return kadm.NewClient(cl).BrokerMetadata(ctx)
}

func (d *doctor) checkStore(ctx context.Context) {
	const name = "object store"
	t := d.cfg.Tier
	if !t.Enabled() {
		d.ok(name, "none: all history stays on the local disk (tier.store)")
		return
	}
	started := time.Now()
	report, err := initStore(ctx, t, false)
	if err != nil {
		d.fail(name, storeCure(t, err), "%v", err)
		return
	}
	if report.Versioned {
		d.warn(name, "give the bucket a lifecycle rule for noncurrent versions", "the bucket keeps what is deleted, and that costs money")
	}
	for _, dir := range d.cfg.Log.Dirs {
		if t.Store == config.StoreDir && sameDevice(t.DirPath, existing(dir)) {
			d.warn(name, "put tier.dir.path on another disk, or use a bucket", "%s is on the disk of the data directory %s: it protects against nothing there", t.DirPath, dir)
		}
	}
	without := ""
	if !report.ConditionalPut {
		without = ", without conditional writes: Firn lists after it writes instead"
	}
	d.ok(name, "%s can do all that is needed (tried in %s)%s", report.Store, time.Since(started).Round(time.Millisecond), without)
}

// storeCure says what to do about a probe that failed.
func storeCure(t config.Tier, err error) string {
	if t.Store == config.StoreDir {
		return "let the user of the broker write to tier.dir.path"
	}
	switch e, _ := asExit(err); {
	case e != nil && e.code == exitNotFound, errors.Is(err, store.ErrNotFound):
		return "make the bucket: firn tier init --create-bucket, or correct tier.s3.bucket"
	case e != nil && e.code == exitUnreachable:
		return fmt.Sprintf("see whether tier.s3.endpoint (%s) is right and can be reached from here", t.S3.Endpoint)
	}
	return "look at the credentials (tier.s3.access.key.id or the environment) and at what they may do: ListBucket, GetObject, PutObject, DeleteObject"
}

// sameDevice says whether two paths are on one file system.
func sameDevice(a, b string) bool {
	device := func(path string) (uint64, bool) {
		info, err := os.Stat(path)
		if err != nil {
			return 0, false
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return 0, false
		}
		return uint64(st.Dev), true
	}
	one, ok1 := device(a)
	two, ok2 := device(b)
	return ok1 && ok2 && one == two
}
