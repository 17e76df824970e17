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

// RedisConfig says how StartRedis runs its server.
type RedisConfig struct {
	// Dir belongs to this server alone; it is made when missing.
	Dir string
	// Port of 127.0.0.1. Default 0: any free one, another at each start.
	Port int
	// Durable writes every command to disk before it is acknowledged. Default
	// false: nothing is written, the data ends with the server.
	Durable bool
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
		if cfg.Port != 0 || attempt == freePortAttempts || !portWasTaken(err) {
			return nil, err
		}
	}
}

func startRedis(ctx context.Context, bin string, cfg RedisConfig) (*Server, error) {
	lock, err := lockFolder(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	pidFile := filepath.Join(cfg.Dir, "redis.pid")
	if err := reclaim(ctx, cfg.Dir, pidFile, syscall.SIGTERM); err != nil {
		return nil, errors.Join(fmt.Errorf("redis: %w", err), lock.Close())
	}
	port, err := choosePort("redis", cfg.Port)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	appendOnly := "no"
	if cfg.Durable {
		appendOnly = "yes"
	}
	s, err := launch(command{
		name: "redis",
		argv: []string{
			bin, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", cfg.Dir, "--pidfile", pidFile,
			"--daemonize", "no", "--databases", strconv.Itoa(redisDatabases),
			"--appendonly", appendOnly, "--appendfsync", "always", "--save", "", "--maxmemory-policy", "noeviction",
		},
		dir:   cfg.Dir,
		log:   cfg.Log,
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
