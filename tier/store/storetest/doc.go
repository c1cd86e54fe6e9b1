// SPDX-License-Identifier: Apache-2.0

// Package storetest is the conformance suite of package store: one set of tests
// that every store passes, the ones over a real S3 server included. It attacks
// the invariants I1 to I7 of package store by name.
//
//	Run ─► open ─► one test, below a random prefix ─► clean up ─► Close
//
// It does not test how a store reaches its server, what it does in time-outs,
// or what survives a power cut: that is for the tests of each store.
//
// Invariants:
//
//	I1  The suite passes on any store that keeps the contract, shared or not.
//	I2  A test leaves no object behind, and fails if it cannot see to that.
//
// Goroutines: those of the tests, which wait for them.
package storetest
