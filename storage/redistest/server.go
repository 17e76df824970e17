package redistest

import (
	"context"
	"crypto/tls"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/test/authority"
	"github.com/tributary-hq/tributary/tools/servers"
)

const (
	// startTimeout limits the start of a server. If Redis is not installed on the
	// machine, the start includes the installation of Redis.
	startTimeout = 5 * time.Minute
	stopTimeout  = 20 * time.Second
)

// Server is a private Redis server with the settings for production. The server
// acknowledges a write only after the write is in its append-only file. The methods of
// Server are not safe for concurrent use.
type Server struct {
	// URL is the URL of the server. Restart does not change it.
	URL string

	t       testing.TB
	launch  func(ctx context.Context, dir string, port int) (*servers.Server, error)
	dir     string
	tls     *tls.Config // for the clients of this package; nil if the server has no TLS
	port    int
	busPort int // the bus port of a cluster node
	running *servers.Server
}

// Start starts a private Redis server. When the test ends, the server is stopped and its
// data is deleted.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartWith(t, Config{})
}

// StartWith starts a private Redis server as Start does.
func StartWith(t testing.TB, cfg Config) *Server {
	t.Helper()
	return startRedis(t, cfg.Authority, cfg.hosts(), servers.RedisConfig{})
}

// startRedis starts a durable Redis server with the settings of cfg. It overwrites the
// fields Dir, Port, Durable and TLS of cfg.
func startRedis(t testing.TB, ca *authority.Authority, hosts []string, cfg servers.RedisConfig) *Server {
	t.Helper()
	return start(t, ca, hosts, func(ctx context.Context, dir string, port int, files *servers.RedisTLS) (*servers.Server, error) {
		cfg := cfg
		cfg.Dir, cfg.Port, cfg.Durable, cfg.TLS = dir, port, true, files
		return servers.StartRedis(ctx, cfg)
	})
}

// start starts a server. If ca is not nil, it signs a certificate of the server for the given hosts.
func start(
	t testing.TB, ca *authority.Authority, hosts []string, launch func(ctx context.Context, dir string, port int, files *servers.RedisTLS) (*servers.Server, error),
) *Server {
	t.Helper()
	// A directory in memory is enough, because tests kill only the server and not the
	// machine. The kernel keeps the files of a killed process.
	dir, err := servers.MemoryDir()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s := &Server{t: t, dir: dir}
	var files *servers.RedisTLS
	if ca != nil {
		files = s.issue(ca, hosts)
	}
	s.launch = func(ctx context.Context, dir string, port int) (*servers.Server, error) {
		return launch(ctx, dir, port, files)
	}
	t.Cleanup(func() {
		s.stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("redistest: %v", err)
		}
	})
	s.start()
	s.URL = s.running.URL
	u, err := url.Parse(s.URL)
	if err == nil {
		s.port, err = strconv.Atoi(u.Port())
	}
	if err != nil {
		t.Fatalf("redistest: read the port of %s: %v", s.URL, err)
	}
	return s
}

// Kill9 kills the server with SIGKILL, as in a crash, and waits until the process has
// ended.
func (s *Server) Kill9() {
	s.t.Helper()
	if s.running != nil {
		s.running.Kill()
		s.running = nil
	}
}

// Restart starts the server again with the same port and data. If the server is running,
// Restart first shuts it down.
func (s *Server) Restart() {
	s.t.Helper()
	s.stop()
	s.start()
}

// Pause makes the server hang until Resume is called. The server does not respond to
// commands. Its connections stay open, and clients can open new connections.
func (s *Server) Pause() { s.t.Helper(); s.signal(syscall.SIGSTOP) }

// Resume makes a paused server continue.
func (s *Server) Resume() { s.t.Helper(); s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if s.running == nil {
		s.t.Fatal("redistest: the server is not running")
	}
	if err := syscall.Kill(s.running.Pid, sig); err != nil {
		s.t.Fatalf("redistest: %v: %v", sig, err)
	}
}

func (s *Server) start() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	running, err := s.launch(ctx, filepath.Join(s.dir, "redis"), s.port)
	if err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	s.running = running
}

func (s *Server) stop() {
	s.t.Helper()
	if s.running == nil {
		return
	}
	// A paused process does not handle the signal to stop, so resume it first.
	_ = syscall.Kill(s.running.Pid, syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.running.Stop(ctx); err != nil {
		s.t.Errorf("redistest: %v", err)
	}
	s.running = nil
}
