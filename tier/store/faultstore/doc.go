// SPDX-License-Identifier: Apache-2.0

// Package faultstore wraps a store and makes it fail as a script says: refuse,
// hang, answer 500, give torn ranges, apply a write twice, or apply it and say
// that it failed. It also writes down every call. It exists for tests, which
// change the script while the store is in use.
//
//	call ─► written down ─► first fault that is due ─► effect ─► inner store
//	                                                     └─ late ─► Settle
//
// It does not fail by chance: a fault hits the n-th call that it matches, so
// that a test means the same thing every time.
//
// Invariants:
//
//	I1  A call that no fault hits reaches the inner store as it is.
//	I2  Every call is in Calls, hit or not, in the order in which they began.
//	I3  What hangs ends with its context, its fault or Clear.
//	I4  A late write happens in Settle and nowhere else.
//
// Goroutines: none.
package faultstore
