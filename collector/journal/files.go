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

// folder is what the journal does to its files. Tests put one in between that
// fails, and that forgets like a disk without power.
type folder interface {
	// list returns the segments' numbers, oldest first.
	list() ([]uint64, error)
	// create makes an empty file to be appended to, which must not be there yet.
	create(name string) (file, error)
	// open opens a file for reading and says how long it is.
	open(name string) (source, int64, error)
	// truncate cuts a file to size and makes what is left durable.
	truncate(name string, size int64) error
	remove(name string) error
	// setAside gives a segment a name under which nobody looks for one, and returns it.
	setAside(number uint64) (name string, err error)
	// sync makes durable which files there are.
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

// disk is the folder on a real disk.
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

func (d disk) setAside(number uint64) (name string, err error) {
	// Numbers may come again; what was set aside before stays.
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

// makeFolder makes dir and what is missing above it, durably.
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

// lockPatience is how long the kernel may take to end the lock of an owner that was
// killed a moment ago.
const lockPatience = time.Second

// lock takes the folder for this process until the returned file is closed or the
// process dies.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(lockPatience / 20) {
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
