package redistest

import (
	"context"
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

// MonitoredPair is a private master and its replica. Three sentinels monitor them. A
// failover starts when two sentinels have received no response from the master for two
// seconds.
type MonitoredPair struct {
	// URL is the URL for clickstream.Sentinel. A client with this URL connects to the
	// current master.
	URL string
	// Master and Replica are the two servers, named by their roles at the start. A
	// failover does not change these fields.
	Master, Replica *Server
	// Sentinels contains the sentinels in the order of their addresses in URL.
	Sentinels []*Server

	t testing.TB
}

// Sentinels starts a master, a replica and their sentinels. It returns when the replica
// is connected to the master and each sentinel has found all servers, so that a failover
// is possible. When the test ends, the servers are stopped and their data is deleted.
func Sentinels(t testing.TB) *MonitoredPair {
	t.Helper()
	p := &MonitoredPair{t: t, Master: Start(t)}
	p.Replica = startRedis(t, servers.RedisConfig{Master: p.Master.port})
	for range sentinelCount {
		p.Sentinels = append(p.Sentinels, start(t, func(ctx context.Context, dir string, port int) (*servers.Server, error) {
			return servers.StartSentinel(ctx, servers.SentinelConfig{
				Dir: dir, Port: port, Name: masterName, Master: p.Master.port, Quorum: sentinelQuorum,
			})
		}))
	}
	p.URL = deploymentURL(p.Sentinels, "master_name="+masterName)
	replica := p.Replica.client()
	await(t, func(ctx context.Context) error {
		info, err := replica.InfoMap(ctx, "replication").Result()
		if err == nil && info["Replication"]["master_link_status"] != "up" {
			err = fmt.Errorf("the replica is not connected to its master: %v", info)
		}
		return err
	})
	for _, sentinel := range p.Sentinels {
		client := sentinel.sentinel()
		await(t, func(ctx context.Context) error {
			known, err := client.Master(ctx, masterName).Result()
			if err == nil && (known["num-slaves"] != "1" || known["num-other-sentinels"] != strconv.Itoa(sentinelCount-1) || known["flags"] != "master") {
				err = fmt.Errorf("a sentinel has not found all servers: %v", known)
			}
			return err
		})
	}
	return p
}

// AwaitPromotion returns when the replica has become a master.
func (p *MonitoredPair) AwaitPromotion() {
	p.t.Helper()
	replica := p.Replica.client()
	await(p.t, func(ctx context.Context) error {
		info, err := replica.InfoMap(ctx, "replication").Result()
		if err == nil && info["Replication"]["role"] != "master" {
			err = fmt.Errorf("the replica is not a master yet: %v", info)
		}
		return err
	})
}

func (s *Server) sentinel() *redis.SentinelClient {
	s.t.Helper()
	client := redis.NewSentinelClient(&redis.Options{Addr: s.addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}
