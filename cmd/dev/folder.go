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

// folderName is where everything of a run is kept, below the working directory.
const folderName = ".dev"

// lockWithin bounds the wait for the folder: a process that was killed holds it
// until the kernel has taken it apart.
const lockWithin = time.Second

// removeTimeout bounds the wait for servers that are still ending in the folder
// that reset removes: those of a run that was killed.
const removeTimeout = 10 * time.Second

// folder is the data of make run, held by this process alone.
type folder struct {
	path string // absolute
	lock *os.File
}

// openFolder makes the folder when it is missing and takes it. The lock ends
// with the process, however that ends.
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
		// Another process reset the folder while we waited at its door.
	}
}

// makeFolder lets the user postgres pass through to its cluster, whatever the
// umask says; the files beside it are closed one by one.
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

// takeLock returns nil without an error when the file was removed meanwhile: a
// lock on it would keep nobody out.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // #nosec G304 -- a name of ours in the data folder
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

// dataOf is the folder of a private server: below this one, or where the server
// can reach it.
func (f *folder) dataOf(server string) (string, error) { return servers.DataDir(f.file(server)) }

func (f *folder) close() error { return f.lock.Close() }

// reset forgets everything that a run keeps at path. What was written to servers
// that the environment named stays there.
func reset(path string, out io.Writer) (err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(out, "There is nothing to forget.")
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
	fmt.Fprintln(out, "Forgot", f.path)
	return nil
}

// remove is os.RemoveAll for a folder in which something may still be ending.
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
