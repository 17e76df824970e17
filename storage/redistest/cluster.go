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
	// readyTimeout limits the wait until the servers of a deployment are connected to
	// each other.
	readyTimeout  = time.Minute
	readyInterval = 20 * time.Millisecond
)

// NodeCluster is a private Redis Cluster of three masters without replicas. While a node
// is down, its keys are not available.
type NodeCluster struct {
	// URL is the URL for clickstream.Cluster. It contains the address of one node and the
	// other nodes in the parameter addr.
	URL string
	// Nodes are the masters. A node keeps its slots and its address after a Restart.
	Nodes []*Server

	t testing.TB
}

// Cluster starts a private Redis Cluster and returns when the cluster is healthy. When
// the test ends, the cluster is stopped and its data is deleted. If a node is down, the
// other nodes keep working.
func Cluster(t testing.TB) *NodeCluster {
	t.Helper()
	return ClusterWith(t, Config{})
}

// ClusterWith starts a private Redis Cluster as Cluster does.
func ClusterWith(t testing.TB, cfg Config) *NodeCluster {
	t.Helper()
	c := &NodeCluster{t: t}
	for range clusterMasters {
		c.Nodes = append(c.Nodes, startNode(t, cfg))
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	for i, node := range c.Nodes {
		client := node.client()
		first, last := i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters-1
		if err := client.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
			t.Fatalf("redistest: assign slots to node %d: %v", i, err)
		}
		for _, other := range c.Nodes[:i] {
			// The method ClusterMeet of the client does not send the bus port.
			if err := client.Do(ctx, "cluster", "meet", "127.0.0.1", other.port, other.busPort).Err(); err != nil {
				t.Fatalf("redistest: connect node %d to another node: %v", i, err)
			}
		}
	}
	c.URL = deploymentURL(c.Nodes)
	c.AwaitHealthy()
	return c
}

// startNode starts a node of a cluster. The other nodes connect to its bus port, so the
// node uses the same bus port again after a restart.
func startNode(t testing.TB, cfg Config) *Server {
	t.Helper()
	var s *Server
	s = start(t, cfg.Authority, cfg.hosts(), func(ctx context.Context, dir string, port int, files *servers.RedisTLS) (*servers.Server, error) {
		cfg := servers.RedisConfig{Dir: dir, Port: port, Durable: true, Cluster: true, TLS: files}
		if s != nil {
			cfg.BusPort = s.busPort
		}
		return servers.StartRedis(ctx, cfg)
	})
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	// A new node knows only itself, so the response is one line. Its format is:
	// <id> <host>:<port>@<bus port> myself,master …
	nodes, err := s.client().ClusterNodes(ctx).Result()
	_, rest, _ := strings.Cut(nodes, "@")
	bus, _, _ := strings.Cut(rest, " ")
	if err == nil {
		s.busPort, err = strconv.Atoi(bus)
	}
	if err != nil {
		t.Fatalf("redistest: read the bus port of a node: %v", err)
	}
	return s
}

// AwaitHealthy returns when every running node knows all nodes and reports that the
// cluster is healthy. It fails the test if this takes longer than a minute.
func (c *NodeCluster) AwaitHealthy() {
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
			for _, line := range []string{"cluster_state:ok", "cluster_known_nodes:" + strconv.Itoa(len(c.Nodes)), "cluster_slots_assigned:" + strconv.Itoa(clusterSlots)} {
				if !strings.Contains(info, line) {
					return fmt.Errorf("node %d: CLUSTER INFO does not contain %s: %q", i, line, info)
				}
			}
			return nil
		})
	}
}

// Owner returns the node that owns the slot of a key.
func (c *NodeCluster) Owner(key string) *Server {
	c.t.Helper()
	for _, node := range c.Nodes {
		if node.running == nil {
			continue
		}
		slot, err := node.client().ClusterKeySlot(c.t.Context(), key).Result()
		if err != nil {
			c.t.Fatalf("redistest: find the slot of %s: %v", key, err)
		}
		for i, owner := range c.Nodes {
			if int(slot) < (i+1)*clusterSlots/clusterMasters {
				return owner
			}
		}
	}
	c.t.Fatal("redistest: no node of the cluster is running")
	return nil
}

// await calls check until it returns no error. It fails the test after readyTimeout.
func await(t testing.TB, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("redistest: the deployment was not ready within %s: %v", readyTimeout, err)
		case <-time.After(readyInterval):
		}
	}
}

// deploymentURL returns the URL of a deployment with several servers, in the format of
// the client library.
func deploymentURL(nodes []*Server, parameters ...string) string {
	for _, server := range nodes[1:] {
		parameters = append(parameters, "addr="+server.addr())
	}
	scheme, _, _ := strings.Cut(nodes[0].URL, ":")
	return scheme + "://" + nodes[0].addr() + "?" + strings.Join(parameters, "&")
}

func (s *Server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// client returns a client that connects only to this server. The client is closed when
// the test ends.
func (s *Server) client() *redis.Client {
	s.t.Helper()
	// Without retries, a command to a dead server fails at once.
	client := redis.NewClient(&redis.Options{Addr: s.addr(), TLSConfig: s.tls, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}
