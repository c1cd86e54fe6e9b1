// SPDX-License-Identifier: Apache-2.0

package wire

// turns is the semaphore that all bulk answers of a server share. A turn is
// one system call that does not block, followed by a yield of the thread while
// the turn is still held: that is what lets a tail thread that the kernel has
// just woken run first. Waiting senders are served in order.
type turns chan struct{}

func (t turns) take() { t <- struct{}{} }
func (t turns) give() { <-t }
