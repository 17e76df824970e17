package servers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// DataDir creates and returns a folder for a server's data. It returns preferred if the
// server can use that folder. If the caller is root, Postgres runs as the user postgres,
// who cannot reach a folder below a closed folder such as a home folder of mode 0700. In
// this case DataDir returns a folder in /var/tmp. Its name depends only on preferred, so
// every run uses the same folder.
//
// DataDir checks only the permission bits, not access control lists.
func DataDir(preferred string) (string, error) {
	preferred, err := filepath.Abs(preferred)
	if err != nil {
		return "", err
	}
	if err := createAccessible(preferred); err != nil {
		return "", err
	}
	if os.Geteuid() != 0 || reachable(preferred) == nil {
		return preferred, nil
	}
	sum := sha256.Sum256([]byte(preferred))
	fallback := fmt.Sprintf("/var/tmp/tributary-%s-%x", filepath.Base(preferred), sum[:6])
	if err := createAccessible(fallback); err != nil {
		return "", err
	}
	// Every user may write to /var/tmp. If another user created the folder first, that
	// user could change the data.
	info, err := os.Lstat(fallback)
	if err != nil {
		return "", err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || owner.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s is not a folder that only root can change: remove it", fallback)
	}
	return fallback, nil
}

// TempDir creates a new empty folder in which a private Postgres can run. The caller
// removes it.
func TempDir() (string, error) { return openDir(os.TempDir(), "/var/tmp") }

const (
	memoryFolder = "/dev/shm"
	// requiredMemory is the free memory that MemoryDir requires. It is several times the
	// memory that a run of all tests needs.
	requiredMemory = 4 << 30
)

// MemoryDir is like TempDir, but creates the folder in memory if possible. Tests create
// and delete thousands of database files, and in memory this takes a third less kernel
// time. MemoryDir uses the disk if there is no memory file system, if the file system or
// the machine has less free memory than requiredMemory (as in many containers), or if
// TMPDIR is set.
func MemoryDir() (string, error) {
	if os.Getenv("TMPDIR") != "" || min(freeSpace(memoryFolder), freeMemory()) < requiredMemory {
		return TempDir()
	}
	return openDir(memoryFolder, os.TempDir(), "/var/tmp")
}

// freeSpace returns the free space of a folder's file system in bytes.
func freeSpace(dir string) uint64 {
	var room syscall.Statfs_t
	if syscall.Statfs(dir, &room) != nil {
		return 0
	}
	return room.Bavail * uint64(room.Bsize) //nolint:gosec // a block size is positive
}

// freeMemory returns the memory that is available for processes in bytes, or 0 if it is
// unknown.
func freeMemory() uint64 {
	text, _ := os.ReadFile("/proc/meminfo") // proc(5)
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	kilobytes, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseUint(kilobytes, 10, 54)
	return n << 10
}

// openDir creates a folder in the first parent in which the user postgres can reach it.
func openDir(parents ...string) (string, error) {
	for _, parent := range parents {
		dir, err := os.MkdirTemp(parent, "tributary-")
		if err != nil {
			return "", err
		}
		if err := os.Chmod(dir, 0o711); err != nil {
			return "", err
		}
		if os.Geteuid() != 0 || reachable(dir) == nil {
			return dir, nil
		}
		if err := os.Remove(dir); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("the user postgres can reach none of %s", strings.Join(parents, ", "))
}

// createAccessible creates the folder if it is missing. Other users may pass through the
// folder, but not list it. The data is in a closed folder inside it.
func createAccessible(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o711)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(dir, 0o711) // the umask may have removed bits
}

// reachable returns an error if a user without special rights cannot reach dir.
func reachable(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for p := dir; ; p = filepath.Dir(p) {
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("%s is closed to other users", p)
		}
		if p == filepath.Dir(p) {
			return nil
		}
	}
}

// lockFolder locks the folder for this process until the returned file is closed or the
// process ends. The server's pid file cannot serve as a lock, because it stays when its
// process ends and the process id may be used again.
func lockFolder(dir string) (*os.File, error) {
	path := filepath.Join(dir, "owner")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := acquireLock(f); err != nil {
		owner, _ := os.ReadFile(path)
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is in use by the running process %s", dir, strings.TrimSpace(string(owner)))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
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

// lockTimeout is how long acquireLock waits for a lock, because the kernel may need a
// moment to release the lock of a killed process.
const lockTimeout = time.Second

func acquireLock(f *os.File) error {
	for deadline := time.Now().Add(lockTimeout); ; time.Sleep(lockTimeout / 20) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) {
			return err
		}
	}
}

// reclaim cleans up dir after an earlier process that did not stop its server. This
// process must have locked dir. If the server still runs, reclaim stops it. The server
// cannot be used further, because it has the port and settings of the earlier run and is
// not a child of this process. If the process id in the pid file belongs to another
// program, reclaim removes the file, because Postgres would refuse to start.
func reclaim(ctx context.Context, dir, pidFile string, quit syscall.Signal) error {
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(pidFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 {
		return os.Remove(pidFile) // the file is incomplete
	}
	for signalled := false; alive(pid); signalled = true {
		ours, err := isServerOf(pid, dir)
		if err != nil {
			return err
		}
		if !ours {
			// A server that has just ended has removed the file itself.
			if err := os.Remove(pidFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}
		if !signalled {
			if err := syscall.Kill(pid, quit); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("stop process %d of an earlier run: %w", pid, err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d of an earlier run does not stop: %w", pid, context.Cause(ctx))
		case <-time.After(pollEvery):
		}
	}
	// Keep the pid file of a server that has ended. Postgres reads from the file which
	// shared memory belonged to that server, and checks whether children of the server
	// still use it.
	return nil
}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
