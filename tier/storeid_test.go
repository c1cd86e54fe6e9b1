// SPDX-License-Identifier: Apache-2.0

package tier

import (
	"errors"
	"testing"
)

// A store that bore the id once is another one, or was emptied, when it does
// not any more: nothing is written there.
func TestStoreWithoutTheIDItHad(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for _, seen := range []bool{false, true} {
			o := w.options()
			o.StoreSeen = seen
			one, err := Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			delete(w.bucket.objects, storeKey(one.root))
			err = one.Verify(t.Context())
			if seen != errors.Is(err, ErrStoreMismatch) || !seen && err != nil {
				t.Errorf("seen before: %v, Verify: %v", seen, err)
			}
			if _, there := w.bucket.objects[storeKey(one.root)]; there == seen {
				t.Errorf("seen before: %v, the id was written: %v", seen, there)
			}
			if err := one.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
