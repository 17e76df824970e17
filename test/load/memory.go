package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// These constants are fields of /proc/<pid>/status (see proc(5)): the current and the
// peak resident memory of a process.
const (
	currentMemory = "VmRSS"
	peakMemory    = "VmHWM"
)

// resetPeak resets the peak memory of a process, so that the peak does not include the
// start of the process or the calculation of a password hash. It returns the current
// memory in bytes.
func resetPeak(pid int) (float64, error) {
	const resetHWM = "5" // proc(5): sets VmHWM to VmRSS
	if err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/clear_refs", []byte(resetHWM), 0); err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return memoryOf(pid, peakMemory)
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
