// SPDX-License-Identifier: Apache-2.0

package s3kit

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"firn/tier/store"
)

// quirks are the ways in which S3-compatible stores differ.
type quirks struct {
	refuseChecksums     bool // 400 to a checksum header
	ignoreChecksums     bool
	refusePartChecksums bool
	refuseConditions    bool // 501 to If-None-Match
	ignoreConditions    bool
	refuseLargeCond     bool // 501 to If-None-Match on completion
	noMultipart         bool
	noBulkDelete        bool
	bulkDeleteLies      bool // answers 200 and deletes nothing
	versioned           bool
}

// fakeDriver is a bucket in memory with quirks. It checks what it is sent as a
// strict store would.
type fakeDriver struct {
	q quirks

	mu      sync.Mutex
	objects map[string][]byte
	uploads map[string]*fakeUpload
	nextID  int
	// fail, when set, may fail a request before it does anything.
	fail   func(op, key string) error
	faults []string // violations of the Driver's contract
	bulk   int
	closed bool
}

type fakeUpload struct {
	key       string
	checksums bool
	parts     map[int32][]byte
}

func newFake(q quirks) *fakeDriver {
	return &fakeDriver{q: q, objects: make(map[string][]byte), uploads: make(map[string]*fakeUpload)}
}

func api(status int, code string) error {
	return &APIError{Status: status, Code: code, Message: "as the test wants"}
}

func (d *fakeDriver) enter(ctx context.Context, op, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.fail != nil {
		return d.fail(op, key)
	}
	return nil
}

func (d *fakeDriver) checkCRC(body []byte, crc *uint32) error {
	switch {
	case crc == nil:
		return nil
	case d.q.refuseChecksums:
		return api(400, "InvalidRequest")
	case d.q.ignoreChecksums || *crc == crc32.Checksum(body, castagnoli):
		return nil
	}
	return api(400, "BadDigest")
}

func (d *fakeDriver) checkCondition(key string, ifNoneMatch, refuse bool) error {
	switch _, taken := d.objects[key]; {
	case !ifNoneMatch || d.q.ignoreConditions:
		return nil
	case refuse:
		return api(501, "NotImplemented")
	case taken:
		return api(412, "PreconditionFailed")
	}
	return nil
}

func (d *fakeDriver) Put(ctx context.Context, key string, body []byte, o PutHeaders) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(ctx, "put", key); err != nil {
		return err
	}
	if err := d.checkCRC(body, o.CRC32C); err != nil {
		return err
	}
	if err := d.checkCondition(key, o.IfNoneMatch, d.q.refuseConditions); err != nil {
		return err
	}
	d.objects[key] = bytes.Clone(body)
	return nil
}

func (d *fakeDriver) CreateUpload(ctx context.Context, key string, checksums bool) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(ctx, "create", key); err != nil {
		return "", err
	}
	if d.q.noMultipart {
		return "", api(501, "NotImplemented")
	}
	if checksums && d.q.refusePartChecksums {
		return "", api(400, "InvalidRequest")
	}
	d.nextID++
	id := fmt.Sprint("upload-", d.nextID)
	d.uploads[id] = &fakeUpload{key: key, checksums: checksums, parts: make(map[int32][]byte)}
	return id, nil
}

func (d *fakeDriver) UploadPart(ctx context.Context, u Upload, number int32, body []byte, crc *uint32) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(ctx, "part", u.Key); err != nil {
		return "", err
	}
	up := d.uploads[u.ID]
	if up == nil || up.key != u.Key {
		return "", api(404, "NoSuchUpload")
	}
	if up.checksums != (crc != nil) {
		d.faults = append(d.faults, "parts and their upload disagree about checksums")
	}
	if err := d.checkCRC(body, crc); err != nil {
		return "", err
	}
	up.parts[number] = bytes.Clone(body)
	return fmt.Sprint("etag-", number), nil
}

