// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"firn/config"
)

const (
	// healthTimeout is short, since a check that waits is a check that failed.
	healthTimeout = 5 * time.Second
	// maxHealthAnswer bounds the reason that is taken from the admin port.
	maxHealthAnswer = 4 << 10
)

// newHealthCommand is the health check of containers and supervisors, where
// there may be no other program that can ask. It finds the admin port by the
// same settings as firn serve, so that it follows when they are changed.
func newHealthCommand(a *app) *cobra.Command {
	var settings settingsFlags
	var addr string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a broker on this machine whether it takes requests",
		Long: "Ask the admin port, which is found by the settings (admin.listeners), whether the broker takes requests.\n\n" +
			"Exit code 0: it does. 1: it is starting or stopping. 2: the settings are at fault. 3: nothing answers.",
		Example: "  firn health\n  firn health --admin 127.0.0.1:9190",
		Args:    cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error {
			if addr == "" {
				c, err := settings.load(a)
				if err != nil {
					return err
				}
				if addr, err = ownAdmin(c.Operation.AdminListeners); err != nil {
					return err
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			answer, err := askReady(ctx, addr)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.stdout, answer)
			return nil
		}),
	}
	settings.add(cmd)
	cmd.Flags().StringVar(&addr, "admin", "", "`address` of the broker's admin port (default: the first of admin.listeners)")
	cmd.Flags().DurationVar(&timeout, "timeout", healthTimeout, "give up after this `time`")
	return cmd
}

// ownAdmin is where a broker with these admin listeners is reached from its
// own machine.
func ownAdmin(listeners []config.Address) (string, error) {
	if len(listeners) == 0 {
		return "", exitf(exitUsage, "admin.listeners is none: there is no port to ask")
	}
	first := listeners[0]
	if ip, err := netip.ParseAddr(first.Host); first.Host == "" || err == nil && ip.IsUnspecified() {
		first.Host = "127.0.0.1"
		if ip.Is6() {
			first.Host = "::1"
		}
	}
	return first.String(), nil
}

// askReady returns the answer of a broker that is ready.
func askReady(ctx context.Context, addr string) (string, error) {
	base := strings.TrimSuffix(addr, "/")
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return "", exitf(exitUsage, "admin address %s: %w", addr, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", exitf(exitUnreachable, "admin port %s cannot be reached: %w", addr, unwrapURL(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealthAnswer))
	if err != nil {
		return "", exitf(exitUnreachable, "admin port %s: read the answer: %w", addr, err)
	}
	answer := strings.TrimSpace(string(body))
	if resp.StatusCode != http.StatusOK {
		return "", exitf(exitFailed, "%s is not ready: %s", addr, answer)
	}
	return answer, nil
}
