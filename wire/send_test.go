// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"firn/internal/bulk"

	"firn/internal/vfs"
)

// frameOf puts a length and a correlation id ahead of parts.
func frameOf(id int32, parts ...Part) []Part {
	n := int64(4)
	for _, p := range parts {
		n += p.Len()
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(n))
	return append([]Part{{Bytes: binary.BigEndian.AppendUint32(head, uint32(id))}}, parts...)
}

// fakeRegion is a region of any file, with pages that are cold on demand.
type fakeRegion struct {
	file vfs.File
	off  int64
	n    int64
	// cold says whether the chunk at off is not in the page cache.
	cold func(off int64) bool
	// asked collects what Resident was asked.
	asked [][2]int64
	// failCold is the error of readCold.
	failCold error
}

func (r *fakeRegion) Len() int64     { return r.n }
func (r *fakeRegion) File() vfs.File { return r.file }
func (r *fakeRegion) Offset() int64  { return r.off }

func (r *fakeRegion) Resident(off, n int64) bool {
	r.asked = append(r.asked, [2]int64{off, n})
	return r.cold == nil || !r.cold(off)
}

func (r *fakeRegion) ReadAt(p []byte, off int64) (int, error) { return r.file.ReadAt(p, r.off+off) }

func (r *fakeRegion) readCold(_ context.Context, p []byte, off int64) (int, error) {
	if r.failCold != nil {
		return 0, r.failCold
	}
	return r.ReadAt(p, off)
}

