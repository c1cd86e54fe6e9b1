// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/debug"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// versionInfo is what firn version prints.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// buildVersion reads what the Go tool wrote into the binary.
func buildVersion() versionInfo {
	v := versionInfo{Version: "(devel)", Commit: "unknown", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func newVersionCommand(a *app) *cobra.Command {
	var f *format
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  cobra.NoArgs,
		RunE: runE(func(*cobra.Command, []string) error {
			v := buildVersion()
			return f.print(a.stdout, v, func(t *tabwriter.Writer) {
				commit := v.Commit
				if v.Modified {
					commit += " (modified)"
				}
				row(t, "firn", v.Version)
				row(t, "commit", commit)
				row(t, "go", v.Go+" "+v.OS+"/"+v.Arch)
			})
		}),
	}
	f = addFormat(cmd)
	return cmd
}
