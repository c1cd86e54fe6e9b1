// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package bench

import (
	"errors"
	"fmt"
)

func setRealTime(bool) error { return fmt.Errorf("set real-time priority: %w", errors.ErrUnsupported) }
