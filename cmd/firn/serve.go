// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"firn/config"
)

// drainTime is how long a stop waits for requests under way and for the disk.
const drainTime = 30 * time.Second

// runServe runs the broker until ctx ends, which a signal does, and stops it
// clean. The banner and the log go to out.
func runServe(ctx context.Context, cfg *config.Config, newCluster bool, out io.Writer) error {
	logger := newLogger(cfg, out)
	n, err := startNode(ctx, cfg, nodeOptions{logger: logger, newCluster: newCluster})
	if err != nil {
		return err
	}
	n.printBanner(out)
	logger.Info("serving", "event", "serving")
	<-ctx.Done()
	logger.Info("stopping", "event", "stopping")
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := n.Close(stop); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	logger.Info("stopped", "event", "stopped")
	return nil
}

func newLogger(cfg *config.Config, out io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: cfg.Operation.LogLevel}
	if cfg.Operation.LogJSON {
		return slog.New(slog.NewJSONHandler(out, o))
	}
	return slog.New(slog.NewTextHandler(out, o))
}
