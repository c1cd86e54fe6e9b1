// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"firn/config"
	"firn/tier/store"
)

func newTierCommand(a *app) *cobra.Command {
	return group("tier", "Prepare the object store and look into it", newTierStatus(a), newTierInit(a), newTierList(a), newTierExplain(a), newTierInspect(a), newTierCat(a))
}

// storeReport is what firn tier init prints.
type storeReport struct {
	Kind           string `json:"kind"`
	Store          string `json:"store"`
	Prefix         string `json:"prefix"`
	BucketCreated  bool   `json:"bucket_created"`
	ConditionalPut bool   `json:"conditional_put"`
	BulkDelete     bool   `json:"bulk_delete"`
	Multipart      bool   `json:"multipart"`
	Checksums      bool   `json:"checksums"`
	Versioned      bool   `json:"versioned"`
	PathStyle      bool   `json:"path_style"`
}

func newTierInit(a *app) *cobra.Command {
	var f *format
	var settings settingsFlags
	var createBucket bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "init",
		Short:   "Check that the object store can be used, and leave nothing in it",
		Long:    "Check with a few small objects that the object store of the settings can do what Firn needs, say what it can do beyond that, and leave no object behind.",
		Example: "  firn tier init --create-bucket --set tier.store=minio --set tier.s3.endpoint=http://127.0.0.1:9000 --set tier.s3.bucket=history",
		Args:    cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error {
			c, err := settings.load(a)
			if err != nil {
				return err
			}
			if !c.Tier.Enabled() {
				return exitf(exitUsage, "tier.store is none: set it to dir, s3 or minio")
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			report, err := initStore(ctx, c.Tier, createBucket)
			if err != nil {
				return err
			}
			return f.print(a.stdout, report, func(t *tabwriter.Writer) { reportTable(t, report) })
		}),
	}
	f = addFormat(cmd)
	settings.add(cmd)
	cmd.Flags().BoolVar(&createBucket, "create-bucket", false, "make the bucket when it is not there")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "give up after this `time`")
	return cmd
}

// initStore opens the store, makes its bucket if asked to, and probes it.
func initStore(ctx context.Context, t config.Tier, createBucket bool) (report storeReport, err error) {
	s, err := openStore(ctx, t, nil, nil)
	if err != nil {
		return report, storeExit(t, err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	creator, buckets := store.As[store.BucketCreator](s)
	if createBucket && buckets {
		if err := creator.CreateBucket(ctx); err != nil {
			return report, storeExit(t, err)
		}
	}
	caps, err := store.ProbeUnder(ctx, s, probePrefix(t))
	if err != nil {
		return report, storeExit(t, err)
	}
	return storeReport{
		Kind:           t.Store,
		Store:          caps.Name,
		Prefix:         t.Prefix,
		BucketCreated:  createBucket && buckets,
		ConditionalPut: caps.ConditionalPut,
		BulkDelete:     caps.BulkDelete,
		Multipart:      caps.Multipart,
		Checksums:      caps.Checksums,
		Versioned:      caps.Versioned,
		PathStyle:      caps.PathStyle,
	}, nil
}

// storeExit names the store in an error and gives it an exit code.
func storeExit(t config.Tier, err error) error {
	where := t.S3.Bucket
	if t.Store == config.StoreDir {
		where = t.DirPath
	}
	code := codeOf(err)
	switch {
	case errors.Is(err, store.ErrNoBucket):
		code = exitNotFound
	case errors.Is(err, store.ErrDenied):
		code = exitDenied
	}
	return exitf(code, "object store %s %s: %w", t.Store, where, err)
}

func reportTable(t *tabwriter.Writer, r storeReport) {
	row(t, "store", r.Store)
	row(t, "prefix", r.Prefix)
	for _, c := range []struct {
		has           bool
		name, without string
	}{
		{r.ConditionalPut, "conditional put", "no: Firn lists after it writes instead"},
		{r.Checksums, "checksums", "no: Firn checks what it wrote itself"},
		{r.Multipart, "multipart", "no: objects go up in one piece"},
		{r.BulkDelete, "bulk delete", "no: objects are deleted one by one"},
		{r.Versioned, "versioned", "no"},
		{r.PathStyle, "path style", "no: the bucket is in the host name"},
	} {
		if c.name == "path style" && r.Kind == config.StoreDir {
			continue
		}
		state := c.without
		if c.has {
			state = "yes"
		}
		row(t, c.name, state)
	}
	if r.Versioned {
		row(t, "note", "deleted objects are kept by the store: give the bucket a lifecycle rule")
	}
}
