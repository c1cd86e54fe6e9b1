// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"firn/record"
	"firn/tier/store"
)

// Damage of a kind to the answers of a store, by the part it hits.
var damages = map[string]func(answer []byte) []byte{
	"flipped bit": func(b []byte) []byte {
		b = bytes.Clone(b)
		b[len(b)/2] ^= 0x20
		return b
	},
	"torn":    func(b []byte) []byte { return b[:len(b)-1] },
	"nothing": func(b []byte) []byte { return nil },
	"zeros":   func(b []byte) []byte { return make([]byte, len(b)) },
}

// L6: a range that comes damaged is asked for once more; when it is damaged
// again the partition has an error that can be repeated, and no byte of it.
func TestDamagedRanges(t *testing.T) {
	log := testLog(0, 40, 60<<10)
	for name, damage := range damages {
		for part, hits := range map[string]func(off int64) bool{
			"chunk":    func(off int64) bool { return off == 0 },
			"sections": func(off int64) bool { return off == int64(len(log)) },
		} {
			t.Run(name+" "+part, func(t *testing.T) {
				g := newRig(t, ReaderOptions{}, log)
				var left atomic.Int64
				left.Store(1)
				g.hook(func(_ context.Context, _ string, off int64, answer []byte) ([]byte, error) {
					if hits(off) && left.Add(-1) >= 0 {
						return damage(answer), nil
					}
					return answer, nil
				})
				if d := g.read(t, 0, 1<<20); !bytes.HasPrefix(log, d.Bytes) || len(d.Bytes) == 0 {
					t.Error("other bytes after one damaged answer")
				}
				if s := g.r.Stats(); s.Refetched != 1 || s.Corrupt != 0 {
					t.Errorf("%d fetched again, %d corrupt; want 1 and 0", s.Refetched, s.Corrupt)
				}
			})
			t.Run(name+" "+part+" for good", func(t *testing.T) {
				g := newRig(t, ReaderOptions{}, log)
				g.hook(func(_ context.Context, _ string, off int64, answer []byte) ([]byte, error) {
					if hits(off) {
						return damage(answer), nil
					}
					return answer, nil
				})
				_, err := g.r.read(context.Background(), g.chain, 0, 1<<60, 1<<20, true)
				var bad *record.CorruptionError
				if !errors.Is(err, record.ErrStorage) || !errors.As(err, &bad) || errors.Is(err, record.ErrOffsetOutOfRange) {
					t.Fatalf("error is %v, want ErrStorage with a CorruptionError", err)
				}
				if want := g.keyOf(g.entries[0]); bad.Path != want {
					t.Errorf("path is %q, want %q", bad.Path, want)
				}
				if g.reloads != 1 {
					t.Errorf("manifest read again %d times, want once", g.reloads)
				}
				// The other chunks are as good as they were.
				if part == "chunk" {
					if d := g.read(t, 70, 1000); !bytes.HasPrefix(batchesFrom(log, 70), d.Bytes) || len(d.Bytes) == 0 {
						t.Error("other bytes from a good chunk")
					}
				}
			})
		}
	}
}

// An object that is gone sends the reader to the manifest once. A fresh chain
// heals the read; the same one fails it for this partition alone.
func TestAMissingObjectReloadsTheManifestOnce(t *testing.T) {
	log := testLog(0, 10, 5000)
	setup := func(t *testing.T) (g *rig, now Entry) {
		g = newRig(t, ReaderOptions{}, log)
		now = g.entries[0]
		g.entries[0].Epoch = 9 // another key
		return g, now
	}
	t.Run("healed", func(t *testing.T) {
		g, now := setup(t)
		g.onLoad = func() error { g.entries[0] = now; return nil }
		if d := g.read(t, 0, 1<<20); !bytes.Equal(d.Bytes, log) || g.reloads != 1 {
			t.Errorf("%d bytes after %d reloads", len(d.Bytes), g.reloads)
		}
	})
	t.Run("still missing", func(t *testing.T) {
		g, _ := setup(t)
		_, err := g.r.read(context.Background(), g.chain, 0, 1<<60, 1<<20, true)
		if !errors.Is(err, record.ErrStorage) || !errors.Is(err, store.ErrNotFound) || errors.Is(err, record.ErrOffsetOutOfRange) {
			t.Errorf("error is %v, want ErrStorage and ErrNotFound", err)
		}
		if g.reloads != 1 {
			t.Errorf("%d reloads, want 1", g.reloads)
		}
	})
	t.Run("manifest out of reach", func(t *testing.T) {
		g, _ := setup(t)
		g.onLoad = func() error { return errors.New("bucket away") }
		if _, err := g.r.read(context.Background(), g.chain, 0, 1<<60, 1<<20, true); !errors.Is(err, record.ErrStorage) {
			t.Errorf("error is %v, want ErrStorage", err)
		}
	})
}

// A store that refuses is an error of one read; nothing of it is remembered.
func TestAStoreThatRefuses(t *testing.T) {
	log := testLog(0, 10, 5000)
	g := newRig(t, ReaderOptions{}, log)
	refused := errors.New("503 slow down")
	g.hook(func(context.Context, string, int64, []byte) ([]byte, error) { return nil, refused })
	_, err := g.r.read(context.Background(), g.chain, 0, 1<<60, 1<<20, true)
	if !errors.Is(err, record.ErrStorage) || !errors.Is(err, refused) || g.reloads != 0 {
		t.Errorf("error is %v after %d reloads, want ErrStorage and the store's error after none", err, g.reloads)
	}
	g.waitIdle(t)
	g.hook(nil)
	if d := g.read(t, 0, 1<<20); !bytes.Equal(d.Bytes, log) {
		t.Error("other bytes")
	}
}

// An object that a newer version wrote is refused and not taken for damage.
func TestAnUnknownVersionIsRefused(t *testing.T) {
	log := testLog(0, 10, 5000)
	g := newRig(t, ReaderOptions{}, log)
	key := g.keyOf(g.entries[0])
	b := g.objects[key]
	footer := b[int64(len(b))-int64(g.entries[0].FooterSize):]
	footer[9] = 2
	fixFooter(footer)
	_, err := g.r.read(context.Background(), g.chain, 0, 1<<60, 1<<20, true)
	var bad *record.CorruptionError
	if !errors.Is(err, record.ErrUnsupportedVersion) || !errors.Is(err, record.ErrStorage) || errors.As(err, &bad) {
		t.Errorf("error is %v, want ErrUnsupportedVersion and no corruption", err)
	}
	if s := g.r.Stats(); s.Refetched != 0 {
		t.Errorf("%d ranges fetched again", s.Refetched)
	}
}
