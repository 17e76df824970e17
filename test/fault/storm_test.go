package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/tools/servers"
)

// TestAShortStorm loses no click and doubles none. It draws a new seed each time;
// FAULT_SEED repeats one. `make fault` is the long form.
func TestAShortStorm(t *testing.T) {
	seed, err := seedOf(os.Getenv("FAULT_SEED"))
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
	err = storms{
		seed: seed, binaries: binaries, dir: dir, out: &report, shutdownDelay: 500 * time.Millisecond,
		scale: scale{
			length: 4 * time.Second, outage: 2 * time.Second, pause: 1500 * time.Millisecond, restart: 800 * time.Millisecond, hold: time.Second,
			collectors: 2, clients: 4, sellers: 2, endLeases: true,
		},
	}.run(t.Context())
	t.Log(report.String())
	if err != nil {
		t.Error(err)
	}
}
