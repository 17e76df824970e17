package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// SentinelConfig says how StartSentinel runs its server and what it watches.
type SentinelConfig struct {
	// Dir belongs to this sentinel alone; it is made when missing. What the sentinel
	// learns is kept there, and beats Master at the next start.
	Dir string
	// Port of 127.0.0.1. Default 0: any free one, another at each start.
	Port int
	// Name is what clients call the master, Master its port of 127.0.0.1 at first.
	Name   string
	Master int
	// Quorum is how many sentinels have to find the master down.
	Quorum int
	// Log gets what the sentinel prints. Default: nobody.
	Log io.Writer
}

// A private sentinel calls a master down after two seconds, in milliseconds here,
// and gives a failover ten before it tries another.
const (
	sentinelDownAfter       = 2000
	sentinelFailoverTimeout = 10_000
)

// StartSentinel starts a private Redis Sentinel and returns when it answers; it may
// not know the master's replicas and the other sentinels yet. ctx bounds the start.
func StartSentinel(ctx context.Context, cfg SentinelConfig) (*Server, error) {
	bin, err := findRedis(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, err
	}
	if err := makeOpen(cfg.Dir); err != nil {
		return nil, fmt.Errorf("sentinel: %w", err)
	}
	// A sentinel writes what it knows into its settings.
	settings := filepath.Join(cfg.Dir, "sentinel.conf")
	if _, err := os.Stat(settings); errors.Is(err, fs.ErrNotExist) {
		text := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d\n", cfg.Name, cfg.Master, cfg.Quorum) +
			fmt.Sprintf("sentinel down-after-milliseconds %s %d\n", cfg.Name, sentinelDownAfter) +
			fmt.Sprintf("sentinel failover-timeout %s %d\n", cfg.Name, sentinelFailoverTimeout)
		if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("sentinel: %w", err)
		}
	}
	for attempt := 1; ; attempt++ {
		s, err := launchRedis(ctx, "sentinel", cfg.Dir, cfg.Port, cfg.Log, []string{bin, settings, "--sentinel"})
		if err == nil {
			return s, nil
		}
		if cfg.Port != 0 || attempt == freePortAttempts || !PortTaken(err) {
			return nil, err
		}
	}
}
