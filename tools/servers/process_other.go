//go:build !linux

package servers

import (
	"fmt"
	"syscall"
)

// processAttributes returns attributes that put a server into its own process group, so
// that it does not receive the terminal's Ctrl-C. On this platform the server keeps
// running if the process that started it is killed.
func processAttributes(syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// isServerOf always returns an error that says what to do. A server is recognised by its
// working directory, which cannot be found on this platform.
func isServerOf(pid int, dir string) (bool, error) {
	return false, fmt.Errorf("process %d may still be the server of %s: stop it, or remove the pid file if the process is another program", pid, dir)
}
