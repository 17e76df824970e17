package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tributary-hq/tributary/tools/servers"
)

// folderName is the folder of all data of a run, in the working directory.
const folderName = ".dev"

// lockWithin limits the wait for the lock. A killed process holds it until the kernel
// has removed the process.
const lockWithin = time.Second

// removeTimeout limits the wait for servers of a killed run that still use the folder
// which reset removes.
const removeTimeout = 10 * time.Second

// folder is the data folder of make run. This process has locked it.
type folder struct {
	path string // absolute
	lock *os.File
}

// openFolder creates the folder if it is missing and locks it. The lock ends with the
// process, even if the process is killed.
func openFolder(path string) (*folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	for {
		if err := makeFolder(path); err != nil {
			return nil, err
		}
		lock, err := takeLock(filepath.Join(path, "lock"))
		if err != nil {
			return nil, err
		}
		if lock != nil {
			return &folder{path: path, lock: lock}, nil
		}
		// Another process removed the folder before this one locked it.
	}
}

// makeFolder creates the folder so that the user postgres can reach its data, whatever the
// umask is. Each file in the folder has mode 0600.
func makeFolder(path string) error {
	err := os.Mkdir(path, 0o711)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(path, 0o711)
}

// takeLock locks the file at path. It returns nil without an error if the file was removed
// before it was locked, because such a lock has no effect.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // #nosec G304 -- a fixed name in the data folder
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // the folder was removed
	}
	if err != nil {
		return nil, err
	}
	giveUp := time.Now().Add(lockWithin)
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	for errors.Is(err, syscall.EWOULDBLOCK) && time.Now().Before(giveUp) {
		time.Sleep(pollEvery)
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		owner, _ := os.ReadFile(path) // #nosec G304 -- as above
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is in use: Tributary runs there already, as process %s; stop it first",
				filepath.Dir(path), strings.TrimSpace(string(owner)))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	held, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(held, there) {
		return nil, f.Close()
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *folder) file(name string) string { return filepath.Join(f.path, name) }

// dataOf returns the data folder of a private server: in this folder, or elsewhere if the
// server cannot read this one.
func (f *folder) dataOf(server string) (string, error) { return servers.DataDir(f.file(server)) }

func (f *folder) close() error { return f.lock.Close() }

// reset deletes the data of a run at path. Data on servers that the environment named
// remains.
func reset(path string, out io.Writer) (err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(out, "There is nothing to delete.")
		return nil
	}
	f, err := openFolder(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	for _, server := range []string{postgresName, redisName} {
		data, err := f.dataOf(server)
		if err != nil {
			return err
		}
		if err := remove(data); err != nil {
			return err
		}
	}
	if err := remove(f.path); err != nil {
		return err
	}
	fmt.Fprintln(out, "Deleted", f.path)
	return nil
}

// remove is os.RemoveAll that repeats while servers still write into the folder.
func remove(path string) error {
	giveUp := time.Now().Add(removeTimeout)
	for {
		err := os.RemoveAll(path)
		if err == nil || time.Now().After(giveUp) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}
