// SPDX-License-Identifier: Apache-2.0

// Package recordtest builds batches of magic 2 for tests: whole, valid and
// with a right CRC unless an option says otherwise. It is imported by tests
// only.
//
// It does not compress: an option takes the compressor, since the package
// imports the standard library and record alone. It panics on options that no
// batch can express, since that is a fault of the test.
//
// Every function is pure and may be called by many goroutines at once; what is
// returned belongs to the caller.
package recordtest
