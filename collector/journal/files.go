package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// folder provides the file operations that the journal needs. Tests use another
// implementation. Its operations can fail, and it can lose unsynced data, as a disk may
// do in a loss of power.
type folder interface {
	// list returns the numbers of the segments, oldest first.
	list() ([]uint64, error)
	// create creates an empty file for appending. It fails if the file exists.
	create(name string) (file, error)
	// open opens a file for reading and returns its size.
	open(name string) (source, int64, error)
	// truncate shortens a file to size bytes and syncs it.
	truncate(name string, size int64) error
	remove(name string) error
	// quarantine renames a damaged segment so that list no longer returns it. It returns
	// the new name.
	quarantine(number uint64) (name string, err error)
	// sync makes the creation, renaming and removal of files durable.
	sync() error
}

type file interface {
	io.WriteCloser
	Sync() error
}

type source interface {
	io.ReaderAt
	io.Closer
}

type disk struct{ dir string }

func (d disk) list() ([]uint64, error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, entry := range entries {
		if number, ok := segmentNumber(entry.Name()); ok {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func (d disk) create(name string) (file, error) {
	return os.OpenFile(filepath.Join(d.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
}

func (d disk) open(name string) (source, int64, error) {
	f, err := os.Open(filepath.Join(d.dir, name))
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func (d disk) truncate(name string, size int64) error {
	f, err := os.OpenFile(filepath.Join(d.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (d disk) remove(name string) error { return os.Remove(filepath.Join(d.dir, name)) }

func (d disk) quarantine(number uint64) (name string, err error) {
	// An earlier segment with the same number may already have been renamed. Find a name
	// that does not exist yet, so that the earlier file is not overwritten.
	for i := 1; ; i++ {
		name = damagedName(number, i)
		if _, err := os.Lstat(filepath.Join(d.dir, name)); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		return name, os.Rename(filepath.Join(d.dir, segmentName(number)), filepath.Join(d.dir, name))
	}
}

func (d disk) sync() error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// makeFolder creates dir and its missing parents, and syncs them.
func makeFolder(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeFolder(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return disk{parent}.sync()
}

// lockTimeout bounds the wait for the lock. The kernel may need a moment to release the
// lock of a process that was just killed.
const lockTimeout = time.Second

// lock locks the folder for this process until the returned file is closed or the process
// ends.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockTimeout); ; time.Sleep(lockTimeout / 20) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%s is in use by another process", dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
