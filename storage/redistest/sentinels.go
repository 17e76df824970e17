package redistest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/tools/servers"
)

const (
	masterName     = "tributary"
	sentinelCount  = 3
	sentinelQuorum = 2
)

// MonitoredMaster is a private master with its replicas. Three sentinels monitor them. A
// failover starts when two sentinels have received no response from the master for two
// seconds.
type MonitoredMaster struct {
	// URL is the URL for clickstream.Sentinel. A client with this URL connects to the
	// current master.
	URL string
	// Master and Replicas are named by their roles at the start. A failover does not change
	// these fields.
	Master   *Server
	Replicas []*Server
	// Sentinels contains the sentinels in the order of their addresses in URL.
	Sentinels []*Server

	t testing.TB
}

// Sentinels starts a master, a replica and their sentinels. It returns when the replica
// is connected to the master and each sentinel has found all servers, so that a failover
// is possible. When the test ends, the servers are stopped and their data is deleted.
func Sentinels(t testing.TB) *MonitoredMaster {
	t.Helper()
	return SentinelsWith(t, Config{})
}

// SentinelsWith starts a master, its replicas and their sentinels as Sentinels does.
func SentinelsWith(t testing.TB, cfg Config) *MonitoredMaster {
	t.Helper()
	p := &MonitoredMaster{t: t, Master: StartWith(t, cfg)}
	for range max(1, cfg.Replicas) {
		p.Replicas = append(p.Replicas, startRedis(t, cfg.Authority, cfg.hosts(), servers.RedisConfig{Master: p.Master.port}))
	}
	// The replicas are connected before the sentinels start, because a sentinel looks for new ones only every 10 s.
	for _, server := range p.Replicas {
		replica := server.client()
		await(t, func(ctx context.Context) error {
			info, err := replica.InfoMap(ctx, "replication").Result()
			if err == nil && info["Replication"]["master_link_status"] != "up" {
				err = fmt.Errorf("the replica is not connected to its master: %v", info)
			}
			return err
		})
	}
	for range sentinelCount {
		p.Sentinels = append(p.Sentinels, start(t, cfg.Authority, cfg.sentinelHosts(), func(ctx context.Context, dir string, port int, files *servers.RedisTLS) (*servers.Server, error) {
			return servers.StartSentinel(ctx, servers.SentinelConfig{
				Dir: dir, Port: port, Name: masterName, Master: p.Master.port, Quorum: sentinelQuorum, TLS: files,
			})
		}))
	}
	p.URL = deploymentURL(p.Sentinels, "master_name="+masterName)
	for _, sentinel := range p.Sentinels {
		client := sentinel.sentinel()
		await(t, func(ctx context.Context) error {
			known, err := client.Master(ctx, masterName).Result()
			if err == nil && (known["num-slaves"] != strconv.Itoa(len(p.Replicas)) || known["num-other-sentinels"] != strconv.Itoa(sentinelCount-1) || known["flags"] != "master") {
				err = fmt.Errorf("a sentinel has not found all servers: %v", known)
			}
			return err
		})
	}
	return p
}

// AwaitPromotion returns when a replica has become a master. The result is this server.
func (p *MonitoredMaster) AwaitPromotion() *Server {
	p.t.Helper()
	clients := make([]*redis.Client, len(p.Replicas))
	for i, replica := range p.Replicas {
		clients[i] = replica.client()
	}
	var promoted *Server
	await(p.t, func(ctx context.Context) error {
		for i, client := range clients {
			info, err := client.InfoMap(ctx, "replication").Result()
			if err != nil {
				return err
			}
			if info["Replication"]["role"] == "master" {
				promoted = p.Replicas[i]
				return nil
			}
		}
		return errors.New("no replica is a master yet")
	})
	return promoted
}

func (s *Server) sentinel() *redis.SentinelClient {
	s.t.Helper()
	client := redis.NewSentinelClient(&redis.Options{Addr: s.addr(), TLSConfig: s.tls, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}
