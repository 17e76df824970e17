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

// shakyDisk is the folder on a real disk, with the faults that a test asks for. It
// knows what was synced, so that it can forget the rest as a disk without power does.
type shakyDisk struct {
	disk
	mu sync.Mutex
	// files is how much of each file is durable. A file that is missing here has a
	// name that is not durable.
	files map[string]int64
	// unnamed are files whose names are not durable, removed are those whose names
	// are not durably gone.
	unnamed map[string]int64
	removed map[string]bool

	// room is how many bytes may still be written; below 0: any number.
	room      int64
	failSync  error
	failDir   error
	failMake  error
	failErase error
	syncs     int // of files
	dirSyncs  int
	hold      chan struct{} // a sync waits for it
	entered   chan struct{} // told when a sync waits
}

func newShakyDisk(dir string) *shakyDisk {
	return &shakyDisk{disk: disk{dir}, room: -1, files: map[string]int64{}, unnamed: map[string]int64{}, removed: map[string]bool{}}
}

func (d *shakyDisk) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *shakyDisk) create(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failMake != nil {
		return nil, d.failMake
	}
	f, err := d.disk.create(name)
	if err != nil {
		return nil, err
	}
	d.unnamed[name] = 0
	return &shakyFile{file: f, disk: d, name: name}, nil
}

func (d *shakyDisk) remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failErase != nil {
		return d.failErase
	}
	// It is put aside, where the power's loss can find it.
	if err := os.Rename(filepath.Join(d.dir, name), filepath.Join(d.dir, name+".removed")); err != nil {
		return err
	}
	d.removed[name] = true
	return nil
}

func (d *shakyDisk) setAside(number uint64) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, segmentName(number))
	delete(d.unnamed, segmentName(number))
	return d.disk.setAside(number)
}

func (d *shakyDisk) sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dirSyncs++
	if d.failDir != nil {
		return d.failDir
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

func (d *shakyDisk) truncate(name string, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[name] = size
	return d.disk.truncate(name, size)
}

// losePower leaves of every file what was durable, and as much of the rest as keep
// says of it.
func (d *shakyDisk) losePower(t fataler, keep func(n int64) int64) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.removed {
		must(t, os.Rename(filepath.Join(d.dir, name+".removed"), filepath.Join(d.dir, name)))
	}
	for name := range d.unnamed {
		must(t, os.Remove(filepath.Join(d.dir, name)))
	}
	for name, durable := range d.files {
		info, err := os.Stat(filepath.Join(d.dir, name))
		must(t, err)
		must(t, os.Truncate(filepath.Join(d.dir, name), durable+keep(info.Size()-durable)))
	}
	clear(d.removed)
	clear(d.unnamed)
	d.room, d.failSync, d.failDir, d.failMake, d.failErase = -1, nil, nil, nil, nil
	numbers, err := d.list()
	must(t, err)
	for _, number := range numbers {
		info, err := os.Stat(filepath.Join(d.dir, segmentName(number)))
		must(t, err)
		d.files[segmentName(number)] = info.Size()
	}
}

type shakyFile struct {
	file
	disk *shakyDisk
	name string
}

func (f *shakyFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if room := f.disk.room; room >= 0 && int64(len(p)) > room {
		n, err := f.file.Write(p[:room])
		f.disk.room -= int64(n)
		return n, errors.Join(err, syscall.ENOSPC)
	}
	n, err := f.file.Write(p)
	if f.disk.room >= 0 {
		f.disk.room -= int64(n)
	}
	return n, err
}

func (f *shakyFile) Sync() error {
	d := f.disk
	d.mu.Lock()
	hold, entered := d.hold, d.entered
	d.mu.Unlock()
	if hold != nil {
		entered <- struct{}{}
		<-hold
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs++
	if d.failSync != nil {
		return d.failSync
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

// fataler is testing.TB and rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// open opens a journal on dir through files, or on the disk itself when that is nil.
func open(t fataler, cfg Config, files *shakyDisk) *Journal {
	t.Helper()
	if files != nil {
		cfg.Dir = files.dir
		cfg.folder = func(string) folder { return files }
	}
	j, err := Open(cfg)
	must(t, err)
	return j
}

// opened is open, closed with the test.
func opened(t *testing.T, cfg Config, files *shakyDisk) *Journal {
	t.Helper()
	j := open(t, cfg, files)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	must(t, err)
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	slices.Sort(paths)
	return paths
}
