// SPDX-License-Identifier: Apache-2.0

package s3kit

import (
	"errors"
	"fmt"
	"strings"

	"firn/tier/store"
)

// checkPage checks what a store listed. What it checks would otherwise hide or
// invent objects, and a loop over pages might never end.
func checkPage(infos []store.Info, more bool, prefix, after string, limit int) error {
	if len(infos) > limit {
		return fmt.Errorf("the store listed %d keys where %d were asked for", len(infos), limit)
	}
	if more && len(infos) == 0 {
		return errors.New("the store says that there are more keys and lists none")
	}
	last := after
	for _, info := range infos {
		if !strings.HasPrefix(info.Key, prefix) {
			return fmt.Errorf("the store listed %q, which does not begin with %q", info.Key, prefix)
		}
		if info.Key <= last {
			return fmt.Errorf("the store lists keys out of order: %q after %q", info.Key, last)
		}
		if info.Size < 0 {
			return fmt.Errorf("the store listed %q without its size", info.Key)
		}
		last = info.Key
	}
	return nil
}
