//go:build !linux

package service

import "syscall"

// ChildAttributes returns attributes that protect a child process from the terminal's
// Ctrl-C. On this platform the child keeps running if this process is killed.
func ChildAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
