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

// DataDir returns the folder to keep a server's data in, and makes it. It is
// preferred wherever the server can work there. Root cannot run Postgres, the
// user postgres does it instead, and that user reaches nothing below a closed
// folder such as a home of mode 0700; the answer is then a folder of /var/tmp
// whose name follows from preferred, so that every run finds the same one.
//
// Only the permission bits are read, not access control lists.
func DataDir(preferred string) (string, error) {
	preferred, err := filepath.Abs(preferred)
	if err != nil {
		return "", err
	}
	if err := makeOpen(preferred); err != nil {
		return "", err
	}
	if os.Geteuid() != 0 || reachable(preferred) == nil {
		return preferred, nil
	}
	sum := sha256.Sum256([]byte(preferred))
	fallback := fmt.Sprintf("/var/tmp/tributary-%s-%x", filepath.Base(preferred), sum[:6])
	if err := makeOpen(fallback); err != nil {
		return "", err
	}
	// Anyone may write to /var/tmp: a folder that another user put there first
	// would be his to change under us.
	info, err := os.Lstat(fallback)
	if err != nil {
		return "", err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || owner.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s is not a folder that belongs to root alone: remove it", fallback)
	}
	return fallback, nil
}

// TempDir makes a new empty folder that a private Postgres can work in. The
// caller removes it.
func TempDir() (string, error) { return openDir(os.TempDir(), "/var/tmp") }

const (
	memory = "/dev/shm"
	// roomInMemory is what has to be free: some times what a run of all tests takes.
	roomInMemory = 4 << 30
)

// MemoryDir is TempDir in the machine's memory, for what may be lost with it; on
// disk where there is no such place, or too little room, as in many containers, and
// where TMPDIR asks for another one. A database whose files come and go by the
// thousand takes a third of the kernel's time there.
func MemoryDir() (string, error) {
	if os.Getenv("TMPDIR") != "" || min(roomIn(memory), freeMemory()) < roomInMemory {
		return TempDir()
	}
	return openDir(memory, os.TempDir(), "/var/tmp")
}

// roomIn is what may still be written to a folder's file system, in bytes.
func roomIn(dir string) uint64 {
	var room syscall.Statfs_t
	if syscall.Statfs(dir, &room) != nil {
		return 0
	}
	return room.Bavail * uint64(room.Bsize) //nolint:gosec // a block's size is above zero
}

// freeMemory is what processes may still take, in bytes; 0 where nobody says.
func freeMemory() uint64 {
	text, _ := os.ReadFile("/proc/meminfo") // proc(5)
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	kilobytes, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseUint(kilobytes, 10, 54)
	return n << 10
}

// openDir tries one parent after the other.
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
	return "", fmt.Errorf("none of %s is open to the user postgres", strings.Join(parents, ", "))
}

// makeOpen makes the folder when it is missing. Others may pass through, not
// list it: the data's own folder inside is closed.
func makeOpen(dir string) error {
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
	return os.Chmod(dir, 0o711) // whatever the umask took away
}

// reachable returns nil when every folder down to dir lets any user through.
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

// lockFolder takes the folder for this process until the returned file is
// closed or the process dies. The lock and not the server's pid file says who
// owns the folder: a pid file outlives its process and its number is reused.
func lockFolder(dir string) (*os.File, error) {
	path := filepath.Join(dir, "owner")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := takeLock(f); err != nil {
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

// lockPatience is how long the kernel may take to end the lock of an owner that
// was killed a moment ago.
const lockPatience = time.Second

func takeLock(f *os.File) error {
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(lockPatience / 20) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) {
			return err
		}
	}
}

// reclaim clears what a dead owner left behind in a locked folder. A server that
// still runs from dir is stopped and not adopted: its port and settings are those
// of a run that is over, and nobody would stop it after us. A pid file whose
// number now belongs to another program is removed, because Postgres would
// refuse to start beside it.
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
		return os.Remove(pidFile) // cut short while it was written
	}
	for signalled := false; alive(pid); signalled = true {
		ours, err := worksIn(pid, dir)
		if err != nil {
			return err
		}
		if !ours {
			// A server that ended while we looked has removed it itself.
			if err := os.Remove(pidFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}
		if !signalled {
			if err := syscall.Kill(pid, quit); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("stop the left over process %d: %w", pid, err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the left over process %d does not stop: %w", pid, context.Cause(ctx))
		case <-time.After(pollEvery):
		}
	}
	// The pid file of a dead server stays: Postgres reads in it which shared
	// memory to look for, in case its children are still at work.
	return nil
}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
