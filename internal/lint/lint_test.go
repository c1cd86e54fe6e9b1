// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"strings"
	"testing"
)

// checks are all those that look at one file.
var checks = map[string]func(*File) []string{
	"imports":    CheckImports,
	"license":    CheckLicense,
	"unfinished": CheckUnfinished,
	"sizes":      CheckSizes,
	"init":       CheckInit,
	"uses":       CheckUses,
}

// TestTheModule runs every check over every file of the module.
func TestTheModule(t *testing.T) {
	files, err := Load(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("%d files found: the list of packages cannot be right", len(files))
	}
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			for _, f := range files {
				for _, fault := range check(f) {
					t.Error(fault)
				}
			}
		})
	}
	t.Run("docs", func(t *testing.T) {
		for _, fault := range CheckDocs(files) {
			t.Error(fault)
		}
	})
}

// source is a file at path that imports the given paths and has a body.
func source(t *testing.T, path, body string, imports ...string) *File {
	t.Helper()
	pkg := path[:strings.LastIndexByte(path, '/')]
	var b strings.Builder
	fmt.Fprintf(&b, "%s\npackage %s\n\n", license, pkg[strings.LastIndexByte(pkg, '/')+1:])
	for _, i := range imports {
		fmt.Fprintf(&b, "import %q\n", i)
	}
	b.WriteString(body)
	f, err := parse(path, pkg, []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCheckImports(t *testing.T) {
	tests := []struct {
		path, imported string
		passes         bool
	}{
		{"record/a.go", "encoding/binary", true},
		{"record/a.go", "firn/hot", false},
		{"record/a.go", "golang.org/x/sys/unix", false},
		{"record/recordtest/a.go", "firn/record", true},
		{"internal/vfs/a.go", "golang.org/x/sys/unix", true},
		{"internal/vfs/a.go", "firn/record", false},
		{"internal/vfs/faultfs/a.go", "firn/internal/vfs", true},
		{"hot/a.go", "firn/record", true},
		{"hot/a.go", "firn/internal/vfs", true},
		{"hot/a.go", "firn/tier", false},
		{"hot/a_test.go", "firn/tier", false},
		{"hot/a.go", "firn/record/recordtest", false},
		{"hot/a_test.go", "firn/record/recordtest", true},
		{"hot/a_test.go", "firn/internal/vfs/faultfs", true},
		{"hot/a_test.go", "firn/hot", true},
		{"hot/a_test.go", "pgregory.net/rapid", true},
		{"hot/a.go", "pgregory.net/rapid", false},
		{"hot/a_test.go", "firn/config", false},
		{"tier/a.go", "firn/tier/store", true},
		{"tier/a.go", "firn/hot", false},
		{"tier/a.go", "github.com/dgraph-io/ristretto/v2", true},
		{"tier/a_test.go", "firn/tier/store/dirstore", true},
		{"tier/a_test.go", "firn/tier/store/faultstore", true},
		{"tier/store/s3store/a.go", "firn/tier/store", true},
		{"tier/store/s3store/a.go", "firn/tier", false},
		{"tier/store/s3store/a.go", "github.com/aws/aws-sdk-go-v2/service/s3", true},
		{"tier/store/s3store/a.go", "github.com/minio/minio-go/v7", false},
		{"tier/a.go", "github.com/aws/aws-sdk-go-v2/service/s3", false},
		{"partition/a.go", "firn/tier", true},
		{"partition/a.go", "firn/wire", false},
		{"partition/a.go", "firn/internal/vfs", false},
		{"partition/a_test.go", "firn/internal/vfs", true},
		{"cluster/a_test.go", "firn/internal/vfs", false},
		{"wire/a.go", "github.com/twmb/franz-go/pkg/kmsg", true},
		{"wire/a.go", "github.com/twmb/franz-go/pkg/kgo", false},
		{"wire/a.go", "firn/tier", false},
		{"fetch/a.go", "firn/tier", true},
		{"fetch/a.go", "firn/partition", false},
		{"group/a.go", "firn/cluster", false},
		{"broker/a.go", "firn/fetch", true},
		{"broker/a.go", "firn/config", false},
		{"broker/a.go", "firn/console", false},
		{"config/a.go", "firn/broker", true},
		{"config/a.go", "github.com/spf13/viper", true},
		{"broker/a_test.go", "github.com/spf13/viper", false},
		{"console/a.go", "github.com/prometheus/client_golang/prometheus", true},
		{"console/a.go", "firn/hot", false},
		{"cmd/firn/a.go", "firn/config", true},
		{"cmd/firn/a.go", "firn/broker", true},
		{"config/a.go", "firn/cmd/firn", false},
		{"bench/a.go", "firn/config", true},
		{"integration/a_test.go", "firn/config", true},
		{"integration/harness/a.go", "firn/record/recordtest", true},
		{"elsewhere/a.go", "fmt", false},
		{"hotter/a.go", "firn/record", false},
	}
	for _, tt := range tests {
		faults := CheckImports(source(t, tt.path, "", tt.imported))
		if (len(faults) == 0) != tt.passes {
			t.Errorf("%s imports %s: %v", tt.path, tt.imported, faults)
		}
	}
}

func TestChecksRefuse(t *testing.T) {
	long := "func f() {\n" + strings.Repeat("\n", maxFunctionLines-1) + "}\n"
	sleep := "func f() { time.Sleep(1) }\n"
	bubble := "func f() { synctest.Test(nil, func(*testing.T) { time.Sleep(1) }) }\n"
	tests := []struct {
		check  string
		f      *File
		faults int
	}{
		{"license", source(t, "hot/a.go", ""), 0},
		{"license", &File{Path: "hot/a.go", Source: []byte("package hot\n")}, 1},
		{"unfinished", source(t, "hot/a.go", "// ATODOS and XXXX are words\n"), 0},
		{"unfinished", source(t, "hot/a.go", "// "+"TO"+"DO: later\n// "+"XX"+"X\n"), 2},
		{"sizes", source(t, "hot/a.go", strings.Replace(long, "\n", "", 1)), 0},
		{"sizes", source(t, "hot/a.go", long), 1},
		{"sizes", source(t, "hot/a_test.go", long), 0},
		{"sizes", source(t, "hot/a.go", strings.Repeat("\n", maxFileLines)), 1},
		{"init", source(t, "hot/a.go", "type t int\nfunc (t) init() {}\n"), 0},
		{"init", source(t, "hot/a.go", "func init() {}\n"), 1},
		{"uses", source(t, "hot/a.go", "func f() { os.Exit(1) }\n", "os"), 1},
		{"uses", source(t, "cmd/firn/a.go", "func f() { os.Exit(1) }\n", "os"), 0},
		{"uses", source(t, "hot/a.go", "func f(os interface{ Exit(int) }) { os.Exit(1) }\n"), 0},
		{"uses", source(t, "hot/a.go", "func f() { log.Fatal(1) }\n", "log"), 1},
		{"uses", source(t, "hot/a.go", "func f() { slog.Info(``) }\n", "log/slog"), 1},
		{"uses", source(t, "hot/a.go", "var r = prometheus.DefaultRegisterer\n", "github.com/prometheus/client_golang/prometheus"), 1},
		{"uses", source(t, "hot/a.go", sleep, "time"), 0},
		{"uses", source(t, "hot/a_test.go", sleep, "time"), 1},
		{"uses", source(t, "integration/a_test.go", sleep, "time"), 0},
		{"uses", source(t, "hot/a_test.go", bubble, "time", "testing", "testing/synctest"), 0},
		{"uses", source(t, "hot/a_test.go", bubble+sleep[:len(sleep)-1], "time", "testing", "testing/synctest"), 1},
	}
	for _, tt := range tests {
		if faults := checks[tt.check](tt.f); len(faults) != tt.faults {
			t.Errorf("%s of %s: %v, want %d faults in\n%s", tt.check, tt.f.Path, faults, tt.faults, tt.f.Source)
		}
	}
}

func TestIntegrationTestsAreKnownByPlaceAndTag(t *testing.T) {
	for head, want := range map[string]bool{
		"":                                  false,
		"//go:build integration\n":          true,
		"//go:build integration && linux\n": true,
		"//go:build !integration\n":         false,
		"//go:build linux\n":                false,
		"// about //go:build integration\n": false,
	} {
		f, err := parse("wire/a_test.go", "wire", []byte(license+"\n"+head+"\npackage wire\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.isIntegration(); got != want {
			t.Errorf("%q: %v", head, got)
		}
	}
	if f := source(t, "integration/a_test.go", ""); !f.isIntegration() {
		t.Error("the place alone must be enough")
	}
}

func TestCheckDocs(t *testing.T) {
	with := source(t, "hot/doc.go", "")
	without := source(t, "tier/a.go", "")
	if faults := CheckDocs([]*File{with, source(t, "hot/a.go", ""), source(t, "cmd/firn/main.go", "")}); len(faults) != 0 {
		t.Error(faults)
	}
	if faults := CheckDocs([]*File{with, without}); len(faults) != 1 {
		t.Error(faults)
	}
}
