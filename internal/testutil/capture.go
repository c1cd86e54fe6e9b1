// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"bytes"
	"context"
	"errors"
	"sync"
)

// captureLimit bounds what is kept of a program's output, in bytes; older
// output goes first.
const captureLimit = 8 << 20

// capture keeps what a program prints. It may be used concurrently.
type capture struct {
	mu      sync.Mutex
	kept    []byte
	written chan struct{} // closed at the next write, and then replaced
}

func newCapture() *capture { return &capture{written: make(chan struct{})} }

// Write never fails.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, p...)
	if over := len(c.kept) - captureLimit; over > captureLimit/4 {
		c.kept = append(c.kept[:0], c.kept[over:]...)
	}
	close(c.written)
	c.written = make(chan struct{})
	return len(p), nil
}

func (c *capture) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.kept)
}

var errNotPrinted = errors.New("the program ended first")

// waitFor waits until text is in the output, ctx ends, or the program does.
func (c *capture) waitFor(ctx context.Context, text string, ended <-chan struct{}) error {
	for {
		c.mu.Lock()
		found, written := bytes.Contains(c.kept, []byte(text)), c.written
		c.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-written:
		case <-ended:
			if bytes.Contains(c.bytes(), []byte(text)) {
				return nil
			}
			return errNotPrinted
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lastLines is the end of some output, for a person.
func lastLines(output []byte, n int) []byte {
	output = bytes.TrimRight(output, "\n")
	at := len(output)
	for range n {
		if at = bytes.LastIndexByte(output[:at], '\n'); at < 0 {
			return output
		}
	}
	return output[at+1:]
}
