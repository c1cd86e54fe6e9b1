// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"go/token"
	"strings"
)

// anything in a rule stands for every package of the module that is not a
// command.
const anything = "*"

// rule says what the packages under one directory may import of the module.
// They may always import one another.
type rule struct {
	pkg string   // a directory; the longest that holds a package counts
	may []string // directories, each with all below it
}

// rules is the table of who may import whom. Whatever is missing here must
// not be imported; config is named by cmd, bench and integration alone.
var rules = []rule{
	{"record", nil},
	{"internal/bulk", nil},
	{"internal/vfs", []string{"internal/bulk"}},
	{"internal/lint", nil},
	{"internal/testutil", []string{anything}},
	{"hot", []string{"record", "internal/vfs"}},
	{"tier", []string{"record", "internal/bulk", "internal/vfs", "tier/store"}},
	{"tier/store", []string{"record", "internal/bulk", "internal/vfs"}},
	{"partition", []string{"record", "hot", "tier"}},
	{"wire", []string{"record", "hot", "internal/bulk", "internal/vfs"}}, // the file of a hot.Region is a vfs.File
	{"fetch", []string{"record", "hot", "tier"}},
	{"cluster", []string{"record"}},
	{"group", []string{"record"}},
	{"txn", []string{"record"}},
	{"broker", []string{"record", "internal/vfs", "hot", "tier", "fetch", "partition", "wire", "cluster", "group", "txn"}},
	{"console", []string{"record"}},
	{"config", []string{anything}},
	{"bench", []string{anything, "config"}},
	{"cmd", []string{anything, "config"}},
	{"integration", []string{anything, "config"}},
}

// testSupport lists the packages that exist for tests. Any test may import
// them, and no file that is built into the binary may.
var testSupport = []string{
	"record/recordtest",
	"internal/testutil",
	"internal/vfs/faultfs",
	"tier/store/storetest",
	"tier/store/faultstore",
}

// embeddedStore may be imported by the tests of every package that sees the
// store's contract, to have a real one.
const embeddedStore = "tier/store/dirstore"

// fileSystem may be imported by the tests of every package that sees hot or
// tier: they open logs on a disk that they can crash.
const fileSystem = "internal/vfs"

// reader may be imported by the tests of partition, which it reads through an
// interface of its own: they show that the two fit.
const reader = "fetch"

// libraries says which directories may import a library outside the standard
// one. A library that is not in the table may be imported by tests only.
var libraries = []struct {
	path string
	by   []string
}{
	{"golang.org/x/sys", []string{"internal/bulk", "internal/vfs", "wire", "tier/store/dirstore"}}, // dirstore: a rename that replaces nothing
	{"golang.org/x/sync", []string{anything}},
	{"github.com/google/uuid", []string{"tier", "cluster", "broker", "cmd", "bench"}},
	{"github.com/prometheus", []string{"hot", "tier", "fetch", "partition", "wire", "cluster", "broker", "console", "bench", "cmd"}},
	{"github.com/twmb/franz-go/pkg/kmsg", []string{"wire", "broker", "cluster", "bench", "cmd"}},
	{"github.com/twmb/franz-go/pkg/kerr", []string{"broker", "bench", "cmd"}},
	{"github.com/twmb/franz-go", []string{"bench", "cmd"}},
	{"github.com/dgraph-io/ristretto", []string{"tier"}},
	{"github.com/aws", []string{"tier/store/s3store"}},
	{"github.com/minio/minio-go", []string{"tier/store/miniostore"}},
	{"github.com/klauspost/compress", []string{"broker", "bench"}},
	{"github.com/pierrec/lz4", []string{"broker", "bench"}},
	{"go.etcd.io", []string{"cluster"}},
	{"github.com/spf13/viper", []string{"config"}},
	{"github.com/magiconair/properties", []string{"config"}},
	{"go.yaml.in/yaml", []string{"config", "cmd"}},
	{"github.com/spf13/cobra", []string{"cmd"}},
	{"github.com/spf13/pflag", []string{"cmd"}},
}

// configOnly lists libraries that not even tests import elsewhere.
var configOnly = []string{"github.com/spf13/viper"}

// under says whether the slash-separated path is dir or lies below it.
func under(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

func underAny(path string, dirs []string) bool {
	for _, dir := range dirs {
		if under(path, dir) || dir == anything {
			return true
		}
	}
	return false
}

// ruleFor is the rule with the longest directory that holds pkg.
func ruleFor(pkg string) (rule, bool) {
	var best rule
	for _, r := range rules {
		if under(pkg, r.pkg) && len(r.pkg) > len(best.pkg) {
			best = r
		}
	}
	return best, best.pkg != ""
}

// CheckImports compares what the file imports with the table. Integration
// tests import what they like, except commands.
func CheckImports(f *File) []string {
	r, ok := ruleFor(f.Package)
	if !ok {
		return []string{f.fault(f.tree.Name.Pos(), "package %q has no rule in the table of imports", f.Package)}
	}
	var faults []string
	f.imports(func(path string, at token.Pos) {
		why := ""
		if own, ours := strings.CutPrefix(path, module+"/"); ours {
			why = checkOwn(f, r, own)
		} else if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") {
			why = checkLibrary(f, path)
		}
		if why != "" {
			faults = append(faults, f.fault(at, "%s must not import %s: %s", f.Package, path, why))
		}
	})
	return faults
}

// checkOwn judges the import of a package of the module; "" passes.
func checkOwn(f *File, r rule, target string) string {
	free := f.isIntegration() || r.pkg == "internal/testutil"
	support := underAny(target, testSupport)
	switch {
	case under(target, "cmd"):
		return "nothing imports a command"
	case f.isIntegration():
		return ""
	case support && !f.IsTest() && !free && !underAny(f.Package, testSupport):
		return "it exists for tests"
	case support, f.IsTest() && target == embeddedStore && underAny("tier/store", r.may):
		return ""
	case f.IsTest() && target == fileSystem && (underAny("hot", r.may) || underAny("tier", r.may)):
		return ""
	case f.IsTest() && target == reader && f.Package == "partition":
		return ""
	case f.IsTest() && target == f.Package: // a test from outside its package
		return ""
	case under(target, "config"):
		if under(f.Package, "config") || underAny("config", withoutAnything(r.may)) {
			return ""
		}
		return "only commands, benchmarks and integration tests read the configuration"
	}
	// The rule of the target's own directory decides, so that a rule for tier
	// that names tier/store does not open the rest of tier to others.
	if t, ok := ruleFor(target); ok && t.pkg == r.pkg || underAny(target, r.may) {
		return ""
	}
	return "the table allows " + list(r.may)
}

// withoutAnything leaves out the entry that stands for every package.
func withoutAnything(may []string) []string {
	var out []string
	for _, m := range may {
		if m != anything {
			out = append(out, m)
		}
	}
	return out
}

func list(may []string) string {
	if len(may) == 0 {
		return "the standard library alone"
	}
	return strings.Join(may, ", ")
}

// checkLibrary judges the import of a library; "" passes.
func checkLibrary(f *File, path string) string {
	if f.IsTest() || f.isIntegration() || under(f.Package, "internal/testutil") || underAny(f.Package, testSupport) {
		if underAny(path, configOnly) && !under(f.Package, "config") {
			return "only config does"
		}
		return ""
	}
	for _, l := range libraries {
		if !under(path, l.path) {
			continue
		}
		if underAny(f.Package, l.by) {
			return ""
		}
		return "only " + list(l.by) + " may"
	}
	return "it is not among the chosen libraries"
}
