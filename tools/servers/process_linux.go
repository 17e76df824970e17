package servers

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// processAttributes puts a server into a process group of its own, out of reach
// of the terminal's Ctrl-C, and has the kernel stop it when we die.
func processAttributes(onDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: onDeath}
}

// worksIn says whether the live process pid is a server of folder dir. Postgres
// and Redis both make their data's folder their working directory.
func worksIn(pid int, dir string) (bool, error) {
	cwd, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
	if err != nil {
		// Gone, a zombie, or another user's process: no server of ours.
		return false, nil //nolint:nilerr // the reason does not matter
	}
	return cwd == dir, nil
}
