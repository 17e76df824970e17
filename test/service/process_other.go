//go:build !linux

package service

import "syscall"

// ChildAttributes put a process out of reach of the terminal's Ctrl-C. Without Linux
// it outlives us when we are killed.
func ChildAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
