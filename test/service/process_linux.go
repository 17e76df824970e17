package service

import "syscall"

// ChildAttributes returns attributes that protect a child process from the terminal's
// Ctrl-C. The kernel kills the child when the thread that started it ends, at the latest
// when this process ends. So the goroutine that starts the child must lock its thread.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
