//go:build !linux

package servers

import (
	"fmt"
	"syscall"
)

// processAttributes puts a server into a process group of its own, out of reach
// of the terminal's Ctrl-C. Without Linux it outlives a killed owner.
func processAttributes(syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// worksIn cannot tell here, so a person has to.
func worksIn(pid int, dir string) (bool, error) {
	return false, fmt.Errorf("process %d may still be the server of %s: stop it, or remove the pid file when it is another program", pid, dir)
}
