package service

import "syscall"

// ChildAttributes returns attributes with which Ctrl-C in the terminal does not stop a
// child process. With these attributes the kernel kills the child when the thread that
// started the child ends, at the latest when this process ends. So the goroutine that
// starts the child must lock its thread.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
