// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"firn/bench"
	"firn/config"
	"firn/tier/store"
)

// getReport is the output of bench get.
type getReport struct {
	Bench    string `json:"bench"`
	Objects  int    `json:"objects"`
	Parallel int    `json:"parallel"`
	bench.Throughput
}

type getFlags struct {
	settings settingsFlags
	topic    string
	size     string
	parallel int
}

// newBenchGet is what a cold replay is compared with.
func newBenchGet(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get",
		Short: "Read a topic's objects straight from the store, by bare parallel GETs",
		Long: "Read the segment objects of a topic straight from the object store of the settings, with no broker, by ranged GETs of\n" +
			"which a number are under way at a time. Nothing is checked: it is the most that a cold replay could reach.",
		Example: "  firn bench get --topic clicks --set tier.store=minio --set tier.s3.endpoint=http://127.0.0.1:9000 --set tier.s3.bucket=history",
		Args:    cobra.NoArgs,
	}
	var f getFlags
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "firn-bench", "`name` of the topic")
	flags.StringVar(&f.size, "range", "4MiB", "`size` that a GET asks for")
	flags.IntVar(&f.parallel, "parallel", 10, "GETs under way at a time")
	f.settings.add(cmd)
	out := addFormat(cmd)
	cmd.RunE = runE(func(cmd *cobra.Command, _ []string) error {
		r, err := f.run(cmd.Context(), a)
		if err != nil {
			return err
		}
		r.Bench = cmd.Name()
		return out.print(a.stdout, r, func(t *tabwriter.Writer) {
			row(t, r.Bench, fmt.Sprintf("%d objects, %d GETs at a time", r.Objects, r.Parallel))
			row(t, "moved", fmt.Sprintf("%s in %.2f s", humanBytes(r.Bytes), r.Seconds))
			row(t, "rate", fmt.Sprintf("%.1f MiB/s", r.MiBPerSecond))
			row(t, "latency", latencyText(r.Latency))
		})
	})
	return cmd
}

func (f *getFlags) run(ctx context.Context, a *app) (r getReport, err error) {
	rangeBytes, err := config.ParseBytes(f.size)
	if err != nil || rangeBytes < 1 || rangeBytes > 1<<30 {
		return r, exitf(exitUsage, "--range %q: want a size of at most 1GiB, such as 4MiB", f.size)
	}
	if f.parallel < 1 || f.parallel > 1024 {
		return r, exitf(exitUsage, "--parallel %d: want 1 to 1024", f.parallel)
	}
	c, err := f.settings.load(a)
	if err != nil {
		return r, err
	}
	if !c.Tier.Enabled() {
		return r, exitf(exitUsage, "tier.store is none: set it to dir, s3 or minio")
	}
	s, err := openStore(ctx, c.Tier, nil, nil)
	if err != nil {
		return r, storeExit(c.Tier, err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	objects, err := segmentsOf(ctx, s, probePrefix(c.Tier), f.topic)
	if err != nil {
		return r, storeExit(c.Tier, err)
	}
	if len(objects) == 0 {
		return r, exitf(exitNotFound, "object store %s holds no segment of topic %s", c.Tier.Store, f.topic)
	}
	r.Objects, r.Parallel = len(objects), f.parallel
	if r.Throughput, err = bench.Gets(ctx, s, objects, int(rangeBytes), f.parallel); err != nil {
		return r, storeExit(c.Tier, err)
	}
	return r, nil
}

// segmentsOf lists the segment objects of a topic, of whichever cluster under
// the prefix, in the order of their keys.
func segmentsOf(ctx context.Context, s store.Store, prefix, topic string) ([]bench.Object, error) {
	var objects []bench.Object
	for after, more := "", true; more; {
		var infos []store.Info
		var err error
		if infos, more, err = s.List(ctx, prefix, after, 0); err != nil {
			return nil, err
		}
		for _, i := range infos {
			after = i.Key
			if name, _ := placeOf(i.Key); name == topic && strings.HasSuffix(i.Key, ".seg") {
				objects = append(objects, bench.Object{Key: i.Key, Size: i.Size})
			}
		}
	}
	return objects, nil
}