func (d *fakeDriver) CompleteUpload(ctx context.Context, u Upload, parts []Part, ifNoneMatch bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(ctx, "complete", u.Key); err != nil {
		return err
	}
	up := d.uploads[u.ID]
	if up == nil {
		return api(404, "NoSuchUpload")
	}
	if err := d.checkCondition(u.Key, ifNoneMatch, d.q.refuseConditions || d.q.refuseLargeCond); err != nil {
		return err
	}
	var whole []byte
	for i, p := range parts {
		body := up.parts[int32(i+1)]
		if p.Number != int32(i+1) || p.ETag != fmt.Sprint("etag-", i+1) || up.checksums != (p.CRC32C != nil) {
			d.faults = append(d.faults, fmt.Sprintf("part %d is completed as %+v", i+1, p))
		}
		if last := i == len(parts)-1; !last && len(body) != len(up.parts[1]) || last && len(body) > len(up.parts[1]) {
			d.faults = append(d.faults, fmt.Sprintf("part %d has %d bytes, the first %d", i+1, len(body), len(up.parts[1])))
		}
		whole = append(whole, body...)
	}
	d.objects[u.Key] = whole
	delete(d.uploads, u.ID)
	return nil
}

func (d *fakeDriver) AbortUpload(ctx context.Context, u Upload) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(ctx, "abort", u.Key); err != nil {
		return err
	}
	if d.uploads[u.ID] == nil {
		return api(404, "NoSuchUpload")
	}
	delete(d.uploads, u.ID)
	return nil
}

func (d *fakeDriver) Get(ctx context.Context, key string, off int64, n int) (*RangeAnswer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(ctx, "get", key); err != nil {
		return nil, err
	}
	body, ok := d.objects[key]
	if !ok {
		return nil, api(404, "NoSuchKey")
	}
	size := int64(len(body))
	if off >= size {
		return nil, api(416, "InvalidRange")
	}
	end := min(size, off+int64(n))
	return &RangeAnswer{
		Body:         io.NopCloser(bytes.NewReader(body[off:end])),
		ContentRange: fmt.Sprintf("bytes %d-%d/%d", off, end-1, size),
		Length:       end - off,
	}, nil
}

func (d *fakeDriver) Head(ctx context.Context, key string) (store.Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(ctx, "head", key); err != nil {
		return store.Info{}, err
	}
	body, ok := d.objects[key]
	if !ok {
		return store.Info{}, api(404, "NotFound")
	}
	return store.Info{Key: key, Size: int64(len(body)), Modified: time.Unix(1, 0)}, nil
}

func (d *fakeDriver) List(ctx context.Context, prefix, after string, limit int) (infos []store.Info, more bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(ctx, "list", prefix); err != nil {
		return nil, false, err
	}
	for _, key := range slices.Sorted(maps.Keys(d.objects)) {
		if key <= after || !strings.HasPrefix(key, prefix) {
			continue
		}
		if len(infos) == limit {
			return infos, true, nil
		}
		infos = append(infos, store.Info{Key: key, Size: int64(len(d.objects[key])), Modified: time.Unix(1, 0)})
	}
	return infos, false, nil
}

func (d *fakeDriver) Delete(ctx context.Context, key string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(ctx, "delete", key); err != nil {
		return err
	}
	if _, ok := d.objects[key]; !ok {
		return api(404, "NoSuchKey") // as some stores answer
	}
	delete(d.objects, key)
	return nil
}

func (d *fakeDriver) DeleteBulk(ctx context.Context, keys []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.enter(ctx, "bulk", keys[0]); err != nil {
		return err
	}
	d.bulk++
	if len(keys) > store.MaxList {
		d.faults = append(d.faults, fmt.Sprintf("%d keys in one bulk delete", len(keys)))
	}
	if d.q.noBulkDelete {
		return api(501, "NotImplemented")
	}
	if !d.q.bulkDeleteLies {
		for _, key := range keys {
			delete(d.objects, key)
		}
	}
	return nil
}

func (d *fakeDriver) CreateBucket(ctx context.Context) error { return d.enter(ctx, "bucket", "") }

func (d *fakeDriver) Versioned(ctx context.Context) (bool, error) {
	return d.q.versioned, d.enter(ctx, "versioned", "")
}

func (d *fakeDriver) Close() { d.closed = true }
