package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// What proc(5) calls the memory that a process holds, and the most that it has
// held.
const (
	heldMemory = "VmRSS"
	mostMemory = "VmHWM"
)

// forgetPeak lets a process's peak of memory start anew, which its start or a
// password's hash may have driven up, and returns what it holds now, in bytes.
func forgetPeak(pid int) (float64, error) {
	const resetPeak = "5" // proc(5): VmHWM becomes VmRSS
	if err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/clear_refs", []byte(resetPeak), 0); err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return memoryOf(pid, mostMemory)
}

// memoryOf is one of the two of a process, in bytes.
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
