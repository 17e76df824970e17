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

// SentinelConfig configures a server that StartSentinel starts.
type SentinelConfig struct {
	// Dir is the folder of the sentinel. No other server may use it. It is created if it
	// does not exist. The sentinel stores its state there. At the next start this state
	// takes precedence over Master.
	Dir string
	// Port is the port on 127.0.0.1. Default 0: a free port, which may differ at each
	// start.
	Port int
	// Name is the name of the master for clients. Master is the port of the first master
	// on 127.0.0.1.
	Name   string
	Master int
	// Quorum is the number of sentinels that must agree that the master is down.
	Quorum int
	// TLS are the files with which the sentinel accepts only TLS connections. It uses TLS
	// to Redis and to the other sentinels too. Default nil: no TLS.
	TLS *RedisTLS
	// Log receives the output of the sentinel. Default: the output is discarded.
	Log io.Writer
}

// A private sentinel considers a master as down after two seconds, and starts another
// failover if the first failover takes longer than ten seconds. Both values are in
// milliseconds.
const (
	sentinelDownAfter       = 2000
	sentinelFailoverTimeout = 10_000
)

// StartSentinel starts a private Redis Sentinel and returns when it accepts connections.
// It may not have found the master's replicas and the other sentinels yet. ctx limits
// the start only.
func StartSentinel(ctx context.Context, cfg SentinelConfig) (*Server, error) {
	bin, err := findRedis(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, err
	}
	if err := createAccessible(cfg.Dir); err != nil {
		return nil, fmt.Errorf("sentinel: %w", err)
	}
	// A sentinel writes its state to its configuration file.
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
		s, err := launchRedis(ctx, "sentinel", RedisConfig{Dir: cfg.Dir, Port: cfg.Port, TLS: cfg.TLS, Log: cfg.Log}, []string{bin, settings, "--sentinel"})
		if err == nil {
			return s, nil
		}
		if cfg.Port != 0 || attempt == freePortAttempts || !PortTaken(err) {
			return nil, err
		}
	}
}
