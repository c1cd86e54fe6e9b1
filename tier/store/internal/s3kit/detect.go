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

// detectCleanup bounds the removal of what Detect wrote.
const detectCleanup = 15 * time.Second

// Detect implements store.Adaptive. It asks for more than it needs and sees
// what is refused, since stores that lack a thing either refuse it or, worse,
// ignore it.
func (s *Store) Detect(ctx context.Context, scratch string) (store.Capabilities, error) {
	d := &detection{s: s, m: modes{conditional: true, conditionalLarge: true, checksums: true, partChecksums: true, bulkDelete: true, known: true}, key: scratch}
	err := d.run(ctx)
	if cleanErr := d.cleanup(ctx); err == nil {
		err = cleanErr
	}
	if err != nil {
		return store.Capabilities{}, err
	}
	s.modes.Store(&d.m)
	return s.Capabilities(), nil
}

// detection is one run of Detect.
type detection struct {
	s   *Store
	m   modes
	key string
}

var detectBody = []byte("firn probe: this object may be deleted\n")

func (d *detection) run(ctx context.Context) error {
	// Many credentials may not ask this; then we do not know, and nothing
	// depends on it.
	d.m.versioned, _ = d.s.driver.Versioned(ctx)
	for _, step := range []struct {
		what string
		run  func(context.Context) error
	}{
		{"write an object with a checksum", d.checksums},
		{"write an object on condition", d.conditional},
		{"write an object in parts", d.multipart},
		{"delete objects in bulk", d.bulkDelete},
	} {
		if err := step.run(ctx); err != nil {
			return d.s.fail(ctx, store.OpProbe, d.key, fmt.Errorf("%s: %w", step.what, err))
		}
	}
	return nil
}

// notSupported says whether the store refused the request for what it asked, as
// opposed to who asked, or how it happens to fare.
func notSupported(err error) bool {
	var api *APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.Status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusLengthRequired, http.StatusUnsupportedMediaType, http.StatusNotImplemented:
		// A sentence to check means a fault of the configuration.
		_, check := classify(store.OpProbe, err)
		return check == "" || api.Status == http.StatusNotImplemented
	}
	return false
}

// checksums sends a right and a wrong one; only a store that takes the first
// and refuses the second checks them.
func (d *detection) checksums(ctx context.Context) error {
	right := crc32.Checksum(detectBody, castagnoli)
	err := d.s.driver.Put(ctx, d.key, detectBody, PutHeaders{CRC32C: &right})
	if notSupported(err) {
		d.m.checksums, d.m.partChecksums = false, false
		return d.s.driver.Put(ctx, d.key, detectBody, PutHeaders{})
	}
	if err != nil {
		return err
	}
	wrong := right + 1
	err = d.s.driver.Put(ctx, d.key+"-wrong", detectBody, PutHeaders{CRC32C: &wrong})
	if err == nil {
		d.m.checksums, d.m.partChecksums = false, false
	}
	if err == nil || notSupported(err) {
		return nil
	}
	return err
}

// conditional writes over the object that checksums left.
func (d *detection) conditional(ctx context.Context) error {
	err := d.s.driver.Put(ctx, d.key, detectBody[:7], PutHeaders{IfNoneMatch: true})
	if err == nil || notSupported(err) {
		d.m.conditional, d.m.conditionalLarge = false, false
		return nil
	}
	if isKind(store.OpPut, err, store.Exists) {
		return nil
	}
	return err
}

// multipart takes the first set of extras with which the store takes an upload.
func (d *detection) multipart(ctx context.Context) (err error) {
	sums, conditions := d.m.partChecksums, d.m.conditionalLarge
	for _, try := range []struct{ sums, conditions bool }{{sums, conditions}, {false, conditions}, {sums, false}, {false, false}} {
		d.m.partChecksums, d.m.conditionalLarge = try.sums, try.conditions
		if err = d.upload(ctx); !notSupported(err) {
			return err
		}
	}
	return fmt.Errorf("the store has no uploads in parts, which Firn needs for segments: %w", err)
}

func (d *detection) upload(ctx context.Context) error {
	key := d.key + "-parts"
	id, err := d.s.driver.CreateUpload(ctx, key, d.m.partChecksums)
	if err != nil {
		return err
	}
	u := Upload{Key: key, ID: id}
	part := Part{Number: 1}
	if d.m.partChecksums {
		crc := crc32.Checksum(detectBody, castagnoli)
		part.CRC32C = &crc
	}
	part.ETag, err = d.s.driver.UploadPart(ctx, u, 1, detectBody, part.CRC32C)
	if err == nil {
		err = d.s.driver.CompleteUpload(ctx, u, []Part{part}, d.m.conditionalLarge)
	}
	if err != nil {
		abortCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detectCleanup)
		defer cancel()
		// The upload's own error says more than that of removing it.
		_ = d.s.driver.AbortUpload(abortCtx, u)
		return err
	}
	info, err := d.s.driver.Head(ctx, key)
	if err == nil && info.Size != int64(len(detectBody)) {
		return fmt.Errorf("an upload of %d bytes became an object of %d", len(detectBody), info.Size)
	}
	return err
}

// bulkDelete removes the first object, and one that was never there.
func (d *detection) bulkDelete(ctx context.Context) error {
	err := d.s.driver.DeleteBulk(ctx, []string{d.key, d.key + "-absent"})
	if err == nil {
		_, err = d.s.driver.Head(ctx, d.key)
		if isKind(store.OpHead, err, store.NotFound) {
			return nil
		}
	}
	d.m.bulkDelete = false
	return d.s.driver.Delete(ctx, d.key)
}

// cleanup removes every key that Detect may have written, one by one, as every
// store can.
func (d *detection) cleanup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detectCleanup)
	defer cancel()
	return d.s.removeOneByOne(ctx, []string{d.key, d.key + "-wrong", d.key + "-parts"})
}
