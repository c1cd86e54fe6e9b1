// SPDX-License-Identifier: Apache-2.0

// Package testutil starts, stops and talks to the real programs that tests
// need: the broker as a process of its own, an S3 server, and kcat.
//
//	test ─► StartBroker  ─► firn serve    on its own port and directory
//	     ─► StartGateway ─► versitygw     on its own port and directory
//	     ─► StartKafka   ─► kafka.Kafka   on its own ports and directory
//	     ─► NewKcat, RunFirn: one command, bounded, its output captured
//
// It holds no test and knows nothing of what the programs should answer. It
// never skips: a program that is missing fails the test with the way to get
// it (`make tools`).
//
// Programs are found by TEST_FIRN, TEST_VERSITYGW, TEST_KCAT and TEST_JAVA, then
// in .cache/bin under the root of the repository, then in PATH; Kafka's archives
// are in .cache/kafka. Without TEST_FIRN
// the broker is built from ./cmd/firn, once in a test binary, with the race
// detector when TEST_FIRN_RACE is set.
//
// Invariants:
//
//	I1  A program that a test started has ended when the test has, and is
//	    killed with the test binary, should that die first.
//	I2  Every wait is bounded, and ends early when the program does.
//	I3  What a program printed is shown when its test fails.
//	I4  Settings of the surrounding environment (FIRN_*, KAFKA_*, AWS_*) do not
//	    reach the programs.
//
// Goroutines: one for each running program, which waits for its end.
package testutil
