// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"path/filepath"
	"strings"

	"firn/record"
)

// kind is what a file is, by its name.
type kind string

const (
	kindLog        kind = "log"
	kindIndex      kind = "index"
	kindTimeIndex  kind = "timeindex"
	kindTxnIndex   kind = "txnindex"
	kindSnapshot   kind = "snapshot"
	kindEpochs     kind = "leader-epochs"
	kindMetadata   kind = "partition-metadata"
	kindCheckpoint kind = "checkpoint"
	kindCleanMark  kind = "clean-shutdown"
	kindCut        kind = "cut"       // what recovery cut off
	kindUnfinished kind = "leftover"  // removed at the next start
	kindSwap       kind = "swap"      // a compaction of Kafka's that stopped halfway
	kindOther      kind = "unknown"   // nothing of the log's
	kindIgnored    kind = "something" // known, and not the log's
)

// Names of files that are not named by an offset.
const (
	epochsName        = "leader-epoch-checkpoint"
	metadataName      = "partition.metadata"
	cleanName         = ".kafka_cleanshutdown"
	lockName          = ".lock"
	recoveryPointName = "recovery-point-offset-checkpoint"
	logStartName      = "log-start-offset-checkpoint"
	watermarkName     = "replication-offset-checkpoint"
	cleanerName       = "cleaner-offset-checkpoint"
)

// named are the files that are known by their whole name.
var named = map[string]kind{
	epochsName:             kindEpochs,
	metadataName:           kindMetadata,
	cleanName:              kindCleanMark,
	recoveryPointName:      kindCheckpoint,
	logStartName:           kindCheckpoint,
	watermarkName:          kindCheckpoint,
	cleanerName:            kindCheckpoint,
	lockName:               kindIgnored,
	"meta.properties":      kindIgnored,
	"bootstrap.checkpoint": kindIgnored,
	"firn.db":              kindIgnored,
	"firn-manifest":        kindIgnored,
	"firn-clean-stop":      kindIgnored,
	"firn.ballast":         kindIgnored,
	"firn.probe":           kindIgnored,
	"quorum-state":         kindIgnored, // of Kafka's own metadata log
}

// suffixes are the files that are named by an offset in 20 digits.
var suffixes = map[string]kind{
	".log": kindLog, ".index": kindIndex, ".timeindex": kindTimeIndex, ".txnindex": kindTxnIndex, ".snapshot": kindSnapshot,
}

// kindOf tells what a file is, and the offset in its name; NoOffset where the
// name has none.
func kindOf(name string) (kind, record.Offset) {
	if k, ok := named[name]; ok {
		return k, record.NoOffset
	}
	switch ext := filepath.Ext(name); ext {
	case ".cut":
		return kindCut, record.NoOffset
	case ".swap":
		return kindSwap, record.NoOffset
	case ".tmp", ".deleted", ".cleaned":
		return kindUnfinished, record.NoOffset
	default:
		k, ok := suffixes[ext]
		digits := strings.TrimSuffix(name, ext)
		base, err := record.ParseOffset(digits)
		if !ok || err != nil || base.FileName() != digits {
			return kindOther, record.NoOffset
		}
		return k, base
	}
}

// looksNamed says whether a file of an unknown name has a suffix of the log's,
// so that its name was meant to hold an offset.
func looksNamed(name string) bool { return suffixes[filepath.Ext(name)] != "" }

// fileOf is the path of one file of a segment.
func fileOf(dir string, base record.Offset, suffix string) string {
	return filepath.Join(dir, base.FileName()+suffix)
}
