package service

import "syscall"

// ChildAttributes put a process out of reach of the terminal's Ctrl-C and have the
// kernel kill it when the thread that starts it ends, with us at the latest: it is to
// be started by a goroutine that keeps its thread.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
