package servers

import (
	"bufio"
	"context"
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

// redisDatabases is the number of logical databases of a private Redis: enough
// for each test of a parallel run to have one.
const redisDatabases = 256

// answerTimeout bounds one look at whether Redis answers.
const answerTimeout = time.Second

// clusterNodeTimeout, in milliseconds, is how long the nodes of a cluster wait for
// one of them before they call it down.
const clusterNodeTimeout = "3000"

// RedisConfig says how StartRedis runs its server.
type RedisConfig struct {
	// Dir belongs to this server alone; it is made when missing.
	Dir string
	// Port of 127.0.0.1. Default 0: any free one, another at each start.
	Port int
	// Durable writes every command to disk before it is acknowledged. Default
	// false: nothing is written, the data ends with the server.
	Durable bool
	// Cluster makes it a node of a Redis Cluster: at its first start it has no
	// slots and knows no other node, afterwards it is what it was. One node that is
	// down does not stop the others.
	Cluster bool
	// BusPort of 127.0.0.1 is where a node of a cluster hears the others. Default 0:
	// any free one.
	BusPort int
	// Master is the port of 127.0.0.1 of the Redis whose replica this one is at its
	// start. Default 0: none, it is a master.
	Master int
	// Log gets what Redis prints. Default: nobody.
	Log io.Writer
}

// StartRedis starts a private Redis (or Valkey) and returns when it answers and
// has loaded its data. ctx bounds the start, not the server's life. Memory has
// no limit and nothing is ever evicted.
//
// A folder that another live process runs a server in is refused; what a dead
// one left behind is cleared, see reclaim.
func StartRedis(ctx context.Context, cfg RedisConfig) (*Server, error) {
	bin, err := findRedis(ctx)
	if err != nil {
		return nil, err
	}
	// Redis works inside the folder, where a relative path means another.
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, err
	}
	if err := makeOpen(cfg.Dir); err != nil {
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
		// A replica gets its copy at once: there are no others to wait for.
		"--repl-diskless-sync-delay", "0",
	}
	if cfg.Cluster {
		// The bus has a port of its own choice: the usual one, 10,000 above the other,
		// may be taken, or none at all.
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
	return launchRedis(ctx, "redis", cfg.Dir, cfg.Port, cfg.Log, argv)
}

// launchRedis starts argv, a Redis or a sentinel, in a folder that it takes for
// itself, and returns when it answers. What every such process is told is added.
func launchRedis(ctx context.Context, name, dir string, port int, log io.Writer, argv []string) (*Server, error) {
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	pidFile := filepath.Join(dir, "redis.pid")
	if err := reclaim(ctx, dir, pidFile, syscall.SIGTERM); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), lock.Close())
	}
	if port, err = choosePort(name, port); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s, err := launch(command{
		name:  name,
		argv:  append(argv, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--pidfile", pidFile, "--daemonize", "no"),
		dir:   dir,
		log:   log,
		lock:  lock,
		quit:  syscall.SIGTERM,
		force: syscall.SIGKILL,
	})
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s.URL = "redis://" + addr + "/0"
	return s, s.await(ctx, func() bool { return redisReady(addr, s.Pid) })
}

// redisReady says whether the server at addr is the process pid, so that another
// one which took the port is not mistaken for ours, and has loaded its data: until
// then it answers PING with an error.
func redisReady(addr string, pid int) bool {
	conn, err := net.DialTimeout("tcp", addr, answerTimeout) //nolint:noctx // bounded by its own timeout
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return false
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
