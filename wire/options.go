// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"firn/internal/bulk"
)

// Defaults of Options.
const (
	DefaultMaxRequestBytes = 100 << 20
	DefaultMaxInFlight     = 32
	DefaultRequestMemory   = 128 << 20
	DefaultIdleTimeout     = 10 * time.Minute
	DefaultSendTimeout     = 30 * time.Second
)

// apiVersionsKey is the one API whose framing has exceptions: its response
// header carries no tags in any version, and a version that we do not know is
// handed to the Handler instead of closing the connection.
const apiVersionsKey int16 = 18

// Versions is a closed range of versions of one API key.
type Versions struct {
	Min, Max int16
}

// Contains says whether v lies in the range.
func (r Versions) Contains(v int16) bool { return r.Min <= v && v <= r.Max }

// Table says which API keys and versions are served. It is read only once
// given to New.
type Table map[int16]Versions

// ApiKeys lists the table as an ApiVersions response carries it, by key.
func (t Table) ApiKeys() []kmsg.ApiVersionsResponseApiKey {
	keys := make([]kmsg.ApiVersionsResponseApiKey, 0, len(t))
	for key, v := range t {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = key, v.Min, v.Max
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b kmsg.ApiVersionsResponseApiKey) int { return cmp.Compare(a.ApiKey, b.ApiKey) })
	return keys
}

func (t Table) validate() []error {
	var faults []error
	for key, v := range t {
		req := kmsg.RequestForKey(key)
		switch {
		case req == nil:
			faults = append(faults, fmt.Errorf("Table: key %d cannot be decoded", key))
		case v.Min < 0 || v.Min > v.Max:
			faults = append(faults, fmt.Errorf("Table: key %d has the empty range %d to %d", key, v.Min, v.Max))
		case v.Max > req.MaxVersion():
			faults = append(faults, fmt.Errorf("Table: key %d goes up to version %d, at most %d can be decoded", key, v.Max, req.MaxVersion()))
		}
	}
	return faults
}

// Options are the settings of a Server. Table and Handler are required.
type Options struct {
	// Table says which keys and versions are decoded. A request outside of it
	// closes its connection, except for ApiVersions.
	Table Table
	// Handler answers requests. It is called by many goroutines at once, one
	// per connection.
	Handler Handler
	// Logger takes one line for each connection that is closed for a fault.
	// Nil discards them.
	Logger *slog.Logger
	// MaxRequestBytes bounds one request frame without its length field
	// (socket.request.max.bytes). 0 means DefaultMaxRequestBytes.
	MaxRequestBytes int
	// MaxInFlight bounds the requests of one connection between read and
	// sent. 0 means DefaultMaxInFlight.
	MaxInFlight int
	// RequestMemory bounds the bytes of all request frames held at once, over
	// all connections; a reader waits for its share before it reads a body.
	// 0 means DefaultRequestMemory, or MaxRequestBytes when that is more.
	RequestMemory int64
	// MaxConnections bounds the connections of the server; one more is closed
	// at once. 0 means no bound.
	MaxConnections int
	// MaxConnectionsPerIP bounds the connections from one address likewise.
	// 0 means no bound.
	MaxConnectionsPerIP int
	// IdleTimeout closes a connection that neither sent nor was sent anything
	// for so long and has no request under way. 0 means DefaultIdleTimeout.
	IdleTimeout time.Duration
	// SendTimeout closes a connection that takes nothing, or does not deliver
	// the next piece of a frame it began, for so long
	// (fetch.send.timeout.ms). 0 means DefaultSendTimeout.
	SendTimeout time.Duration
	// ChunkReader reads chunks of a Region that are found not to be in the
	// page cache when their turn to be sent comes. Nil reads them uncached on
	// the connection's writer.
	ChunkReader ChunkReader
	// Turns are taken by bulk answers, for each call that writes. Nil means
	// turns of the server's own.
	Turns *bulk.Turns
	// BulkPace bounds the bytes of bulk answers over all connections
	// (fetch.bulk.max.bytes.per.second). Nil means no bound.
	BulkPace *bulk.Pace
	// Registerer takes the metrics; only one server can be measured on it. Nil
	// means none.
	Registerer prometheus.Registerer
}

// EnsureDefaults fills in what is zero.
func (o *Options) EnsureDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.MaxRequestBytes = cmp.Or(o.MaxRequestBytes, DefaultMaxRequestBytes)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, DefaultMaxInFlight)
	o.RequestMemory = cmp.Or(o.RequestMemory, max(DefaultRequestMemory, int64(o.MaxRequestBytes)))
	o.IdleTimeout = cmp.Or(o.IdleTimeout, DefaultIdleTimeout)
	o.SendTimeout = cmp.Or(o.SendTimeout, DefaultSendTimeout)
	if o.Turns == nil {
		o.Turns = bulk.NewTurns(0)
	}
	if o.ChunkReader == nil {
		o.ChunkReader = uncached{}
	}
}

// Validate reports every fault of options that went through EnsureDefaults.
func (o *Options) Validate() error {
	faults := o.Table.validate()
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(o.Handler == nil, "Handler: is required")
	fault(o.MaxRequestBytes < minFrame || o.MaxRequestBytes > 1<<30, "MaxRequestBytes: %d is not between %d and %d", o.MaxRequestBytes, minFrame, 1<<30)
	fault(o.MaxInFlight < 1, "MaxInFlight: %d is not positive", o.MaxInFlight)
	fault(o.RequestMemory < int64(o.MaxRequestBytes), "RequestMemory: %d is less than one request of MaxRequestBytes (%d)", o.RequestMemory, o.MaxRequestBytes)
	fault(o.MaxConnections < 0, "MaxConnections: %d is negative", o.MaxConnections)
	fault(o.MaxConnectionsPerIP < 0, "MaxConnectionsPerIP: %d is negative", o.MaxConnectionsPerIP)
	fault(o.IdleTimeout < 0, "IdleTimeout: %v is negative", o.IdleTimeout)
	fault(o.SendTimeout < 0, "SendTimeout: %v is negative", o.SendTimeout)
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("check wire options: %w", err)
	}
	return nil
}