// randomFile makes a file of n random bytes on fs.
func randomFile(t testing.TB, fs vfs.FS, dir string, n int) (vfs.File, []byte) {
	t.Helper()
	data := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n)})
	if _, err := r.Read(data); err != nil {
		t.Fatal(err)
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := fs.OpenFile(filepath.Join(dir, "file.log"), vfs.Create, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	return f, data
}

// tcpPair is a connection over loopback: our end and the client's.
func tcpPair(t testing.TB) (ours, theirs net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	theirs, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ours, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	return ours, theirs
}

// sendAll sends pieces over nc and returns what arrived at the other end.
func sendAll(t testing.TB, s *Server, nc, theirs net.Conn, pieces []piece, bulk bool) ([]byte, error) {
	t.Helper()
	var got []byte
	var readErr error
	var wg sync.WaitGroup
	wg.Go(func() { got, readErr = io.ReadAll(theirs) })
	var snd sender
	snd.init(nc, s)
	err := snd.sendPieces(context.Background(), pieces, bulk)
	_ = nc.Close()
	wg.Wait()
	if readErr != nil {
		t.Fatal(readErr)
	}
	return got, err
}

func content(pieces []piece) []byte {
	var b []byte
	for _, p := range pieces {
		if p.region == nil {
			b = append(b, p.bytes...)
			continue
		}
		buf := make([]byte, p.region.Len())
		_, _ = p.region.ReadAt(buf, 0)
		b = append(b, buf...)
	}
	return b
}

// TestPaths: which way each kind of piece takes, and that all arrives.
func TestPaths(t *testing.T) {
	f, _ := randomFile(t, vfs.Disk(), t.TempDir(), 2<<20)
	mem, _ := randomFile(t, vfs.NewMem(), "/m", 2<<20)
	const big = 600 << 10 // three chunks
	region := func(file vfs.File, n int64, cold ...int64) piece {
		return piece{region: &fakeRegion{file: file, off: 1000, n: n, cold: func(off int64) bool {
			for _, c := range cold {
				if off == c {
					return true
				}
			}
			return false
		}}}
	}
	head, tail := piece{bytes: []byte("header")}, piece{bytes: []byte("tail")}
	if !haveSendfile {
		t.Log("no sendfile on this system: regions are expected to take the pread path")
	}
	tests := []struct {
		name   string
		pieces []piece
		want   Stats
	}{
		{"bytes", []piece{head, {bytes: make([]byte, 100<<10)}, tail}, Stats{MemoryBytes: 100<<10 + 10}},
		{"small region", []piece{head, region(f, sendfileMin-1), tail}, Stats{PreadBytes: sendfileMin - 1, MemoryBytes: 10}},
		{"small cold region", []piece{head, region(f, 1000, 0), tail}, Stats{MemoryBytes: 1010, ColdChunks: 1}},
		{"region", []piece{head, region(f, sendfileMin), tail}, Stats{SendfileBytes: sendfileMin, MemoryBytes: 10}},
		{"region at the end", []piece{head, region(f, big)}, Stats{SendfileBytes: big, MemoryBytes: 6}},
		{"cold in the middle", []piece{head, region(f, big, regionChunk), tail},
			Stats{SendfileBytes: big - regionChunk, MemoryBytes: 10 + regionChunk, ColdChunks: 1}},
		{"all cold", []piece{head, region(f, big, 0, regionChunk, 2*regionChunk)}, Stats{MemoryBytes: 6 + big, ColdChunks: 3}},
		{"no descriptor", []piece{head, region(mem, big), tail}, Stats{PreadBytes: big, MemoryBytes: 10}},
		{"many", []piece{head, region(f, 20000), tail, region(f, 20000), region(f, 20000), region(f, 20000), region(f, big), head, region(f, 10), tail},
			Stats{PreadBytes: 80010, SendfileBytes: big, MemoryBytes: 20}},
	}
	for _, tt := range tests {
		for _, inBulk := range []bool{false, true} {
			s := newServer(t, Options{Handler: handlerFunc(nil)})
			ours, theirs := tcpPair(t)
			got, err := sendAll(t, s, ours, theirs, tt.pieces, inBulk)
			if err != nil || !bytes.Equal(got, content(tt.pieces)) {
				t.Errorf("%s: %d bytes arrived, %v", tt.name, len(got), err)
			}
			want, st := tt.want, s.Stats()
			if !haveSendfile {
				want.PreadBytes, want.SendfileBytes = want.PreadBytes+want.SendfileBytes, 0
			}
			if inBulk && st.BulkTurns < uint64(len(got))/bulk.Size || !inBulk && st.BulkTurns != 0 {
				t.Errorf("%s: %d turns for %d bytes", tt.name, st.BulkTurns, len(got))
			}
			if st.BulkTurns = 0; st != want {
				t.Errorf("%s, bulk %v:\ngot  %+v\nwant %+v", tt.name, inBulk, st, want)
			}
		}
	}
}

// TestResidencyIsCheckedPerChunk: each chunk is asked for when its turn comes.
func TestResidencyIsCheckedPerChunk(t *testing.T) {
	f, _ := randomFile(t, vfs.Disk(), t.TempDir(), 1<<20)
	r := &fakeRegion{file: f, off: 7, n: 2*regionChunk + 5}
	s := newServer(t, Options{Handler: handlerFunc(nil)})
	ours, theirs := tcpPair(t)
	if _, err := sendAll(t, s, ours, theirs, []piece{{region: r}}, true); err != nil {
		t.Fatal(err)
	}
	want := [][2]int64{{0, regionChunk}, {regionChunk, regionChunk}, {2 * regionChunk, 5}}
	if len(r.asked) != 3 || [3][2]int64(r.asked) != [3][2]int64(want) {
		t.Errorf("asked %v, want %v", r.asked, want)
	}
}

// TestShortFile attacks I6: a file that ends early is an error on every path,
// and nothing is sent in place of what is missing.
func TestShortFile(t *testing.T) {
	disk, data := randomFile(t, vfs.Disk(), t.TempDir(), 100<<10)
	mem, _ := randomFile(t, vfs.NewMem(), "/m", 100<<10)
	cold := func(int64) bool { return true }
	for name, r := range map[string]*fakeRegion{
		"sendfile": {file: disk, off: 10, n: 100 << 10},
		"pread":    {file: mem, off: 10, n: 100 << 10},
		"cold":     {file: disk, off: 10, n: 100 << 10, cold: cold},
		"small":    {file: disk, off: 99 << 10, n: 2 << 10},
		"beyond":   {file: disk, off: 1 << 20, n: 100 << 10},
	} {
		s := newServer(t, Options{Handler: handlerFunc(nil)})
		ours, theirs := tcpPair(t)
		got, err := sendAll(t, s, ours, theirs, []piece{{region: r}, {bytes: []byte("tail")}}, false)
		if !errors.Is(err, errShortRegion) {
			t.Errorf("%s: got %v", name, err)
		}
		if want := data[min(r.off, int64(len(data))):]; !bytes.HasPrefix(want, got) {
			t.Errorf("%s: %d bytes were sent that are not the file's", name, len(got))
		}
	}
}

// TestColdReadFails: the connection fails, with the reason.
func TestColdReadFails(t *testing.T) {
	f, _ := randomFile(t, vfs.Disk(), t.TempDir(), 100<<10)
	boom := errors.New("boom")
	s := newServer(t, Options{Handler: handlerFunc(nil)})
	ours, theirs := tcpPair(t)
	r := &fakeRegion{file: f, n: 100 << 10, cold: func(int64) bool { return true }, failCold: boom}
	if _, err := sendAll(t, s, ours, theirs, []piece{{region: r}}, false); !errors.Is(err, boom) || !errors.Is(err, errFile) {
		t.Errorf("got %v", err)
	}
}

// TestAnyPiecesArrive: whatever the pieces, over TCP and over a pipe, as bulk
// and not, the client sees them one after the other.
func TestAnyPiecesArrive(t *testing.T) {
	disk, _ := randomFile(t, vfs.Disk(), t.TempDir(), 1<<20)
	mem, _ := randomFile(t, vfs.NewMem(), "/m", 1<<20)
	s := newServer(t, Options{Handler: handlerFunc(nil)})
	size := rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(gatherMax-2, gatherMax+2), rapid.IntRange(sendfileMin-2, sendfileMin+2),
		rapid.IntRange(gatherSize-20, gatherSize+20), rapid.IntRange(regionChunk-2, regionChunk+100))
	rapid.Check(t, func(rt *rapid.T) {
		var pieces []piece
		for range rapid.IntRange(0, 6).Draw(rt, "pieces") {
			n := size.Draw(rt, "size")
			switch rapid.IntRange(0, 2).Draw(rt, "kind") {
			case 0:
				pieces = append(pieces, piece{bytes: bytes.Repeat([]byte{byte(n)}, n)})
			case 1:
				pieces = append(pieces, piece{region: &fakeRegion{file: disk, off: rapid.Int64Range(0, 1<<19).Draw(rt, "off"), n: int64(n)}})
			case 2:
				coldFrom := rapid.Int64Range(0, 1<<19).Draw(rt, "cold")
				pieces = append(pieces, piece{region: &fakeRegion{file: mem, off: 3, n: int64(n), cold: func(off int64) bool { return off >= coldFrom }}})
			}
		}
		ours, theirs := net.Pipe()
		if rapid.Bool().Draw(rt, "tcp") {
			ours, theirs = tcpPair(t)
		}
		got, err := sendAll(t, s, ours, theirs, pieces, rapid.Bool().Draw(rt, "bulk"))
		if err != nil || !bytes.Equal(got, content(pieces)) {
			rt.Fatalf("%d of %d bytes arrived, %v", len(got), len(content(pieces)), err)
		}
		_ = theirs.Close()
	})
}

