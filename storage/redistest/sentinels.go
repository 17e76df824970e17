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
	sentinels      = 3
	sentinelQuorum = 2
)

// WatchedPair is a private master and its replica, watched by three sentinels of
// which two decide. They call a master down after two seconds.
type WatchedPair struct {
	// URL leads to whichever is the master, as clickstream.Sentinel wants it.
	URL string
	// Master and Replica are what the two were at first.
	Master, Replica *Server
	// Sentinels in the order of the URL.
	Sentinels []*Server

	t testing.TB
}

// Sentinels starts a master, a replica and their sentinels, which end, and whose data
// is forgotten, with the test, and returns when a failover would succeed.
func Sentinels(t testing.TB) *WatchedPair {
	t.Helper()
	p := &WatchedPair{t: t, Master: Start(t)}
	p.Replica = startRedis(t, servers.RedisConfig{Master: p.Master.port})
	for range sentinels {
		p.Sentinels = append(p.Sentinels, start(t, func(ctx context.Context, dir string, port int) (*servers.Server, error) {
			return servers.StartSentinel(ctx, servers.SentinelConfig{
				Dir: dir, Port: port, Name: masterName, Master: p.Master.port, Quorum: sentinelQuorum,
			})
		}))
	}
	p.URL = urlOf(p.Sentinels, "master_name="+masterName)
	replica := p.Replica.client()
	await(t, func(ctx context.Context) error {
		info, err := replica.InfoMap(ctx, "replication").Result()
		if err == nil && info["Replication"]["master_link_status"] != "up" {
			err = fmt.Errorf("the replica has no link: %v", info)
		}
		return err
	})
	for _, sentinel := range p.Sentinels {
		client := sentinel.sentinel()
		await(t, func(ctx context.Context) error {
			known, err := client.Master(ctx, masterName).Result()
			if err == nil && (known["num-slaves"] != "1" || known["num-other-sentinels"] != strconv.Itoa(sentinels-1) || known["flags"] != "master") {
				err = fmt.Errorf("a sentinel knows %v", known)
			}
			return err
		})
	}
	return p
}

// AwaitPromotion returns when the replica has become a master.
func (p *WatchedPair) AwaitPromotion() {
	p.t.Helper()
	replica := p.Replica.client()
	await(p.t, func(ctx context.Context) error {
		info, err := replica.InfoMap(ctx, "replication").Result()
		if err == nil && info["Replication"]["role"] != "master" {
			err = fmt.Errorf("the replica is none yet: %v", info)
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
