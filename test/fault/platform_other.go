//go:build !linux

package main

import (
	"errors"
	"syscall"
)

func mountSmallDisk(string, int) error { return errors.New("only on Linux") }

func unmount(string) error { return nil }

func fill(string) (func() error, error) { return nil, errors.New("only on Linux") }

// closedByPeer cannot tell here: a storm may then blame a stopping collector.
func closedByPeer(syscall.Conn) bool { return false }
