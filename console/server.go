// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds of a request. The longest answer is a CPU profile, whose length the
// client chooses and pprof holds below the write timeout.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 2 * time.Minute
	idleTimeout       = 2 * time.Minute
	sourceTimeout     = 30 * time.Second
	maxHeaderBytes    = 16 << 10
	maxBodyBytes      = 64 << 10
)

// Options says what the console serves and where.
type Options struct {
	// Addresses are host:port; port 0 takes a free one. At least one.
	Addresses []string
	// Source is asked for everything but metrics and profiles. Required.
	Source Source
	// Gatherer is what /metrics shows; nil leaves /metrics out.
	Gatherer prometheus.Gatherer
	// Logger takes the faults of the server; nil discards them.
	Logger *slog.Logger
}

// EnsureDefaults fills in what is not set.
func (o *Options) EnsureDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Validate names every fault of the options.
func (o *Options) Validate() error {
	var errs []error
	if len(o.Addresses) == 0 {
		errs = append(errs, errors.New("console: Addresses is empty"))
	}
	if o.Source == nil {
		errs = append(errs, errors.New("console: Source is nil"))
	}
	return errors.Join(errs...)
}

// Server is the running admin port.
type Server struct {
	http      *http.Server
	listeners []net.Listener
	serving   sync.WaitGroup
	log       *slog.Logger
}

// Listen opens all addresses and serves them until Close. When one cannot be
// opened none stays open.
func Listen(ctx context.Context, o Options) (*Server, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{log: o.Logger, http: &http.Server{
		Handler:           http.MaxBytesHandler(handler(o), maxBodyBytes),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}}
	for _, addr := range o.Addresses {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
		if err != nil {
			for _, open := range s.listeners {
				err = errors.Join(err, open.Close())
			}
			return nil, fmt.Errorf("listen on admin address %s: %w", addr, err)
		}
		s.listeners = append(s.listeners, l)
	}
	for _, l := range s.listeners {
		s.serving.Go(func() { s.serve(l) })
	}
	return s, nil
}

func (s *Server) serve(l net.Listener) {
	if err := s.http.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("admin port stopped", "event", "console_stopped", "addr", l.Addr(), "err", err)
	}
}

// Addrs are the addresses that are served, in the order of the options.
func (s *Server) Addrs() []net.Addr {
	out := make([]net.Addr, len(s.listeners))
	for i, l := range s.listeners {
		out[i] = l.Addr()
	}
	return out
}

// Close stops accepting, lets requests under way finish until ctx ends, cuts
// off the rest, and waits.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("shut down the admin port: %w", err), s.http.Close())
	}
	s.serving.Wait()
	return err
}

// handler routes the paths that doc.go lists.
func handler(o Options) http.Handler {
	a := api{o.Source}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", a.ready)
	mux.HandleFunc("GET /v1/status", a.status)
	mux.HandleFunc("GET /v1/segments", a.segments)
	mux.HandleFunc("GET /v1/explain", a.explain)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	if o.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn)}))
	}
	return mux
}
