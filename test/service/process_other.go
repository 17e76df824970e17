//go:build !linux

package service

import "syscall"

// ChildAttributes returns attributes with which Ctrl-C in the terminal does not stop a
// child process. On this platform the child keeps running if this process is killed.
func ChildAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
