// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package dirstore

import "errors"

// renameNoReplace has no portable form.
func renameNoReplace(string, string) error { return errors.ErrUnsupported }
