// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// bars draws lines that change: over one another on a terminal, and elsewhere
// only as they are at last. It belongs to one goroutine.
type bars struct {
	out   io.Writer
	live  bool
	drawn int
}

// drawPause is the time between two drawings.
const drawPause = 100 * time.Millisecond

func newBars(out io.Writer) *bars { return &bars{out: out, live: isTerminal(out)} }

// isTerminal tells whether a person watches.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// draw shows lines in the place of those drawn before.
func (b *bars) draw(lines ...string) {
	if b.live {
		b.write(lines)
		b.drawn = len(lines)
	}
}

// done shows lines for good.
func (b *bars) done(lines ...string) {
	b.write(lines)
	b.drawn = 0
}

func (b *bars) write(lines []string) {
	var text strings.Builder
	if b.drawn > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", b.drawn)
	}
	for _, line := range lines {
		if b.live {
			text.WriteString("\x1b[2K")
		}
		text.WriteString(line + "\n")
	}
	fmt.Fprint(b.out, text.String())
}

const barWidth = 28

// bar is one line: what, how much of it is done, at which rate, how long it
// will take yet.
func bar(what string, done, all int64, took time.Duration) string {
	share := 1.0
	if all > 0 {
		share = min(float64(done)/float64(all), 1)
	}
	full := int(share * barWidth)
	line := fmt.Sprintf("  %-13s [%s%s] %3.0f%%  %s", what, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), share*100, humanBytes(done))
	if seconds := took.Seconds(); done > 0 && seconds > 0 {
		rate := float64(done) / seconds
		line += fmt.Sprintf("  %.0f MiB/s", rate/(1<<20))
		if done < all {
			line += fmt.Sprintf("  ETA %.0fs", float64(all-done)/rate)
		} else {
			line += fmt.Sprintf("  in %.1fs", seconds)
		}
	}
	return line
}
