// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"firn/record"
)

func TestInFileNamesTheFile(t *testing.T) {
	_, err := record.ParseEpochs([]byte("0\n1\nx 5\n"))
	named := record.InFile(fmt.Errorf("load: %w", err), "dir/leader-epoch-checkpoint")
	var c *record.CorruptionError
	if !errors.As(named, &c) || c.Path != "dir/leader-epoch-checkpoint" || c.Position != 4 {
		t.Fatalf("got %v", named)
	}
	if !errors.Is(named, record.ErrCorruptBatch) || !strings.Contains(named.Error(), "leader-epoch-checkpoint at byte 4") {
		t.Errorf("got %q", named)
	}
	if again := record.InFile(named, "other"); again != named {
		t.Errorf("the first name must stay, got %v", again)
	}
	if got := record.InFile(io.ErrUnexpectedEOF, "f"); !errors.Is(got, io.ErrUnexpectedEOF) || !strings.Contains(got.Error(), "f") {
		t.Errorf("another error: %v", got)
	}
	if record.InFile(nil, "f") != nil {
		t.Error("nil must stay nil")
	}
}
