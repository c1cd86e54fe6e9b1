// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"syscall"
	"time"
)

// sleep sleeps in the kernel: a Go timer is up to 1 ms late where nothing else
// runs, which is more than what is measured.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // one that is cut short is begun again
}
