package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// mountSmallDisk mounts a file system of size bytes at dir. It needs root, and it fails
// in some containers.
func mountSmallDisk(dir string, size int) error {
	return syscall.Mount("tributary-fault", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, fmt.Sprintf("size=%d,mode=700", size))
}

func unmount(dir string) error {
	err := syscall.Unmount(dir, 0)
	if errors.Is(err, syscall.EBUSY) {
		err = syscall.Unmount(dir, syscall.MNT_DETACH)
	}
	return err
}

// fill writes a file until the disk of dir is full. The function release deletes the
// file again.
func fill(dir string) (release func() error, err error) {
	path := filepath.Join(dir, "filler")
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = file.Write(block)
	}
	for err = nil; err == nil; { // fill the rest of the last block
		_, err = file.Write(block[:1])
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return nil, errors.Join(err, file.Close(), os.Remove(path))
	}
	return func() error { return os.Remove(path) }, file.Close()
}

// closedByPeer reports, without blocking, whether the server closed an idle connection.
func closedByPeer(conn syscall.Conn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = !errors.Is(err, syscall.EAGAIN) || n > 0
		return true
	})
	return err != nil || closed
}
