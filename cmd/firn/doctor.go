// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"firn/config"
	"firn/console"
)

// The states of a check.
const (
	checkOK   = "ok"
	checkWarn = "warn"
	checkFail = "fail"
)

// finding is the outcome of one check.
type finding struct {
	State string `json:"state"`
	Check string `json:"check"`
	Text  string `json:"text"`
	// Cure says what to do about it, for all that is not ok.
	Cure string `json:"cure,omitempty"`
}

func newDoctorCommand(a *app) *cobra.Command {
	var f *format
	var settings settingsFlags
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine, the settings and the object store, and say what to fix",
		Long: "Check all that a broker with these settings depends on: the data directory and what its file system can do, disk space,\n" +
			"descriptors, memory limit, clock, ports, the addresses that clients are told, and the object store, with a few small objects\n" +
			"that are removed again. It may run beside the broker, which it then asks as well.\n\n" +
			"Each check is a line: ok, warn or fail, and what to do. Exit code 6 when one fails.",
		Example: "  firn doctor\n  firn doctor --config /etc/firn.yaml -o json",
		Args:    cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error {
			c, err := settings.load(a)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			findings := examine(ctx, c)
			if err := f.print(a.stdout, findings, func(t *tabwriter.Writer) { findingTable(t, findings) }); err != nil {
				return err
			}
			return findingFaults(findings)
		}),
	}
	f = addFormat(cmd)
	settings.add(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "give up after this `time`")
	return cmd
}

// doctor is one examination.
type doctor struct {
	cfg *config.Config
	// status is that of the broker with these settings, nil when none answers.
	status   *console.Status
	findings []finding
}

// examine runs every check. One that fails stops none of the others.
func examine(ctx context.Context, c *config.Config) []finding {
	d := &doctor{cfg: c, status: runningBroker(ctx, c)}
	for _, check := range []func(context.Context){
		d.checkDataDirs, d.checkFileSystems, d.checkSpaces, d.checkDescriptors, d.checkMemory, d.checkClock,
		d.checkPorts, d.checkAdvertised, d.checkStore,
	} {
		check(ctx)
	}
	return d.findings
}

// runningBroker asks the admin port of the settings for a broker.
func runningBroker(ctx context.Context, c *config.Config) *console.Status {
	addr, err := ownAdmin(c.Operation.AdminListeners)
	if err != nil {
		return nil
	}
	var s console.Status
	client := adminClient{addr: addr, timeout: healthTimeout}
	if err := client.get(ctx, "/v1/status", nil, &s); err != nil || s.ClusterID == "" {
		return nil
	}
	return &s
}

func (d *doctor) ok(check, format string, args ...any) {
	d.findings = append(d.findings, finding{State: checkOK, Check: check, Text: fmt.Sprintf(format, args...)})
}

func (d *doctor) warn(check, cure, format string, args ...any) {
	d.findings = append(d.findings, finding{checkWarn, check, fmt.Sprintf(format, args...), cure})
}

func (d *doctor) fail(check, cure, format string, args ...any) {
	d.findings = append(d.findings, finding{checkFail, check, fmt.Sprintf(format, args...), cure})
}

func findingTable(t *tabwriter.Writer, findings []finding) {
	for _, f := range findings {
		text := f.Text
		if f.Cure != "" {
			text += "; " + f.Cure
		}
		row(t, f.State, f.Check, text)
	}
}

// findingFaults is the error when a check failed.
func findingFaults(findings []finding) error {
	failed := int64(0)
	for _, f := range findings {
		if f.State == checkFail {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	return exitf(exitFaulty, "%s failed", plural(failed, "check"))
}
