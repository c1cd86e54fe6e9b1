// SPDX-License-Identifier: Apache-2.0

package tier

import "firn/record"

// Phase is State's Phase and Reason alone, for paths that cannot afford State.
func (l *Log) Phase() (Phase, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phase, l.reason
}

// Loaded is State's Loaded alone.
func (l *Log) Loaded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loaded
}

// LogStart is State's LogStart alone.
func (l *Log) LogStart() record.Offset { return l.manifest.Load().LogStart }
