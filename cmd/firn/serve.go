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
	started := tuneRuntime(os.Getenv)
	n, err := startNode(ctx, cfg, nodeOptions{logger: logger, newCluster: newCluster})
	started()
	if err != nil {
		return err
	}
	n.printBanner(out)
	logger.Info("serving", "event", "serving")
	var lost error
	select {
	case <-ctx.Done():
	case lost = <-n.failed:
		logger.Error("the broker cannot go on", "event", "serve_failed", "error", lost)
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

// startGCPercent stands for gcPercent during the start, when nearly all that is
// allocated stays: with it the first collection comes at 16 MiB.
const startGCPercent = 400

// tuneRuntime sets what Go's defaults do not suit, unless the environment says
// otherwise. With one processor, a goroutine that somebody waits for would wait
// for bulk work in Go's own queue, where no yield to the kernel helps it.
// started is to be called when the start is over.
func tuneRuntime(getenv func(string) string) (started func()) {
	if getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < 2 {
		runtime.GOMAXPROCS(2)
	}
	if getenv("GOGC") != "" {
		return func() {}
	}
	debug.SetGCPercent(startGCPercent)
	return func() { debug.SetGCPercent(gcPercent) }
}

func newLogger(cfg *config.Config, out io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: cfg.Operation.LogLevel}
	if cfg.Operation.LogJSON {
		return slog.New(slog.NewJSONHandler(out, o))
	}
	return slog.New(slog.NewTextHandler(out, o))
}
