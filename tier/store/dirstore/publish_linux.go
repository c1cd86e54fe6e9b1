// SPDX-License-Identifier: Apache-2.0

package dirstore

import "golang.org/x/sys/unix"

// renameNoReplace renames unless the new name is taken, for file systems
// without links.
func renameNoReplace(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}
