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

// folderName is the name of the data folder of `make run`. The folder is in the working
// directory.
const folderName = ".dev"

// lockTimeout is the maximum time to wait for the lock of the folder. A process that was
// killed holds the lock until the kernel has removed the process.
const lockTimeout = time.Second

// removeTimeout is the maximum time that reset waits for servers that still write into
// the folder. These servers belong to a run that was killed.
const removeTimeout = 10 * time.Second

// folder is the data folder of `make run`. This process holds the lock of the folder.
type folder struct {
	path string // absolute
	lock *os.File
}

// openFolder creates the folder if it is missing and locks it. The kernel releases the
// lock when the process ends, even if the process is killed.
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
		// Another process has removed the folder before this process locked it. Try
		// again.
	}
}

// makeFolder creates the folder with mode 0711, regardless of the umask, so that the user
// postgres can reach the data of Postgres in the folder. Other users cannot read the
// files in the folder, because the files have mode 0600.
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

// takeLock locks the file at path. It returns nil without an error if the file was
// removed before it was locked, because such a lock has no effect.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // #nosec G304 -- a fixed name in the data folder
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // the folder was removed
	}
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(lockTimeout)
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	for errors.Is(err, syscall.EWOULDBLOCK) && time.Now().Before(deadline) {
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
	locked, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if current, err := os.Stat(path); err != nil || !os.SameFile(locked, current) {
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

// dataOf returns the data folder of a private server. It is a subfolder of f. If the
// server cannot reach this subfolder, the data folder is in /var/tmp.
func (f *folder) dataOf(server string) (string, error) { return servers.DataDir(f.file(server)) }

func (f *folder) close() error { return f.lock.Close() }

// reset deletes the data folder at path. It does not delete data on servers whose
// addresses were set in the environment.
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

// remove removes a folder. It repeats os.RemoveAll, because the call fails while servers
// still write into the folder.
func remove(path string) error {
	deadline := time.Now().Add(removeTimeout)
	for {
		err := os.RemoveAll(path)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pollEvery)
	}
}
