// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// errServerClosed ends connections when Close has run out of patience.
var errServerClosed = errors.New("server closed")

// Server owns listeners and connections. All methods may be called
// concurrently.
type Server struct {
	o        Options
	pool     bufferPool // of responses
	frames   *frameMemory
	counters counters
	metrics  *metrics

	// ctx is the parent of every connection's context; it ends when Close
	// cuts off what is left. intake ends when Close begins.
	ctx        context.Context
	cancel     context.CancelCauseFunc
	intake     context.Context
	stopIntake context.CancelFunc
	wg         sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	listeners []net.Listener
	conns     map[*conn]struct{}
	perIP     map[netip.Addr]int
	lastID    uint64
	refusing  bool // a refusal was logged since the last connection that fitted
}

// New makes a Server that listens nowhere yet.
func New(o Options) (*Server, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{o: o, conns: map[*conn]struct{}{}, perIP: map[netip.Addr]int{}}
	s.frames = newFrameMemory(o.RequestMemory, o.MaxRequestBytes)
	s.metrics = newMetrics(o.Registerer, s)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.intake, s.stopIntake = context.WithCancel(s.ctx)
	return s, nil
}

// Listen accepts TCP connections at addr (host:port, port 0 for any) from now
// until Close, and returns the address it got. name is what ConnInfo.Listener
// says.
func (s *Server) Listen(name, addr string) (net.Addr, error) { return s.ListenTLS(name, addr, nil) }

// ListenTLS is Listen for clients that speak TLS, as config says; nil is Listen.
// config must not be changed afterwards.
func (s *Server) ListenTLS(name, addr string, config *tls.Config) (net.Addr, error) {
	if config != nil {
		// Answers are large: records of a full 16 KiB from the first one on
		// cost half of what small ones do.
		config = config.Clone()
		config.DynamicRecordSizingDisabled = true
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(s.intake, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.Join(fmt.Errorf("listen for %s: %w", name, net.ErrClosed), ln.Close())
	}
	s.listeners = append(s.listeners, ln)
	s.wg.Go(func() { s.accept(ln, name, config) })
	return ln.Addr(), nil
}

// accept admits connections until the listener is closed. A lack of
// descriptors or memory passes: it waits a little and goes on.
func (s *Server) accept(ln net.Listener, name string, config *tls.Config) {
	const first, longest = 5 * time.Millisecond, time.Second
	wait := first
	for {
		nc, err := ln.Accept()
		if err == nil {
			wait = first
			if tcp, ok := nc.(*net.TCPConn); ok && config != nil {
				nc = newTLSConn(tcp, config)
			}
			s.admit(nc, name)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if wait == first {
			s.o.Logger.Error("accepting failed, trying again", "event", "accept_failed", "listener", name, "error", err)
		}
		select {
		case <-s.intake.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, longest)
	}
}

// admit serves a connection on goroutines of its own, or closes it when a
// limit is reached.
func (s *Server) admit(nc net.Conn, listener string) {
	ip := addrOf(nc)
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason := s.refusalLocked(ip); reason != "" {
		s.counters.refused.Add(1)
		if !s.closed && !s.refusing {
			// One line per spell of refusals: a flood must not fill the log.
			s.refusing = true
			s.o.Logger.Warn("refusing connections", "event", "connection_refused", "listener", listener, "remote", nc.RemoteAddr().String(), "reason", reason)
		}
		if err := nc.Close(); err != nil {
			s.o.Logger.Debug("closing a refused connection failed", "event", "close_failed", "error", err)
		}
		return
	}
	s.refusing = false
	s.lastID++
	c := newConn(s, nc, ConnInfo{RemoteAddr: nc.RemoteAddr().String(), Listener: listener, ID: s.lastID})
	s.conns[c] = struct{}{}
	s.perIP[ip]++
	s.counters.accepted.Add(1)
	s.wg.Go(func() {
		defer s.forget(c, ip)
		c.serve()
	})
}

func (s *Server) refusalLocked(ip netip.Addr) string {
	switch {
	case s.closed:
		return "the server is closing"
	case s.o.MaxConnections > 0 && len(s.conns) >= s.o.MaxConnections:
		return fmt.Sprintf("%d connections are open", len(s.conns))
	case s.o.MaxConnectionsPerIP > 0 && s.perIP[ip] >= s.o.MaxConnectionsPerIP:
		return fmt.Sprintf("%d connections from this address are open", s.perIP[ip])
	}
	return ""
}

func (s *Server) forget(c *conn, ip netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.perIP[ip]--; s.perIP[ip] <= 0 {
		delete(s.perIP, ip)
	}
}

// addrOf is the peer's address without its port, or the zero address where
// there is none, as with pipes.
func addrOf(nc net.Conn) netip.Addr {
	ap, err := netip.ParseAddrPort(nc.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// Close stops accepting and reading, lets the answers of requests that were
// read be sent until ctx is done, cuts off what is left then, and waits for
// every goroutine. The error says that something was cut off, or that a
// listener did not close. Calling it again waits again.
func (s *Server) Close(ctx context.Context) error {
	errs := s.stop()
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		if n := s.cut(); n > 0 {
			errs = append(errs, fmt.Errorf("close wire server: %d connections cut off with answers under way: %w", n, context.Cause(ctx)))
		}
		<-done
	}
	s.cancel(errServerClosed)
	return errors.Join(errs...)
}

// stop ends the intake of connections and requests.
func (s *Server) stop() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.stopIntake()
	var errs []error
	for _, ln := range s.listeners {
		if err := ln.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close listener %v: %w", ln.Addr(), err))
		}
	}
	s.listeners = nil
	for c := range s.conns {
		c.stopReading()
	}
	return errs
}

// cut fails the connections that are left and says how many of them had
// something under way.
func (s *Server) cut() int {
	s.cancel(errServerClosed)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for c := range s.conns {
		if !c.lingering.Load() {
			n++
		}
		c.fail(errServerClosed)
	}
	return n
}
