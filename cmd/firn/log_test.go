// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"firn/internal/vfs"
)

// kafkaLogDir is a log directory that Kafka wrote.
const kafkaLogDir = "../../record/testdata/kafka-4.3.1"

func TestLogDump(t *testing.T) {
	got := firn(t, "log", "dump", kafkaLogDir, "--records", "-o", "json")
	if got.code != exitOK || got.errOut != "" {
		t.Fatalf("%+v", got)
	}
	kinds := map[string]int{}
	for line := range strings.Lines(got.out) {
		var item struct {
			Kind string `json:"kind"`
			File string `json:"file"`
		}
		if err := json.Unmarshal([]byte(line), &item); err != nil || item.File == "" {
			t.Fatalf("%s: %v", line, err)
		}
		kinds[item.Kind]++
	}
	for kind, n := range map[string]int{"batch": 17, "record": 41, "index": 13, "timeindex": 15, "txnindex": 1, "snapshot": 6, "leader-epoch": 2, "partition-metadata": 1, "checkpoint": 2} {
		if kinds[kind] != n {
			t.Errorf("%d of %s, want %d", kinds[kind], kind, n)
		}
	}
	log := kafkaLogDir + "/golden-0/00000000000000000000.log"
	table := firn(t, "log", "dump", log)
	if table.code != exitOK || !strings.Contains(table.out, "POSITION  BYTES  OFFSETS") || !strings.Contains(table.out, "117       125    3-5      3        3      gzip   7/1       3-5") {
		t.Errorf("%+v", table)
	}
	records := firn(t, "log", "dump", log, "--print-data")
	if records.code != exitOK || !strings.Contains(records.out, `record  1  1700000000001  null     "value-0-1"  "h"="x","n"=null`) ||
		!strings.Contains(records.out, "abort  coordinator epoch 4") {
		t.Errorf("%+v", records)
	}
	if doc := firn(t, "log", "dump", filepath.Dir(log)+"/partition.metadata", "-o", "yaml"); doc.code != exitOK || !strings.Contains(doc.out, "---\nkind: partition-metadata\n") {
		t.Errorf("%+v", doc)
	}
}

func TestLogVerify(t *testing.T) {
	if got := firn(t, "log", "verify", kafkaLogDir+"/golden-0"); got.code != exitOK || !strings.HasSuffix(got.out, "/golden-0: 1 partition, 2 segments, 17 batches, 41 records, 1.8 KiB: whole\n") {
		t.Fatalf("%+v", got)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(kafkaLogDir)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "golden-0", "00000000000000000000.log")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[200] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	got := firn(t, "log", "verify", dir)
	if got.code != exitFaulty || !strings.Contains(got.out, "fault  "+path+":117 ") || !strings.Contains(got.out, "CRC-32C") || got.errOut != "firn: 1 fault found\n" {
		t.Errorf("%+v", got)
	}
	var reports []verifyReport
	got = firn(t, "log", "verify", dir, filepath.Join(dir, "golden-0"), "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &reports); err != nil || got.code != exitFaulty || len(reports) != 2 {
		t.Fatalf("%v, %+v", err, got)
	}
	for _, r := range reports {
		if r.Faults != 1 || r.Batches != 17 || r.InUse || len(r.Findings) != r.Faults+r.Notes {
			t.Errorf("%+v", r)
		}
	}
	if got := firn(t, "log", "dump", path); got.code != exitFaulty || !strings.Contains(got.out, "DAMAGED at byte 117") || got.errOut != "firn: 1 place cannot be read\n" {
		t.Errorf("%+v", got)
	}
}

func TestLogCommandsBesideABroker(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(kafkaLogDir)); err != nil {
		t.Fatal(err)
	}
	lock, err := vfs.Disk().Lock(filepath.Join(dir, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Unlock() }()
	for _, args := range [][]string{
		{"verify", dir}, {"verify", dir + "/golden-0"}, {"dump", dir}, {"dump", dir + "/golden-0/00000000000000000000.log"}, {"dump", dir + "/recovery-point-offset-checkpoint"},
	} {
		got := firn(t, append([]string{"log"}, args...)...)
		if got.code != exitOK || !strings.Contains(got.errOut, "a broker uses "+dir+":") {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

func TestLogErrors(t *testing.T) {
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"dump":                            {exitUsage, "requires at least 1 arg"},
		"dump /nowhere/at/all":            {exitNotFound, "/nowhere/at/all is not there"},
		"dump log_test.go":                {exitUsage, "want a directory, a file of a partition or a checkpoint"},
		"verify":                          {exitUsage, "requires at least 1 arg"},
		"verify /nowhere/at/all":          {exitNotFound, "/nowhere/at/all is not there"},
		"verify log_test.go":              {exitUsage, "log_test.go is not a directory"},
		"verify " + kafkaLogDir + " -o x": {exitUsage, "want table, json or yaml"},
	} {
		got := firn(t, append([]string{"log"}, strings.Fields(args)...)...)
		if got.code != want.code || !strings.Contains(got.errOut, want.text) || got.out != "" {
			t.Errorf("firn log %s: %+v, want %d and %q", args, got, want.code, want.text)
		}
	}
}

func TestLogCompletes(t *testing.T) {
	if got := firn(t, "__complete", "log", ""); got.code != exitOK || !strings.Contains(got.out, "dump\t") || !strings.Contains(got.out, "verify\t") {
		t.Errorf("%+v", got)
	}
	// 16 has the shell offer directories alone, 0 any files.
	if got := firn(t, "__complete", "log", "verify", ""); !strings.HasSuffix(got.out, ":16\n") {
		t.Errorf("%+v", got)
	}
	if got := firn(t, "__complete", "log", "dump", ""); !strings.HasSuffix(got.out, ":0\n") {
		t.Errorf("%+v", got)
	}
}
