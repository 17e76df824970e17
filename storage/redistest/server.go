package redistest

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/tools/servers"
)

const (
	// startTimeout includes installing Redis on a machine without it.
	startTimeout = 5 * time.Minute
	stopTimeout  = 20 * time.Second
)

// Server is a private Redis with the settings of production: what it has
// acknowledged is on disk. A test calls its methods one at a time.
type Server struct {
	// URL stays the same across Restart.
	URL string

	t       testing.TB
	launch  func(ctx context.Context, dir string, port int) (*servers.Server, error)
	dir     string
	port    int
	bus     int // of a node of a cluster
	running *servers.Server
}

// Start starts a private Redis that ends, and whose data is forgotten, with the
// test.
func Start(t testing.TB) *Server {
	t.Helper()
	return startRedis(t, servers.RedisConfig{})
}

// startRedis starts a durable Redis of cfg, which says nothing of folder and port.
func startRedis(t testing.TB, cfg servers.RedisConfig) *Server {
	t.Helper()
	return start(t, func(ctx context.Context, dir string, port int) (*servers.Server, error) {
		cfg := cfg
		cfg.Dir, cfg.Port, cfg.Durable = dir, port, true
		return servers.StartRedis(ctx, cfg)
	})
}

func start(t testing.TB, launch func(ctx context.Context, dir string, port int) (*servers.Server, error)) *Server {
	t.Helper()
	// Killed servers leave their writes with the kernel, here as on a disk.
	dir, err := servers.MemoryDir()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s := &Server{t: t, launch: launch, dir: dir}
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
		t.Fatalf("redistest: the port of %s: %v", s.URL, err)
	}
	return s
}

// Kill9 ends the server as a crash does and waits for its end.
func (s *Server) Kill9() {
	s.t.Helper()
	if s.running != nil {
		s.running.Kill()
		s.running = nil
	}
}

// Restart starts the server again on the same port and data; one that still runs
// is stopped gracefully first.
func (s *Server) Restart() {
	s.t.Helper()
	s.stop()
	s.start()
}

// Pause makes the server hang: it keeps its connections and accepts new ones, but
// answers nothing until Resume.
func (s *Server) Pause() { s.t.Helper(); s.signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (s *Server) Resume() { s.t.Helper(); s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if s.running == nil {
		s.t.Fatal("redistest: the server does not run")
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
	// A paused server would never see the request to stop.
	_ = syscall.Kill(s.running.Pid, syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.running.Stop(ctx); err != nil {
		s.t.Errorf("redistest: %v", err)
	}
	s.running = nil
}
