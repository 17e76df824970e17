package journal

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// faultyDisk is a folder on a real disk that simulates faults. It records which data was
// synced, so that it can simulate a loss of power, which loses the unsynced data.
type faultyDisk struct {
	disk
	mu sync.Mutex
	// files contains the files that would exist after a loss of power, because the folder
	// was synced after they were created. The value is the synced size of the file.
	files map[string]int64
	// unnamed contains the other files with their synced sizes. A loss of power removes
	// them.
	unnamed map[string]int64
	// removed contains the removed files that a loss of power would bring back, because
	// the folder was not synced since.
	removed map[string]bool

	// freeBytes is the number of bytes that can still be written. A negative value means
	// no limit.
	freeBytes  int64
	syncErr    error
	dirSyncErr error
	createErr  error
	removeErr  error
	syncs      int // number of file syncs
	dirSyncs   int
	// syncGate, if not nil, blocks each file sync until it is closed.
	syncGate chan struct{}
	// syncBlocked receives a value when a file sync begins to wait for syncGate.
	syncBlocked chan struct{}
}

func newFaultyDisk(dir string) *faultyDisk {
	return &faultyDisk{disk: disk{dir}, freeBytes: -1, files: map[string]int64{}, unnamed: map[string]int64{}, removed: map[string]bool{}}
}

// set calls change, which may set the fields of d.
func (d *faultyDisk) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *faultyDisk) create(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.createErr != nil {
		return nil, d.createErr
	}
	f, err := d.disk.create(name)
	if err != nil {
		return nil, err
	}
	d.unnamed[name] = 0
	return &faultyFile{file: f, disk: d, name: name}, nil
}

func (d *faultyDisk) remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removeErr != nil {
		return d.removeErr
	}
	// Rename the file instead of deleting it, so that losePower can restore it.
	if err := os.Rename(filepath.Join(d.dir, name), filepath.Join(d.dir, name+".removed")); err != nil {
		return err
	}
	d.removed[name] = true
	return nil
}

func (d *faultyDisk) quarantine(number uint64) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, segmentName(number))
	delete(d.unnamed, segmentName(number))
	return d.disk.quarantine(number)
}

func (d *faultyDisk) sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dirSyncs++
	if d.dirSyncErr != nil {
		return d.dirSyncErr
	}
	if err := d.disk.sync(); err != nil {
		return err
	}
	for name := range d.removed {
		if err := os.Remove(filepath.Join(d.dir, name+".removed")); err != nil {
			return err
		}
		delete(d.files, name)
		delete(d.unnamed, name)
	}
	clear(d.removed)
	for name, size := range d.unnamed {
		d.files[name] = size
	}
	clear(d.unnamed)
	return nil
}

func (d *faultyDisk) truncate(name string, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[name] = size
	return d.disk.truncate(name, size)
}

// losePower simulates a loss of power and clears all faults. Each file keeps its synced
// bytes. The function keep receives the number of unsynced bytes of a file and returns how
// many of them the file also keeps.
func (d *faultyDisk) losePower(t failer, keep func(n int64) int64) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.removed {
		requireNoError(t, os.Rename(filepath.Join(d.dir, name+".removed"), filepath.Join(d.dir, name)))
	}
	for name := range d.unnamed {
		requireNoError(t, os.Remove(filepath.Join(d.dir, name)))
	}
	for name, synced := range d.files {
		info, err := os.Stat(filepath.Join(d.dir, name))
		requireNoError(t, err)
		requireNoError(t, os.Truncate(filepath.Join(d.dir, name), synced+keep(info.Size()-synced)))
	}
	clear(d.removed)
	clear(d.unnamed)
	d.freeBytes, d.syncErr, d.dirSyncErr, d.createErr, d.removeErr = -1, nil, nil, nil, nil
	numbers, err := d.list()
	requireNoError(t, err)
	for _, number := range numbers {
		info, err := os.Stat(filepath.Join(d.dir, segmentName(number)))
		requireNoError(t, err)
		d.files[segmentName(number)] = info.Size()
	}
}

type faultyFile struct {
	file
	disk *faultyDisk
	name string
}

func (f *faultyFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if free := f.disk.freeBytes; free >= 0 && int64(len(p)) > free {
		n, err := f.file.Write(p[:free])
		f.disk.freeBytes -= int64(n)
		return n, errors.Join(err, syscall.ENOSPC)
	}
	n, err := f.file.Write(p)
	if f.disk.freeBytes >= 0 {
		f.disk.freeBytes -= int64(n)
	}
	return n, err
}

func (f *faultyFile) Sync() error {
	d := f.disk
	d.mu.Lock()
	gate, blocked := d.syncGate, d.syncBlocked
	d.mu.Unlock()
	if gate != nil {
		blocked <- struct{}{}
		<-gate
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs++
	if d.syncErr != nil {
		return d.syncErr
	}
	if err := f.file.Sync(); err != nil {
		return err
	}
	size, err := f.file.(io.Seeker).Seek(0, io.SeekEnd)
	if _, unnamed := d.unnamed[f.name]; unnamed {
		d.unnamed[f.name] = size
	} else {
		d.files[f.name] = size
	}
	return err
}

// failer is the part of testing.TB that rapid.T implements too.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func requireNoError(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

// open opens a journal on a faultyDisk, or in cfg.Dir if d is nil.
func open(t failer, cfg Config, d *faultyDisk) *Journal {
	t.Helper()
	if d != nil {
		cfg.Dir = d.dir
		cfg.folder = func(string) folder { return d }
	}
	j, err := Open(cfg)
	requireNoError(t, err)
	return j
}

// openForTest calls open and closes the journal at the end of the test.
func openForTest(t *testing.T, cfg Config, files *faultyDisk) *Journal {
	t.Helper()
	j := open(t, cfg, files)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// segmentNames returns the file names of the segments in dir, oldest first.
func segmentNames(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	requireNoError(t, err)
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	slices.Sort(paths)
	return paths
}
