// Package redis tests the configuration of Redis in this folder.
package redis

import (
	"bytes"
	"log/slog"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/tools/servers"
)

// A Redis with this configuration starts, and the programs warn about none of its settings.
func TestConfiguration(t *testing.T) {
	free, err := servers.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(free[0])
	if err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	server := exec.CommandContext(t.Context(), "redis-server", "redis.conf", "--port", port, "--dir", t.TempDir())
	server.Stdout, server.Stderr = &output, &output
	server.WaitDelay = time.Second
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	client := redis.NewClient(&redis.Options{Addr: free[0], MaxRetries: 100, MinRetryBackoff: 50 * time.Millisecond, MaxRetryBackoff: 100 * time.Millisecond})
	defer func() { _ = client.Close() }()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	settings, err := client.ConfigGet(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if settings["maxmemory"] != "2147483648" || settings["save"] != "" {
		t.Errorf("maxmemory is %s and save %q", settings["maxmemory"], settings["save"])
	}
	var log strings.Builder
	clickstream.CheckDurability(t.Context(), client, slog.New(slog.NewTextHandler(&log, nil)))
	if log.Len() > 0 {
		t.Errorf("the programs warn: %s", log.String())
	}
}
