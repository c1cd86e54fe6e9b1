// SPDX-License-Identifier: Apache-2.0

// Package drivertest is what every S3 driver is tested with beside storetest.
// Run has a server that records the requests which the SDK really makes, and
// answers as badly as the test wants: it sees what a well-behaved server would
// hide, such as retries, headers, connections and half answers. RunServer has a
// real server, and its outages.
//
//	Run:       store ─► SDK ─► recording server of the test's own making
//	RunServer: store ─► SDK ─► the S3 server that the caller started
//
// It does not check what an object store must do for its callers; storetest,
// which RunServer includes, does.
//
// Invariants:
//
//	I1  Nothing of the machine's credentials and settings reaches a test.
//	I2  When a test ends so have all goroutines of the store it opened.
//
// Goroutines: those of the servers, which end with each test.
package drivertest
