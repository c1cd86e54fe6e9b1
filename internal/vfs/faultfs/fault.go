// SPDX-License-Identifier: Apache-2.0

package faultfs

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
)

// ErrInjected is the error of a fault that names none.
var ErrInjected = errors.New("injected fault")

// Op is a kind of operation.
type Op int

// The operations of vfs.FS and vfs.File. Opening with O_CREATE is OpCreate,
// whether or not the file was there. Fd and Name are not operations.
const (
	OpOpen Op = iota
	OpCreate
	OpRead
	OpWrite
	OpSync
	OpTruncate
	OpFileStat
	OpClose
	OpRemove
	OpRemoveAll
	OpRename
	OpMkdir
	OpReadDir
	OpStat
	OpSyncDir
	OpLock
	OpUsage
	opCount
)

var opNames = [opCount]string{
	"open", "create", "read", "write", "sync", "truncate", "file-stat", "close", "remove", "remove-all",
	"rename", "mkdir", "read-dir", "stat", "sync-dir", "lock", "usage",
}

// String is the name of the operation, in lower case.
func (o Op) String() string {
	if o < 0 || o >= opCount {
		return fmt.Sprintf("op(%d)", int(o))
	}
	return opNames[o]
}

// Writes are the operations that change what a crash would leave.
func Writes() []Op {
	return []Op{OpCreate, OpWrite, OpSync, OpTruncate, OpRemove, OpRemoveAll, OpRename, OpMkdir, OpSyncDir}
}

// Reads are the operations that only look.
func Reads() []Op { return []Op{OpOpen, OpRead, OpFileStat, OpReadDir, OpStat, OpUsage} }

// Call is one operation, as rules and hooks see it.
type Call struct {
	Op   Op
	Path string // of a file: the path it was opened with
	To   string // of a rename
	Off  int64  // of a read or write; the size of a truncate
	Len  int    // of a read or write, in bytes
	// N counts the operations of this kind on this FS, from 1.
	N int64
}

// Fault is what becomes of an operation. The zero Fault fails it with
// ErrInjected and no effect.
type Fault struct {
	// Err is the error that comes back, ErrInjected when nil. It is wrapped
	// with the operation and the path.
	Err error
	// Bytes is how many bytes of a write reach the inner file before the
	// error, or how many of a read come back.
	Bytes int
	// Flip makes a read succeed with the bit of this number (8 × byte + bit,
	// modulo what was read) turned over; Err and Bytes do not count then.
	Flip bool
	Bit  int
}

// Error fails an operation with err.
func Error(err error) Fault { return Fault{Err: err} }

// ShortWrite lets n bytes through and fails with io.ErrShortWrite.
func ShortWrite(n int) Fault { return Fault{Err: io.ErrShortWrite, Bytes: n} }

// NoSpace lets n bytes through and fails with ENOSPC.
func NoSpace(n int) Fault { return Fault{Err: syscall.ENOSPC, Bytes: n} }

// IOError fails with EIO, the error of a broken disk and of a failed sync.
func IOError() Fault { return Fault{Err: syscall.EIO} }

// FlipBit turns one bit over in what a read gives.
func FlipBit(bit int) Fault { return Fault{Flip: true, Bit: bit} }

// Rule says which operations meet a fault.
type Rule struct {
	// Ops are the kinds meant; none means all.
	Ops []Op
	// Match narrows it further; nil matches every call. It is called with a
	// lock held and must not use the FS.
	Match func(Call) bool
	// Skip is how many matching operations pass first.
	Skip int
	// Times is how many fail after that; 0 means one, a negative number all.
	Times int
	Fault Fault
}

// Injection is a Rule at work.
type Injection struct {
	fs   *FS
	rule Rule

	matched, fired int // guarded by fs.mu
}

// Fired tells how many operations met the fault.
func (i *Injection) Fired() int {
	i.fs.mu.Lock()
	defer i.fs.mu.Unlock()
	return i.fired
}

// Stop takes the rule away: the fault has ended.
func (i *Injection) Stop() {
	i.fs.mu.Lock()
	defer i.fs.mu.Unlock()
	i.fs.rules = slices.DeleteFunc(i.fs.rules, func(r *Injection) bool { return r == i })
}

// hitLocked counts a call and tells whether it fails.
func (i *Injection) hitLocked(c Call) bool {
	if len(i.rule.Ops) > 0 && !slices.Contains(i.rule.Ops, c.Op) {
		return false
	}
	if i.rule.Match != nil && !i.rule.Match(c) {
		return false
	}
	i.matched++
	times := max(i.rule.Times, 1)
	if i.matched <= i.rule.Skip || i.rule.Times >= 0 && i.matched > i.rule.Skip+times {
		return false
	}
	i.fired++
	return true
}
