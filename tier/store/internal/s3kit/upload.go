// SPDX-License-Identifier: Apache-2.0

package s3kit

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"time"

	"firn/tier/store"
)

const (
	// abortTimeout bounds the removal of the parts of a failed upload.
	abortTimeout = 30 * time.Second
	// smallBody is the size up to which a body does not wait for a buffer, so
	// that a manifest of a few KiB never queues behind segments.
	smallBody = 256 << 10
	partAlign = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, body store.Source, o store.PutOptions) error {
	if err := store.CheckPut(key, body); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return s.fail(ctx, store.OpPut, key, err)
	}
	m := s.modes.Load()
	large := body.Size() > s.o.MultipartBytes
	// Where the store does not decide, this look does, as well as it can; for a
	// large body it also spares an upload in vain.
	if o.IfNoneMatch && (large || !m.conditional) {
		switch _, err := s.Head(ctx, key); {
		case err == nil:
			return &store.Error{Op: store.OpPut, Key: key, Kind: store.Exists, Err: store.ErrExists}
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
	}
	put := s.putWhole
	if large {
		put = s.putParts
	}
	err := put(ctx, key, body, o, m)
	if err != nil && o.IfNoneMatch && s.dropConditions(m, err) {
		return s.Put(ctx, key, body, o)
	}
	return err
}

// dropConditions stops sending conditions to a store that was not there to be
// asked at the start, and now refuses them as a thing it does not know. It says
// whether the Put is worth another try.
func (s *Store) dropConditions(m *modes, err error) bool {
	var api *APIError
	if m.known || !m.conditional || !errors.As(err, &api) || api.Status != http.StatusNotImplemented {
		return false
	}
	without := *m
	without.conditional, without.conditionalLarge = false, false
	s.modes.CompareAndSwap(m, &without)
	return true
}

// putWhole uploads a body in one request.
func (s *Store) putWhole(ctx context.Context, key string, body store.Source, o store.PutOptions, m *modes) error {
	buf, release, err := s.buffer(ctx, body.Size())
	if err != nil {
		return s.fail(ctx, store.OpPut, key, err)
	}
	defer release()
	if err := store.ReadSource(body, buf, 0); err != nil {
		return &store.Error{Op: store.OpPut, Key: key, Err: err}
	}
	crc := crc32.Checksum(buf, castagnoli)
	if err := checkBody(o, crc); err != nil {
		return &store.Error{Op: store.OpPut, Key: key, Err: err}
	}
	// Reading may have taken its time: nothing is written for a dead caller.
	if err := ctx.Err(); err != nil {
		return s.fail(ctx, store.OpPut, key, err)
	}
	headers := PutHeaders{IfNoneMatch: o.IfNoneMatch && m.conditional}
	if m.checksums {
		headers.CRC32C = &crc
	}
	if err := s.driver.Put(ctx, key, buf, headers); err != nil {
		return s.fail(ctx, store.OpPut, key, err)
	}
	return nil
}

// putParts uploads a body in parts, and leaves none of them after an error.
func (s *Store) putParts(ctx context.Context, key string, body store.Source, o store.PutOptions, m *modes) error {
	partSize := s.partSize(body.Size())
	buf, release, err := s.buffer(ctx, partSize)
	if err != nil {
		return s.fail(ctx, store.OpPut, key, err)
	}
	defer release()
	id, err := s.driver.CreateUpload(ctx, key, m.partChecksums)
	if err != nil {
		return s.fail(ctx, store.OpPut, key, fmt.Errorf("begin an upload in parts: %w", err))
	}
	u := Upload{Key: key, ID: id}
	err = s.sendParts(ctx, u, body, buf, o, m)
	if err == nil {
		return nil
	}
	// A completion that failed may yet have happened; then there is nothing to
	// abort, and the store says so.
	abortCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	var e *store.Error
	if abortErr := s.driver.AbortUpload(abortCtx, u); abortErr != nil && !gone(abortErr) && errors.As(err, &e) {
		e.Err = fmt.Errorf("%w (and its parts could not be removed, which the bucket's lifecycle rule for incomplete uploads has to do: %v)", e.Err, abortErr)
	}
	return err
}

// gone says whether there is no such upload any more.
func gone(err error) bool {
	var api *APIError
	return errors.As(err, &api) && (api.Code == "NoSuchUpload" || api.Status == http.StatusNotFound)
}

func (s *Store) sendParts(ctx context.Context, u Upload, body store.Source, buf []byte, o store.PutOptions, m *modes) error {
	size, step := body.Size(), int64(len(buf))
	parts := make([]Part, 0, (size+step-1)/step)
	var whole uint32
	for off := int64(0); off < size; off += step {
		b := buf[:min(step, size-off)]
		if err := ctx.Err(); err != nil {
			return s.fail(ctx, store.OpPut, u.Key, err)
		}
		if err := store.ReadSource(body, b, off); err != nil {
			return &store.Error{Op: store.OpPut, Key: u.Key, Err: err}
		}
		whole = crc32.Update(whole, castagnoli, b)
		part := Part{Number: int32(len(parts) + 1)}
		if m.partChecksums {
			crc := crc32.Checksum(b, castagnoli)
			part.CRC32C = &crc
		}
		var err error
		if part.ETag, err = s.driver.UploadPart(ctx, u, part.Number, b, part.CRC32C); err != nil {
			return s.fail(ctx, store.OpPut, u.Key, fmt.Errorf("upload part %d of %d: %w", part.Number, cap(parts), err))
		}
		parts = append(parts, part)
	}
	if err := checkBody(o, whole); err != nil {
		return &store.Error{Op: store.OpPut, Key: u.Key, Err: err}
	}
	if err := s.driver.CompleteUpload(ctx, u, parts, o.IfNoneMatch && m.conditional && m.conditionalLarge); err != nil {
		return s.fail(ctx, store.OpPut, u.Key, fmt.Errorf("complete an upload in parts: %w", err))
	}
	return nil
}

func checkBody(o store.PutOptions, crc uint32) error {
	if o.CRC32C != nil && *o.CRC32C != crc {
		return fmt.Errorf("%w: CRC-32C is %08x, want %08x", store.ErrBodyChanged, crc, *o.CRC32C)
	}
	return nil
}

// partSize is the size of the parts of a body: larger than asked for only where
// there would be too many.
func (s *Store) partSize(size int64) int64 {
	least := (size + maxParts - 1) / maxParts
	least = (least + partAlign - 1) / partAlign * partAlign
	return max(s.o.PartBytes, least)
}

// buffer gives n bytes to fill, of which release gives the memory back. It
// waits for its turn if n is not small.
func (s *Store) buffer(ctx context.Context, n int64) (buf []byte, release func(), err error) {
	if n <= smallBody {
		return make([]byte, n), func() {}, nil
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	// A pool that the garbage collector empties: between bursts of uploads the
	// memory goes back.
	b, _ := s.pool.Get().(*[]byte)
	if b == nil || int64(cap(*b)) < n {
		fresh := make([]byte, max(n, s.o.PartBytes, s.o.MultipartBytes))
		b = &fresh
	}
	return (*b)[:n], func() {
		s.pool.Put(b)
		<-s.slots
	}, nil
}
