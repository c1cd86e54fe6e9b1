// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"

	"firn/tier/store"
)

// Exit codes, as every command uses them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitNotFound    = 4
	exitDenied      = 5
	exitFaulty      = 6
)

// exitError is an error with the exit code that it stands for.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func exit(code int, err error) error { return &exitError{code, err} }

func exitf(code int, format string, args ...any) error {
	return exit(code, fmt.Errorf(format, args...))
}

func asExit(err error) (*exitError, bool) {
	var e *exitError
	ok := errors.As(err, &e)
	return e, ok
}

// classify gives every error an exit code. nil stays nil.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := asExit(err); ok {
		return err
	}
	return exit(codeOf(err), err)
}

func codeOf(err error) int {
	switch {
	case isAny(err, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.GroupIDNotFound):
		return exitNotFound
	case isAny(err, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.SaslAuthenticationFailed):
		return exitDenied
	case isAny(err, kerr.InvalidTopicException, kerr.InvalidPartitions, kerr.InvalidReplicationFactor, kerr.InvalidConfig, kerr.OffsetOutOfRange):
		return exitUsage
	case store.IsRetriable(err):
		return exitUnreachable
	}
	// Not any net.Error: the error numbers of the disk are such, too. And who
	// cannot listen has nobody to reach.
	var network *net.OpError
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &network) && network.Op != "listen" || errors.As(err, &untrusted) || errors.Is(err, context.DeadlineExceeded) {
		return exitUnreachable
	}
	return exitFailed
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
