package servers

import (
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func portOf(t *testing.T, s *Server) int {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestStartRedis_ClusterNodeKeepsBusPortAndSlots(t *testing.T) {
	t.Parallel()
	bus, err := choosePort("test", 0)
	if err != nil {
		t.Fatal(err)
	}
	cfg := RedisConfig{Dir: tempDir(t), Durable: true, Cluster: true, BusPort: bus}
	s := startTestRedis(t, cfg)
	ctx := contextWithin(t, time.Minute)
	if err := client(t, s).ClusterAddSlotsRange(ctx, 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	cfg.Port = portOf(t, s)
	stop(t, s)
	c := client(t, startTestRedis(t, cfg))
	if info, err := c.ClusterInfo(ctx).Result(); err != nil || !strings.Contains(info, "cluster_slots_assigned:16384") {
		t.Errorf("cluster info after the restart = %q, %v; want all slots", info, err)
	}
	for setting, want := range map[string]string{
		"cluster-port": strconv.Itoa(bus), "cluster-require-full-coverage": "no", "appendfsync": "always",
	} {
		if got, err := c.ConfigGet(ctx, setting).Result(); err != nil || got[setting] != want {
			t.Errorf("%s = %q, %v; want %q", setting, got[setting], err, want)
		}
	}
}

func TestStartSentinel_KeepsMasterAcrossRestart(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	master := startTestRedis(t, RedisConfig{Dir: filepath.Join(dir, "master")})
	replica := startTestRedis(t, RedisConfig{Dir: filepath.Join(dir, "replica"), Master: portOf(t, master)})
	ctx := contextWithin(t, time.Minute)
	if info, err := client(t, replica).InfoMap(ctx, "replication").Result(); err != nil || info["Replication"]["role"] != "slave" {
		t.Errorf("replication info = %v, %v; want the role slave", info, err)
	}
	cfg := SentinelConfig{Dir: filepath.Join(dir, "sentinel"), Name: "clicks", Master: portOf(t, master), Quorum: 1}
	for range 2 {
		s, err := StartSentinel(ctx, cfg)
		s = start(t, s, err)
		sentinel := redis.NewSentinelClient(&redis.Options{Addr: client(t, s).Options().Addr})
		t.Cleanup(func() { _ = sentinel.Close() })
		known, err := sentinel.Master(ctx, "clicks").Result()
		if err != nil || known["port"] != strconv.Itoa(portOf(t, master)) || known["down-after-milliseconds"] != strconv.Itoa(sentinelDownAfter) || known["quorum"] != "1" {
			t.Errorf("the sentinel's master = %v, %v; want port %d", known, err, portOf(t, master))
		}
		stop(t, s)
		// The second start ignores this master, because the sentinel has stored the first
		// master.
		cfg.Master, cfg.Port = 1, portOf(t, s)
	}
}
