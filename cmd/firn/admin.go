// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"firn/console"
)

// adminClient asks the admin port of a broker.
type adminClient struct {
	addr    string
	timeout time.Duration
}

// maxAdminAnswer bounds what is taken from the admin port.
const maxAdminAnswer = 1 << 30

func addAdmin(cmd *cobra.Command) *adminClient {
	c := &adminClient{}
	cmd.Flags().StringVar(&c.addr, "admin", "127.0.0.1:9190", "`address` of the broker's admin port")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 30*time.Second, "give up after this `time`")
	return c
}

// get fills into with the answer to GET path. The error names the address,
// and carries the exit code.
func (c *adminClient) get(ctx context.Context, path string, query url.Values, into any) error {
	base := strings.TrimSuffix(c.addr, "/")
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	u, err := url.Parse(base + path)
	if err != nil {
		return exitf(exitUsage, "admin address %s: %w", c.addr, err)
	}
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return exitf(exitUsage, "admin address %s: %w", c.addr, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return exitf(exitUnreachable, "admin port %s cannot be reached: %w", c.addr, unwrapURL(err))
	}
	defer resp.Body.Close()
	body := io.LimitReader(resp.Body, maxAdminAnswer)
	if resp.StatusCode != http.StatusOK {
		return adminError(c.addr, resp.StatusCode, body)
	}
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("admin port %s: read the answer: %w", c.addr, err)
	}
	return nil
}

// unwrapURL takes the method and address, which the caller names, off an
// error of net/http.
func unwrapURL(err error) error {
	if u, ok := err.(*url.Error); ok {
		return u.Err
	}
	return err
}

func adminError(addr string, status int, body io.Reader) error {
	var e console.Error
	if err := json.NewDecoder(body).Decode(&e); err != nil || e.Message == "" {
		return exitf(exitFailed, "admin port %s answers %d %s; is this a firn broker?", addr, status, http.StatusText(status))
	}
	code := exitFailed
	switch status {
	case http.StatusNotFound:
		code = exitNotFound
	case http.StatusBadRequest:
		code = exitUsage
	case http.StatusUnauthorized, http.StatusForbidden:
		code = exitDenied
	case http.StatusServiceUnavailable:
		code = exitUnreachable
	}
	return exitf(code, "%s", e.Message)
}
