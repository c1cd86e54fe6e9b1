// SPDX-License-Identifier: Apache-2.0

package s3kit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"firn/tier/store"
)

// deleteWorkers is how many single deletes are under way at once.
const deleteWorkers = 8

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, keys []string) error {
	if err := store.CheckKeys(keys); err != nil {
		return err
	}
	if len(keys) == 1 || !s.modes.Load().bulkDelete {
		return s.removeOneByOne(ctx, keys)
	}
	for batch := range slices.Chunk(keys, store.MaxList) {
		err := ctx.Err()
		if err == nil {
			err = s.driver.DeleteBulk(ctx, batch)
		}
		if err != nil {
			return s.fail(ctx, store.OpDelete, batch[0], err)
		}
	}
	return nil
}

func (s *Store) removeOneByOne(ctx context.Context, keys []string) error {
	var (
		wg   sync.WaitGroup
		next atomic.Int64
		errs = make([]error, min(deleteWorkers, len(keys)))
	)
	for worker := range errs {
		wg.Go(func() {
			for errs[worker] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(keys) {
					return
				}
				errs[worker] = s.removeOne(ctx, keys[i])
			}
		})
	}
	wg.Wait()
	// The first is enough: Join would hide its kind behind another's.
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) removeOne(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return s.fail(ctx, store.OpDelete, key, err)
	}
	err := s.driver.Delete(ctx, key)
	var api *APIError
	if errors.As(err, &api) && api.Code == "NoSuchKey" {
		return nil
	}
	if err != nil {
		return s.fail(ctx, store.OpDelete, key, err)
	}
	return nil
}
