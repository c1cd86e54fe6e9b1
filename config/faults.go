// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
)

// mask stands for a secret wherever a value is shown.
const mask = "****"

// Fault is one thing that is wrong with the settings.
type Fault struct {
	// Key is the setting.
	Key string
	// Value is what it was set to, masked when the setting is secret.
	Value string
	// Source is where it was set: "--set", an environment variable, a file
	// with its line, or "default".
	Source string
	// Want says what is allowed.
	Want string
}

// Error is the fault in one line.
func (f Fault) Error() string {
	if f.Source == "" {
		return fmt.Sprintf("%s: %s", f.Key, f.Want)
	}
	return fmt.Sprintf("%s=%s (from %s): %s", f.Key, f.Value, f.Source, f.Want)
}

// Faults is everything that is wrong with the settings, at least one fault.
// It is the error of Load, found with errors.As.
type Faults []Fault

// Error lists the faults, one a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Warning is something about the settings that a user should know and that
// stops nothing.
type Warning struct {
	// Keys are the settings or environment variables that it is about.
	Keys []string
	// Text says what about them, in one sentence.
	Text string
}

// String is the warning in one line.
func (w Warning) String() string { return w.Text + ": " + strings.Join(w.Keys, ", ") }
