package redistest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/tools/servers"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
	// readyTimeout bounds the wait until servers that make one whole know each other.
	readyTimeout = time.Minute
	readyEvery   = 20 * time.Millisecond
)

// NodeCluster is a private Redis Cluster of three masters without replicas: what a
// node has is away while the node is.
type NodeCluster struct {
	// URL leads to it as clickstream.Cluster wants it: one node, and the others as addr.
	URL string
	// Nodes stay the same, and keep their slots, across a Restart.
	Nodes []*Server

	t testing.TB
}

// Cluster starts a private Redis Cluster that ends, and whose data is forgotten, with
// the test, and returns when every node finds it well. A node that is down does not
// stop the others.
func Cluster(t testing.TB) *NodeCluster {
	t.Helper()
	c := &NodeCluster{t: t}
	for range clusterMasters {
		c.Nodes = append(c.Nodes, startNode(t))
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	for i, node := range c.Nodes {
		client := node.client()
		first, last := i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters-1
		if err := client.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
			t.Fatalf("redistest: slots of node %d: %v", i, err)
		}
		for _, other := range c.Nodes[:i] {
			// The client's own call leaves out the port of the bus.
			if err := client.Do(ctx, "cluster", "meet", "127.0.0.1", other.port, other.bus).Err(); err != nil {
				t.Fatalf("redistest: node %d meets another: %v", i, err)
			}
		}
	}
	c.URL = urlOf(c.Nodes)
	c.AwaitWell()
	return c
}

// startNode starts a node that keeps the port of its bus across restarts, where the
// others look for it.
func startNode(t testing.TB) *Server {
	t.Helper()
	var s *Server
	s = start(t, func(ctx context.Context, dir string, port int) (*servers.Server, error) {
		cfg := servers.RedisConfig{Dir: dir, Port: port, Durable: true, Cluster: true}
		if s != nil {
			cfg.BusPort = s.bus
		}
		return servers.StartRedis(ctx, cfg)
	})
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	// <id> <host>:<port>@<bus> myself,master …
	nodes, err := s.client().ClusterNodes(ctx).Result()
	_, rest, _ := strings.Cut(nodes, "@")
	bus, _, _ := strings.Cut(rest, " ")
	if err == nil {
		s.bus, err = strconv.Atoi(bus)
	}
	if err != nil {
		t.Fatalf("redistest: the bus port of a node: %v", err)
	}
	return s
}

// AwaitWell returns when every running node knows all of them and finds the cluster
// well, and fails the test when that takes longer than a minute.
func (c *NodeCluster) AwaitWell() {
	c.t.Helper()
	for i, node := range c.Nodes {
		if node.running == nil {
			continue
		}
		client := node.client()
		await(c.t, func(ctx context.Context) error {
			info, err := client.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			for _, wanted := range []string{"cluster_state:ok", "cluster_known_nodes:" + strconv.Itoa(len(c.Nodes)), "cluster_slots_assigned:" + strconv.Itoa(clusterSlots)} {
				if !strings.Contains(info, wanted) {
					return fmt.Errorf("node %d: no %s in %q", i, wanted, info)
				}
			}
			return nil
		})
	}
}

// Owner is the node that has a key.
func (c *NodeCluster) Owner(key string) *Server {
	c.t.Helper()
	for _, node := range c.Nodes {
		if node.running == nil {
			continue
		}
		slot, err := node.client().ClusterKeySlot(c.t.Context(), key).Result()
		if err != nil {
			c.t.Fatalf("redistest: slot of %s: %v", key, err)
		}
		for i, owner := range c.Nodes {
			if int(slot) < (i+1)*clusterSlots/clusterMasters {
				return owner
			}
		}
	}
	c.t.Fatal("redistest: no node runs")
	return nil
}

// await asks until there is nothing left to complain of.
func await(t testing.TB, complaint func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	for {
		err := complaint(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("redistest: not ready within %s: %v", readyTimeout, err)
		case <-time.After(readyEvery):
		}
	}
}

// urlOf names several servers as the client library's URLs do.
func urlOf(all []*Server, parameters ...string) string {
	for _, server := range all[1:] {
		parameters = append(parameters, "addr="+server.addr())
	}
	return "redis://" + all[0].addr() + "?" + strings.Join(parameters, "&")
}

func (s *Server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// client is one of this server alone. It is closed with the test.
func (s *Server) client() *redis.Client {
	s.t.Helper()
	// One try each, within the call's context: a dead server is to be seen at once.
	client := redis.NewClient(&redis.Options{Addr: s.addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}
