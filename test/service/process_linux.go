package service

import "syscall"

// ChildAttributes put a process out of reach of the terminal's Ctrl-C and have the
// kernel kill it when we die.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
