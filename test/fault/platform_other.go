//go:build !linux

package main

import (
	"errors"
	"syscall"
)

func mountSmallDisk(string, int) error { return errors.New("only on Linux") }

func unmount(string) error { return nil }

func fill(string) (func() error, error) { return nil, errors.New("only on Linux") }

// closedByPeer always returns false on this platform. So a storm may report "cut off by
// a graceful stop" although the collector behaved correctly.
func closedByPeer(syscall.Conn) bool { return false }
