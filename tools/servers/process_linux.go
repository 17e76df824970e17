package servers

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// processAttributes returns attributes that put a server into its own process group, so
// that it does not receive the terminal's Ctrl-C. The kernel sends deathSignal to the
// server when the process that started the server ends.
func processAttributes(deathSignal syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: deathSignal}
}

// isServerOf reports whether the running process pid is the server of folder dir. The
// working directory of Postgres and of Redis is their data folder.
func isServerOf(pid int, dir string) (bool, error) {
	cwd, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
	if err != nil {
		// The process has ended, is a zombie, or belongs to another user. In all these
		// cases it is not a private server.
		return false, nil //nolint:nilerr // the reason does not matter
	}
	return cwd == dir, nil
}
