// SPDX-License-Identifier: Apache-2.0

// Package lint holds the architecture to its rules: who may import whom, and
// what no file may contain. Its test runs over every package of the module and
// fails with one line for each fault.
//
// It does not format, vet or look for bugs: gofmt, vet and staticcheck do. It
// changes nothing.
//
//	go list ──► load ──► File (source and syntax tree) ──┬─► imports: the table
//	                                                     └─► source: words, calls, sizes
//
// Files are taken whatever their build tags say, so that the rules hold on
// every platform and for the integration tests, too.
//
// Invariants:
//
//	I1  Every package has a rule: one that the table does not know is a fault,
//	    so that a new package is placed on purpose.
//	I2  Each check is a pure function of a File. Its test shows a source that it
//	    passes and one that it refuses.
package lint
