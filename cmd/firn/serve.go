// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"firn/config"
)

// drainTime is how long a stop waits for requests under way and for the disk.
const drainTime = 30 * time.Second

// runServe runs the broker until ctx ends, which a signal does, or its last log
// directory fails, which is an error, and stops it clean. The banner and the
// log go to out.
func runServe(ctx context.Context, cfg *config.Config, newCluster bool, out io.Writer) error {
	logger := newLogger(cfg, out)
	tuneRuntime(os.Getenv)
	n, err := startNode(ctx, cfg, nodeOptions{logger: logger, newCluster: newCluster})
	if err != nil {
		return err
	}
	n.printBanner(out)
	logger.Info("serving", "event", "serving")
	var lost error
	select {
	case <-ctx.Done():
	case <-n.logs.NoneLeft():
		lost = fmt.Errorf("%w: %w", errDisksLost, n.logs.Offline())
		logger.Error("no log directory is left", "event", "log_dirs_lost", "error", lost)
	}
	logger.Info("stopping", "event", "stopping")
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := n.Close(stop); err != nil {
		return errors.Join(lost, fmt.Errorf("stop: %w", err))
	}
	logger.Info("stopped", "event", "stopped")
	return lost
}

// gcPercent is how much garbage may gather, in hundredths of what is alive,
// where GOGC does not say. What is alive is mostly chunks of the cold tier, which
// hold no pointers: to collect often costs little, and Go's own 100 would double
// a broker's memory under replays.
const gcPercent = 30

// tuneRuntime sets what Go's defaults do not suit, unless the environment says
// otherwise. With one processor, a goroutine that somebody waits for would wait
// for bulk work in Go's own queue, where no yield to the kernel helps it.
func tuneRuntime(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2)
	}
}

func newLogger(cfg *config.Config, out io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: cfg.Operation.LogLevel}
	if cfg.Operation.LogJSON {
		return slog.New(slog.NewJSONHandler(out, o))
	}
	return slog.New(slog.NewTextHandler(out, o))
}
