// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"firn/internal/vfs"
	"firn/record"
)

// Disks are the log directories of a broker, a Store each. A directory that
// cannot be opened, or fails later, is offline and takes nothing else with it.
// All methods may be called concurrently.
type Disks struct {
	dirs []*Dir
	none chan struct{} // closed when no directory is left

	mu     sync.Mutex
	closed bool
	stop   chan struct{}
	wg     sync.WaitGroup
}

// Dir is one of them.
type Dir struct {
	path  string
	store *Store // nil when it could not be opened
	err   error  // why not
}

// Path is the directory, absolute.
func (d *Dir) Path() string { return d.path }

// Store is the store of the directory; nil when it could not be opened.
func (d *Dir) Store() *Store { return d.store }

// Offline is why the directory is not in use; nil while it is. The error wraps
// record.ErrStorage.
func (d *Dir) Offline() error {
	if d.store == nil {
		return d.err
	}
	return d.store.Failed()
}

// OpenDisks takes log directories into use, as Open does with one; o.Dir does
// not count, and the caches of o are shared out among them. A directory that
// cannot be opened is offline, with a line in the log. The error is that of all
// directories when none can be opened, and wraps vfs.ErrLocked when somebody
// else uses one of them: then nothing is in use.
func OpenDisks(ctx context.Context, paths []string, o Options) (*Disks, error) {
	if len(paths) == 0 {
		return nil, errors.New("open log directories: there are none")
	}
	o.EnsureDefaults()
	o.MaxOpenFiles = max(o.MaxOpenFiles/len(paths), 1)
	o.IndexCacheBytes = max(o.IndexCacheBytes/int64(len(paths)), 1)
	d := &Disks{none: make(chan struct{}), stop: make(chan struct{})}
	var errs []error
	locked := false
	for _, path := range paths {
		if absolute, err := filepath.Abs(path); err == nil {
			path = absolute
		}
		dir := &Dir{path: path}
		d.dirs = append(d.dirs, dir)
		one := o
		one.Dir = path
		if o.Registerer != nil {
			one.Registerer = prometheus.WrapRegistererWith(prometheus.Labels{"dir": path}, o.Registerer)
			dir.register(one.Registerer)
		}
		s, err := Open(ctx, one)
		if err != nil {
			dir.err = fmt.Errorf("%w: %w", record.ErrStorage, err)
			locked = locked || errors.Is(err, vfs.ErrLocked)
			errs = append(errs, err)
			continue
		}
		dir.store = s
	}
	if locked || len(errs) == len(paths) {
		return nil, errors.Join(errors.Join(errs...), d.Close(ctx))
	}
	for _, dir := range d.dirs {
		if dir.err != nil {
			o.Logger.Error("a log directory cannot be opened: its partitions are offline until the next start", "event", "log_dir_offline", "dir", dir.path, "error", dir.err)
		}
	}
	d.wg.Go(d.awaitNone)
	return d, nil
}

func (d *Dir) register(reg prometheus.Registerer) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "firn_log_dir_offline",
		Help: "1 when the log directory could not be opened or has failed, and its partitions are offline; else 0.",
	}, func() float64 {
		if d.Offline() != nil {
			return 1
		}
		return 0
	}))
}

// awaitNone closes none when the last directory has failed.
func (d *Disks) awaitNone() {
	for _, dir := range d.dirs {
		s := dir.store
		if s == nil {
			continue
		}
		select {
		case <-s.Lost():
		case <-d.stop:
			return
		}
	}
	close(d.none)
}

// NoneLeft is closed when the last directory has failed.
func (d *Disks) NoneLeft() <-chan struct{} { return d.none }

// Dirs are all directories, in the order in which they were given.
func (d *Disks) Dirs() []*Dir { return d.dirs }

// Online are the stores in use, in the same order.
func (d *Disks) Online() []*Store {
	var online []*Store
	for _, dir := range d.dirs {
		if s := dir.store; s != nil && s.Failed() == nil {
			online = append(online, s)
		}
	}
	return online
}

// Offline joins why directories are not in use; nil when all are.
func (d *Disks) Offline() error {
	var errs []error
	for _, dir := range d.dirs {
		errs = append(errs, dir.Offline())
	}
	return errors.Join(errs...)
}

// Refuse takes a directory that was opened out of use, because it is not what it
// should be, and gives its lock back. No log of it may be open.
func (d *Dir) Refuse(ctx context.Context, why error) error {
	d.store.fail(why)
	return d.store.Close(ctx)
}

// Close closes all stores and joins what failed. A second call does nothing.
func (d *Disks) Close(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	close(d.stop)
	d.wg.Wait()
	errs := make([]error, len(d.dirs))
	var closing sync.WaitGroup
	for i, dir := range d.dirs {
		if s := dir.store; s != nil {
			closing.Go(func() { errs[i] = s.Close(ctx) })
		}
	}
	closing.Wait()
	return errors.Join(errs...)
}
