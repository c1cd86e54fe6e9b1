// SPDX-License-Identifier: Apache-2.0

package config

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write docs/CONFIGURATION.md anew")

// TestReferenceI4 keeps the document true to the table.
func TestReferenceI4(t *testing.T) {
	const path = "../docs/CONFIGURATION.md"
	if *update {
		if err := os.MkdirAll("../docs", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Reference() {
		t.Fatalf("%s is not what the table says; run: go test ./config -run TestReference -update", path)
	}
}
