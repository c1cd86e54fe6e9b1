// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"firn/record"
)

// Files at the top of a log directory, as Kafka names them.
const (
	lockName          = ".lock"
	cleanName         = ".kafka_cleanshutdown"
	recoveryPointName = "recovery-point-offset-checkpoint"
	logStartName      = "log-start-offset-checkpoint"
	metaName          = "meta.properties"
)

// Files at the top that are Firn's own.
const (
	ballastName = "firn.ballast"
	probeName   = "firn.probe"
	vouchedName = "firn-clean-stop" // Firn's own
)

// Files of a partition directory.
const (
	epochsName   = "leader-epoch-checkpoint"
	metadataName = "partition.metadata"

	logSuffix       = ".log"
	indexSuffix     = ".index"
	timeIndexSuffix = ".timeindex"
	txnIndexSuffix  = ".txnindex"
	snapshotSuffix  = ".snapshot"
	// cutSuffix ends the name of a side file that keeps what recovery cut off.
	cutSuffix = ".cut"
)

// Suffixes that other programs and unfinished work leave behind.
const (
	tempSuffix    = ".tmp"
	deletedSuffix = ".deleted" // Kafka: a segment waiting for its deletion
	cleanedSuffix = ".cleaned" // Kafka: the output of a compaction under way
	swapSuffix    = ".swap"    // Kafka: a finished compaction not yet in place
)

// deleteSuffix ends the name of a partition directory moved aside for deletion.
const deleteSuffix = "-delete"

// maxFileName is the longest name of one file that common file systems take.
const maxFileName = 255

// segmentFile is the path of one file of the segment at base.
func segmentFile(dir string, base record.Offset, suffix string) string {
	return filepath.Join(dir, base.FileName()+suffix)
}

// parseSegmentFile reads a name of 20 digits and suffix.
func parseSegmentFile(name, suffix string) (record.Offset, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	base, err := record.ParseOffset(digits)
	return base, err == nil && base.FileName() == digits
}

// cutFile is the path of the side file for what was cut off the segment at
// base from position on. n tells apart what was cut there at different times.
func cutFile(dir string, base record.Offset, position int64, n int) string {
	return filepath.Join(dir, fmt.Sprintf("%s%s.%d.%d%s", base.FileName(), logSuffix, position, n, cutSuffix))
}

// deletedDir names the directory that a log is moved to for its deletion:
// "<topic>-<partition>.<32 hex digits>-delete", with the topic cut short where
// the name would be too long, as Kafka does.
func deletedDir(tp record.TopicPartition) string {
	var unique [16]byte
	_, _ = rand.Read(unique[:]) // never fails: crypto/rand ends the program first
	tail := fmt.Sprintf("-%d.%s%s", tp.Partition, hex.EncodeToString(unique[:]), deleteSuffix)
	return tp.Topic[:min(len(tp.Topic), maxFileName-len(tail))] + tail
}

// isDeletedDir recognises such a name.
func isDeletedDir(name string) bool {
	rest, ok := strings.CutSuffix(name, deleteSuffix)
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot <= 0 || len(rest)-dot-1 != 32 {
		return false
	}
	_, err := hex.DecodeString(rest[dot+1:])
	return err == nil && strings.ToLower(rest[dot+1:]) == rest[dot+1:] && strings.Contains(rest[:dot], "-")
}