// TestSharedFilePosition: senders of one file at the same time do not disturb
// each other, as they would if they used the file's own position.
func TestSharedFilePosition(t *testing.T) {
	f, data := randomFile(t, vfs.Disk(), t.TempDir(), 4<<20)
	s := newServer(t, Options{Handler: handlerFunc(nil)})
	var wg sync.WaitGroup
	for i := range 4 {
		ours, theirs := tcpPair(t)
		wg.Go(func() {
			r := &fakeRegion{file: f, off: int64(i) << 19, n: 2 << 20}
			got, err := sendAll(t, s, ours, theirs, []piece{{region: r}}, i%2 == 0)
			if err != nil || !bytes.Equal(got, data[r.off:r.off+r.n]) {
				t.Errorf("sender %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	wg.Wait()
}

// TestStuckClientHoldsNoTurn: with a single turn, a bulk client that reads
// nothing does not keep another from its answer; in the end it is closed.
func TestStuckClientHoldsNoTurn(t *testing.T) {
	f, data := randomFile(t, vfs.Disk(), t.TempDir(), 16<<20)
	s := newServer(t, Options{Handler: handlerFunc(nil), Turns: bulk.NewTurns(1), SendTimeout: 300 * time.Millisecond})
	stuckOurs, _ := tcpPair(t)
	stuck := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		var snd sender
		snd.init(stuckOurs, s)
		stuck <- snd.sendPieces(context.Background(), []piece{{region: &fakeRegion{file: f, n: 16 << 20}}}, true)
	})
	for range 3 {
		ours, theirs := tcpPair(t)
		got, err := sendAll(t, s, ours, theirs, []piece{{region: &fakeRegion{file: f, n: 16 << 20}}}, true)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	if err := wait(t, stuck, "end of the stuck client"); !errors.Is(err, errSlowClient) {
		t.Errorf("got %v", err)
	}
	wg.Wait()
}

// TestPaceHoldsBulkAnswersOnly: while more is owed than time will pay, a bulk
// answer waits until its connection ends, and the tail's go out.
func TestPaceHoldsBulkAnswersOnly(t *testing.T) {
	pace := bulk.NewPace(1)
	pace.Did(1 << 30)
	s := newServer(t, Options{Handler: handlerFunc(nil), BulkPace: pace})
	ours, theirs := tcpPair(t)
	want := make([]byte, 300<<10)
	if got, err := sendAll(t, s, ours, theirs, []piece{{bytes: want}}, false); err != nil || len(got) != len(want) {
		t.Errorf("%d bytes of the tail arrived, %v", len(got), err)
	}
	gone := errors.New("the client is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	ours, theirs = tcpPair(t)
	var snd sender
	snd.init(ours, s)
	ended := make(chan error, 1)
	go func() { ended <- snd.sendPieces(ctx, []piece{{bytes: want}}, true) }()
	cancel(gone)
	if err := wait(t, ended, "end of the bulk answer"); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	ours.Close()
	if n, err := io.Copy(io.Discard, theirs); n != 0 || err != nil {
		t.Errorf("%d bytes of the bulk answer arrived, %v", n, err)
	}
}

// TestSlowClientIsReset: the kernel keeps nothing for a client that was cut
// off, and tells it.
func TestSlowClientIsReset(t *testing.T) {
	done := make(chan bool, 1)
	log := &logLines{}
	s := newServer(t, Options{SendTimeout: 300 * time.Millisecond, Logger: log.logger(), Handler: handlerFunc(func(_ context.Context, r *Request) (Answer, error) {
		return func(context.Context) (*Response, error) {
			return &Response{Parts: frameOf(r.CorrelationID, Part{Bytes: make([]byte, 64<<20)}), Done: func(sent bool) { done <- sent }}, nil
		}, nil
	})})
	c := dial(t, s)
	c.send(encode(1, metadataRequest(9, "t")))
	if wait(t, done, "end of the answer") {
		t.Error("the answer counts as sent")
	}
	if n, err := io.Copy(io.Discard, c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %d bytes, then %v", n, err)
	}
	expectEvents(t, log, "client_slow")
}

// TestCloseFreesAStuckSender: closing the socket ends a send that waits for
// its client.
func TestCloseFreesAStuckSender(t *testing.T) {
	f, _ := randomFile(t, vfs.Disk(), t.TempDir(), 16<<20)
	s := newServer(t, Options{Handler: handlerFunc(nil)})
	ours, theirs := tcpPair(t)
	ended := make(chan error, 1)
	go func() {
		var snd sender
		snd.init(ours, s)
		ended <- snd.sendPieces(context.Background(), []piece{{region: &fakeRegion{file: f, n: 16 << 20}}}, false)
	}()
	if _, err := io.ReadFull(theirs, make([]byte, 1<<16)); err != nil {
		t.Fatal(err)
	}
	if err := ours.Close(); err != nil {
		t.Fatal(err)
	}
	if err := wait(t, ended, "end of the send"); !errors.Is(err, errSocket) {
		t.Errorf("got %v", err)
	}
}

// TestSendfileOfWhatCannotBeSent: a file that sendfile refuses is read.
func TestSendfileOfWhatCannotBeSent(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	mem, data := randomFile(t, vfs.NewMem(), "/m", 1<<20)
	s := newServer(t, Options{Handler: handlerFunc(nil)})
	ours, theirs := tcpPair(t)
	// A directory stands for a file on a file system without sendfile: the
	// kernel refuses both in the same way.
	file := unsendable{File: mem, fd: dir.Fd()}
	got, err := sendAll(t, s, ours, theirs, []piece{{region: &fakeRegion{file: file, n: 1 << 20}}}, false)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if st := s.Stats(); st.PreadBytes != 1<<20 {
		t.Errorf("stats %+v", st)
	}
}

type unsendable struct {
	vfs.File
	fd uintptr
}

func (f unsendable) Fd() uintptr { return f.fd }
