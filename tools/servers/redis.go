package servers

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// redisDatabases is the number of logical databases of a private Redis. It is enough for
// all tests that run in parallel.
const redisDatabases = 256

// healthCheckTimeout is the time limit of one health check.
const healthCheckTimeout = time.Second

// clusterNodeTimeout is the time in milliseconds after which the nodes of a cluster
// consider a node as down.
const clusterNodeTimeout = "3000"

// RedisConfig configures a server that StartRedis starts.
type RedisConfig struct {
	// Dir is the folder of the server. No other server may use it. It is created if it
	// does not exist.
	Dir string
	// Port is the port on 127.0.0.1. Default 0: a free port, which may differ at each
	// start.
	Port int
	// Durable writes each command to disk before it is acknowledged. The default is
	// false: nothing is written to disk, and the data is lost when the server ends.
	Durable bool
	// Cluster makes the server a node of a Redis Cluster. At its first start the node
	// has no slots and knows no other node. Later starts continue with the stored state.
	// The other nodes keep serving their slots while a node is down.
	Cluster bool
	// BusPort is the port on 127.0.0.1 for the communication between the nodes of a
	// cluster. Default 0: a free port.
	BusPort int
	// Master is the port of a master on 127.0.0.1. The server starts as its replica.
	// Default 0: the server is a master.
	Master int
	// TLS are the files with which the server accepts only TLS connections. It uses TLS to
	// its master and to other nodes of a cluster too. Default nil: no TLS.
	TLS *RedisTLS
	// Log receives the output of Redis. Default: the output is discarded.
	Log io.Writer
}

// RedisTLS are the paths of the TLS files of a Redis or a sentinel, in PEM format.
type RedisTLS struct {
	// Certificate and Key are shown to clients and to other servers.
	Certificate, Key string
	// Authority signs the certificates of the other servers.
	Authority string
}

// arguments returns the arguments of the server for a port. The receiver may be nil.
// Clients need no certificate, but the servers of a deployment show theirs to each other.
func (f *RedisTLS) arguments(port int) []string {
	if f == nil {
		return []string{"--port", strconv.Itoa(port)}
	}
	return []string{
		"--port", "0", "--tls-port", strconv.Itoa(port), "--tls-cert-file", f.Certificate, "--tls-key-file", f.Key, "--tls-ca-cert-file", f.Authority,
		"--tls-auth-clients", "no", "--tls-replication", "yes", "--tls-cluster", "yes",
	}
}

// StartRedis starts a private Redis (or Valkey) and returns when it accepts connections
// and has loaded its data. ctx limits the start only; the server keeps running when ctx
// ends. The server has no memory limit and never evicts keys.
//
// StartRedis returns an error if another live process runs a server in the folder. If the
// process that used the folder before has ended without stopping its server, StartRedis
// cleans up the folder (see reclaim).
func StartRedis(ctx context.Context, cfg RedisConfig) (*Server, error) {
	bin, err := findRedis(ctx)
	if err != nil {
		return nil, err
	}
	// Redis runs inside the folder, where a relative path would have another meaning.
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, err
	}
	if err := createAccessible(cfg.Dir); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	for attempt := 1; ; attempt++ {
		s, err := startRedis(ctx, bin, cfg)
		if err == nil {
			return s, nil
		}
		if cfg.Port != 0 || attempt == freePortAttempts || !PortTaken(err) {
			return nil, err
		}
	}
}

func startRedis(ctx context.Context, bin string, cfg RedisConfig) (*Server, error) {
	appendOnly := "no"
	if cfg.Durable {
		appendOnly = "yes"
	}
	argv := []string{
		bin, "--databases", strconv.Itoa(redisDatabases), "--appendonly", appendOnly, "--appendfsync", "always",
		"--save", "", "--maxmemory-policy", "noeviction",
		// The copy for a replica starts at once instead of waiting for more replicas.
		"--repl-diskless-sync-delay", "0",
	}
	if cfg.Cluster {
		// The bus port is chosen separately. The default is the port plus 10,000, which
		// may be in use or not exist.
		bus, err := choosePort("redis", cfg.BusPort)
		if err != nil {
			return nil, err
		}
		argv = append(argv, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus),
			"--cluster-node-timeout", clusterNodeTimeout, "--cluster-require-full-coverage", "no")
	}
	if cfg.Master != 0 {
		argv = append(argv, "--replicaof", "127.0.0.1", strconv.Itoa(cfg.Master))
	}
	return launchRedis(ctx, "redis", cfg, argv)
}

// launchRedis locks the folder of cfg, starts argv (a Redis or a sentinel) in it, and
// returns when the process accepts connections. It adds the arguments that every such
// process needs. It uses the fields Dir, Port, TLS and Log of cfg.
func launchRedis(ctx context.Context, name string, cfg RedisConfig, argv []string) (*Server, error) {
	lock, err := lockFolder(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	pidFile := filepath.Join(cfg.Dir, "redis.pid")
	if err := reclaim(ctx, cfg.Dir, pidFile, syscall.SIGTERM); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), lock.Close())
	}
	port, err := choosePort(name, cfg.Port)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	argv = append(argv, cfg.TLS.arguments(port)...)
	s, err := launch(command{
		name:        name,
		argv:        append(argv, "--bind", "127.0.0.1", "--dir", cfg.Dir, "--pidfile", pidFile, "--daemonize", "no"),
		dir:         cfg.Dir,
		log:         cfg.Log,
		lock:        lock,
		stopSignal:  syscall.SIGTERM,
		forceSignal: syscall.SIGKILL,
	})
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s.URL = "redis://" + addr + "/0"
	if cfg.TLS != nil {
		s.URL = "rediss://" + addr + "/0"
	}
	return s, s.await(ctx, func() bool { return redisReady(addr, s.Pid, cfg.TLS != nil) })
}

// redisReady reports whether the server at addr is the process pid and has loaded its
// data. The process id is checked because another server may have taken the port. While
// Redis loads its data, it replies to PING with an error.
func redisReady(addr string, pid int, withTLS bool) bool {
	conn, err := net.DialTimeout("tcp", addr, healthCheckTimeout) //nolint:noctx // bounded by its own timeout
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(healthCheckTimeout)); err != nil {
		return false
	}
	if withTLS {
		// The certificate need not be valid, because the process id identifies the server.
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // #nosec G402
	}
	if _, err := io.WriteString(conn, "PING\r\nINFO server\r\n"); err != nil {
		return false
	}
	r := bufio.NewReader(conn)
	if pong, err := r.ReadString('\n'); err != nil || pong != "+PONG\r\n" {
		return false
	}
	size, err := r.ReadString('\n')
	if err != nil || !strings.HasPrefix(size, "$") {
		return false
	}
	n, err := strconv.Atoi(strings.TrimSpace(size[1:]))
	if err != nil {
		return false
	}
	info := make([]byte, n)
	if _, err := io.ReadFull(r, info); err != nil {
		return false
	}
	return strings.Contains(string(info), fmt.Sprintf("\r\nprocess_id:%d\r\n", pid))
}
