package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/tools/servers"
)

// TestStorm_Short runs a storm of a few seconds. The seed is random if FAULT_SEED is not
// set. `make fault` runs a long storm.
func TestStorm_Short(t *testing.T) {
	seed, err := parseSeed(os.Getenv("FAULT_SEED"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d", seed)
	binaries := t.TempDir()
	if err := build(t.Context(), binaries); err != nil {
		t.Fatal(err)
	}
	dir, err := servers.MemoryDir()
	if err != nil {
		t.Fatal(err)
	}
	var report strings.Builder
	err = config{
		seed: seed, binaries: binaries, dir: dir, out: &report, shutdownDelay: 500 * time.Millisecond,
		scale: scale{
			length: 4 * time.Second, outage: 2 * time.Second, maxPause: 1500 * time.Millisecond, maxRestart: 800 * time.Millisecond, maxOther: time.Second,
			collectors: 2, clients: 4, sellers: 2, endLeases: true,
		},
	}.run(t.Context())
	t.Log(report.String())
	if err != nil {
		t.Errorf("the storm with the seed %d has failed: %v", seed, err)
	}
}
