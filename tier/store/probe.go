// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// probeCleanup is how long a probe may take to remove what it wrote, even when
// its own context has ended.
const probeCleanup = 15 * time.Second

// ProbeName begins the last element of every key that a probe writes.
const ProbeName = "firn-probe-"

// Adaptive is a store with more than one way to do a thing, which learns by
// trial which of them work. Probe finds it behind decorators.
type Adaptive interface {
	// Detect tries what the store can do with keys that begin with scratch,
	// removes what it wrote, works that way from then on and tells it. It may
	// run at any time, also beside other calls.
	Detect(ctx context.Context, scratch string) (Capabilities, error)
}

// Probe is ProbeUnder with no prefix.
func Probe(ctx context.Context, s Store) (Capabilities, error) {
	return ProbeUnder(ctx, s, "")
}

// ProbeUnder tries what Firn needs of a store (list, write, read whole and in
// part, describe, delete, refuse a taken key) and what the store can do beyond
// that, with objects of a few bytes whose keys begin with prefix and ProbeName,
// and leaves none of them behind. The prefix is as in List: credentials may be
// confined to it. An Adaptive store works in the way found from then on.
//
// The error says which step failed; the capabilities are then of no use. What a
// store lacks but Firn can do without is no error.
func ProbeUnder(ctx context.Context, s Store, prefix string) (caps Capabilities, err error) {
	scratch := prefix + ProbeName + randomHex()
	if err := CheckKey(scratch); err != nil {
		return Capabilities{}, &Error{Op: OpProbe, Key: prefix, Err: err}
	}
	// The list comes first: unlike a failed HEAD its error tells a missing
	// bucket, bad credentials and a wrong address apart.
	if _, _, err := s.List(ctx, prefix, "", 1); err != nil {
		return Capabilities{}, probeError(prefix, KindOf(err), "list objects", err)
	}
	if a, ok := As[Adaptive](s); ok {
		if _, err := a.Detect(ctx, scratch+"-d"); err != nil {
			return Capabilities{}, err
		}
	}
	p := prober{s: s, key: scratch}
	defer func() { err = errors.Join(err, p.cleanup(ctx)) }()
	for _, step := range []struct {
		what string
		run  func(context.Context) error
	}{
		{"write an object", p.write},
		{"read an object", p.read},
		{"read beyond an object's end", p.readBeyond},
		{"describe an object", p.head},
		{"find the object in a list", p.list},
		{"refuse a key that is taken", p.conditional},
		{"delete an object", p.remove},
		{"delete an object that is not there", p.remove},
		{"see that the object is gone", p.gone},
	} {
		if err := step.run(ctx); err != nil {
			kind := KindOf(err)
			if kind != Retriable {
				kind = Permanent
			}
			return Capabilities{}, probeError(prefix, kind, step.what, err)
		}
	}
	caps = s.Capabilities()
	caps.ConditionalPut = caps.ConditionalPut && p.refused
	return caps, nil
}

// prober is one run of the generic steps.
type prober struct {
	s       Store
	key     string
	written bool
	refused bool
}

var probeBody = []byte("firn probe: this object may be deleted\n")

func (p *prober) write(ctx context.Context) error {
	err := p.s.Put(ctx, p.key, BytesSource(probeBody), PutOptions{})
	p.written = err == nil
	return err
}

func (p *prober) read(ctx context.Context) error {
	whole := make([]byte, len(probeBody))
	if _, err := p.s.GetRange(ctx, p.key, whole, 0); err != nil {
		return err
	}
	part := make([]byte, 7)
	if _, err := p.s.GetRange(ctx, p.key, part, 5); err != nil {
		return err
	}
	if !bytes.Equal(whole, probeBody) || !bytes.Equal(part, probeBody[5:12]) {
		return errors.New("the store gave back other bytes than it was given")
	}
	return nil
}

func (p *prober) readBeyond(ctx context.Context) error {
	b := make([]byte, len(probeBody)+1)
	n, err := p.s.GetRange(ctx, p.key, b, 0)
	if errors.Is(err, io.ErrUnexpectedEOF) && n == len(probeBody) {
		return nil
	}
	if err == nil {
		return fmt.Errorf("the store gave %d bytes of an object of %d", n, len(probeBody))
	}
	return err
}

func (p *prober) head(ctx context.Context) error {
	info, err := p.s.Head(ctx, p.key)
	if err != nil {
		return err
	}
	if info.Size != int64(len(probeBody)) {
		return fmt.Errorf("the store says that an object of %d bytes has %d", len(probeBody), info.Size)
	}
	return nil
}

func (p *prober) list(ctx context.Context) error {
	infos, _, err := p.s.List(ctx, p.key, "", 0)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(infos, func(i Info) bool { return i.Key == p.key }) {
		return errors.New("a list does not show an object just written; Firn needs a store with strong consistency")
	}
	return nil
}

// conditional learns whether the store refuses a taken key; both answers do.
func (p *prober) conditional(ctx context.Context) error {
	err := p.s.Put(ctx, p.key, BytesSource(probeBody), PutOptions{IfNoneMatch: true})
	p.refused = errors.Is(err, ErrExists)
	if p.refused {
		return nil
	}
	return err
}

func (p *prober) remove(ctx context.Context) error { return p.s.Delete(ctx, []string{p.key}) }

func (p *prober) gone(ctx context.Context) error {
	_, err := p.s.Head(ctx, p.key)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return errors.New("the store still shows an object that it deleted")
}

// cleanup removes the probe's object whatever became of the probe. That it
// failed is worth telling only where an object was seen to be written.
func (p *prober) cleanup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeCleanup)
	defer cancel()
	if err := p.s.Delete(ctx, []string{p.key}); err != nil && p.written {
		return probeError(p.key, KindOf(err), "remove the probe object", err)
	}
	return nil
}

func probeError(key string, kind Kind, what string, err error) error {
	return &Error{Op: OpProbe, Key: key, Kind: kind, Reason: reasonOf(err), Err: fmt.Errorf("%s: %w", what, cause(err))}
}

func randomHex() string {
	var b [8]byte
	// crypto/rand.Read never fails: it ends the process if the system has no
	// randomness.
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
