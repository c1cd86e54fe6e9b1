// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"io"
	"testing"
)

// Kcat runs kcat against one broker.
type Kcat struct {
	path   string
	broker string
}

// NewKcat finds kcat for the broker at addr.
func NewKcat(t testing.TB, addr string) Kcat {
	t.Helper()
	return Kcat{path: FindProgram(t, "kcat", "TEST_KCAT"), broker: addr}
}

// Command is kcat with the given arguments after -b.
func (k Kcat) Command(args ...string) Command {
	return Command{Path: k.path, Args: append([]string{"-b", k.broker}, args...)}
}

// Produce sends input line by line to a topic; args follow, such as -z zstd or
// -X acks=all. kcat drops empty lines. A message that cannot be delivered
// fails the test.
func (k Kcat) Produce(t testing.TB, topic string, input io.Reader, args ...string) {
	t.Helper()
	c := k.Command(append([]string{"-P", "-t", topic}, args...)...)
	c.Stdin = input
	c.MustRun(t)
}

// Consume writes the values of a topic from its beginning to its end, one a
// line, to output; args follow, and may say -o or -f in their turn.
func (k Kcat) Consume(t testing.TB, topic string, output io.Writer, args ...string) {
	t.Helper()
	c := k.Command(append([]string{"-C", "-t", topic, "-o", "beginning", "-e", "-q"}, args...)...)
	c.Stdout = output
	c.MustRun(t)
}
