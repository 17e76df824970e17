package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Fields of /proc/<pid>/status (see proc(5)): the current resident memory of a process,
// and its peak.
const (
	heldMemory = "VmRSS"
	mostMemory = "VmHWM"
)

// forgetPeak resets the peak memory of a process, because its start or a password hash
// may have raised it. It returns the current memory in bytes.
func forgetPeak(pid int) (float64, error) {
	const resetPeak = "5" // proc(5): VmHWM becomes VmRSS
	if err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/clear_refs", []byte(resetPeak), 0); err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return memoryOf(pid, mostMemory)
}

// memoryOf returns a memory field of a process in bytes.
func memoryOf(pid int, which string) (float64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, which+":"); ok {
			kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kilobytes * 1024, err
		}
	}
	return 0, fmt.Errorf("memory: no %s", which)
}
