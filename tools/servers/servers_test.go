package servers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// ownerFolderVariable is an environment variable. If it is set, this test binary starts
// servers and waits until it is killed.
const ownerFolderVariable = "TRIBUTARY_SERVERS_TEST_OWNER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerFolderVariable); dir != "" {
		runOwner(dir)
	}
	os.Exit(m.Run())
}

func runOwner(dir string) {
	pg, err := StartPostgres(context.Background(), PostgresConfig{Dir: filepath.Join(dir, "postgres")})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	rd, err := StartRedis(context.Background(), RedisConfig{Dir: filepath.Join(dir, "redis")})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(pg.Pid, rd.Pid)
	select {}
}

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := MemoryDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func contextWithin(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, s *Server, err error) *Server {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(contextWithin(t, 30*time.Second)); err != nil {
			t.Error(err)
		}
	})
	return s
}

func startTestPostgres(t *testing.T, cfg PostgresConfig) *Server {
	t.Helper()
	s, err := StartPostgres(contextWithin(t, 5*time.Minute), cfg)
	return start(t, s, err)
}

func startTestRedis(t *testing.T, cfg RedisConfig) *Server {
	t.Helper()
	s, err := StartRedis(contextWithin(t, 5*time.Minute), cfg)
	return start(t, s, err)
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Stop(contextWithin(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
}

// query runs one statement and returns its first value as text.
func query(t *testing.T, s *Server, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(contextWithin(t, 10*time.Second), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var v *string
	if err := conn.QueryRow(contextWithin(t, 10*time.Second), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if v == nil {
		return ""
	}
	return *v
}

func client(t *testing.T, s *Server) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(opt)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestStartPostgres_KeepsDataAcrossStop(t *testing.T) {
	for durable, protection := range map[bool]string{false: "off", true: "on"} {
		t.Run(fmt.Sprintf("durable=%t", durable), func(t *testing.T) {
			t.Parallel()
			cfg := PostgresConfig{Dir: tempDir(t), Durable: durable}
			s := startTestPostgres(t, cfg)
			conn, err := pgx.Connect(contextWithin(t, 10*time.Second), s.URL)
			if err != nil {
				t.Fatal(err)
			}
			// The connection stays open, because Stop must not wait for idle clients.
			defer func() { _ = conn.Close(context.Background()) }()
			if _, err := conn.Exec(contextWithin(t, 10*time.Second), "CREATE TABLE kept (v text)"); err != nil {
				t.Fatal(err)
			}
			query(t, s, "INSERT INTO kept VALUES ('a') RETURNING v")
			stop(t, s)
			s = startTestPostgres(t, cfg)
			if got := query(t, s, "SELECT string_agg(v, ',') FROM kept"); got != "a" {
				t.Errorf("rows after the restart = %q, want \"a\"", got)
			}
			for setting, want := range map[string]string{
				"fsync": protection, "full_page_writes": protection, "autovacuum": protection, "jit": protection, "synchronous_commit": "on",
				"listen_addresses": "127.0.0.1", "max_connections": "200", "server_encoding": "UTF8", "timezone": "UTC",
			} {
				if got := query(t, s, "SELECT current_setting('"+setting+"')"); got != want {
					t.Errorf("%s = %s, want %s", setting, got, want)
				}
			}
		})
	}
}

func TestStartPostgres_DurableKeepsDataAcrossKill(t *testing.T) {
	t.Parallel()
	cfg := PostgresConfig{Dir: tempDir(t), Durable: true}
	s := startTestPostgres(t, cfg)
	conn, err := pgx.Connect(contextWithin(t, 10*time.Second), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	// The connection stays open in a transaction, so its backend keeps running for a
	// moment after the kill.
	defer func() { _ = conn.Close(context.Background()) }()
	for _, sql := range []string{"CREATE TABLE kept AS SELECT 'a' AS v", "BEGIN"} {
		if _, err := conn.Exec(contextWithin(t, 10*time.Second), sql); err != nil {
			t.Fatal(err)
		}
	}
	s.Kill()
	if err := s.Err(); err != nil {
		t.Errorf("Err after Kill = %v, want nil", err)
	}
	s = startTestPostgres(t, cfg)
	if got := query(t, s, "SELECT v FROM kept"); got != "a" {
		t.Errorf("row after the kill = %q, want \"a\"", got)
	}
}

func TestStartRedis_DurableKeepsDataAcrossStopAndKill(t *testing.T) {
	t.Parallel()
	cfg := RedisConfig{Dir: tempDir(t), Durable: true}
	s := startTestRedis(t, cfg)
	ctx := contextWithin(t, time.Minute)
	if err := client(t, s).Set(ctx, "stopped", "a", 0).Err(); err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	s = startTestRedis(t, cfg)
	if err := client(t, s).Set(ctx, "killed", "b", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	s = startTestRedis(t, cfg)
	c := client(t, s)
	for key, want := range map[string]string{"stopped": "a", "killed": "b"} {
		if got, err := c.Get(ctx, key).Result(); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", key, got, err, want)
		}
	}
	for setting, want := range map[string]string{
		"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction", "save": "", "bind": "127.0.0.1",
	} {
		if got, err := c.ConfigGet(ctx, setting).Result(); err != nil || got[setting] != want {
			t.Errorf("%s = %q, %v; want %q", setting, got[setting], err, want)
		}
	}
}

func TestStartRedis_NotDurableWritesNoFiles(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	s := startTestRedis(t, RedisConfig{Dir: dir})
	if err := client(t, s).Set(contextWithin(t, time.Minute), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "owner" {
			t.Errorf("unexpected file %s", e.Name())
		}
	}
}

func TestStart_ErrorContainsTakenPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := l.Addr().(*net.TCPAddr).Port
	want := fmt.Sprintf("port %d of 127.0.0.1 is taken", port)
	if _, err := StartPostgres(contextWithin(t, time.Minute), PostgresConfig{Dir: tempDir(t), Port: port}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("postgres: error %v, want one that contains %q", err, want)
	}
	if _, err := StartRedis(contextWithin(t, time.Minute), RedisConfig{Dir: tempDir(t), Port: port}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("redis: error %v, want one that contains %q", err, want)
	}
}

func TestStartRedis_UsesGivenPort(t *testing.T) {
	t.Parallel()
	port, err := choosePort("test", 0)
	if err != nil {
		t.Fatal(err)
	}
	s := startTestRedis(t, RedisConfig{Dir: tempDir(t), Port: port})
	if want := fmt.Sprintf("redis://127.0.0.1:%d/0", port); s.URL != want {
		t.Errorf("URL = %s, want %s", s.URL, want)
	}
}

func TestStartRedis_RejectsFolderInUse(t *testing.T) {
	t.Parallel()
	cfg := RedisConfig{Dir: tempDir(t)}
	s := startTestRedis(t, cfg)
	want := fmt.Sprintf("is in use by the running process %d", os.Getpid())
	if _, err := StartRedis(contextWithin(t, time.Minute), cfg); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("second start: error %v, want one that contains %q", err, want)
	}
	if err := client(t, s).Ping(contextWithin(t, time.Minute)).Err(); err != nil {
		t.Errorf("PING of the first server after the failed second start: %v", err)
	}
}

func TestServer_ErrAfterUnexpectedEnd(t *testing.T) {
	t.Parallel()
	s, err := StartRedis(contextWithin(t, 5*time.Minute), RedisConfig{Dir: tempDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("Done was not closed")
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "redis ended by itself") || !strings.Contains(err.Error(), "SIGTERM") {
		t.Errorf("Err = %v, want an error with the signal SIGTERM", err)
	}
	if err := s.Stop(contextWithin(t, time.Second)); err == nil {
		t.Error("Stop returned no error for a server that had ended unexpectedly")
	}
}

func TestStop_ForcesEndWhenContextEnds(t *testing.T) {
	t.Parallel()
	s, err := StartPostgres(contextWithin(t, 5*time.Minute), PostgresConfig{Dir: tempDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Stop(canceled); err == nil || !strings.Contains(err.Error(), "forced to end") {
		t.Errorf("Stop = %v, want an error that says that the server was forced to end", err)
	}
	select {
	case <-s.Done():
	default:
		t.Error("the server still runs")
	}
}

func TestStart_ServerHasOwnProcessGroup(t *testing.T) {
	t.Parallel()
	s := startTestRedis(t, RedisConfig{Dir: tempDir(t)})
	group, err := syscall.Getpgid(s.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if group == syscall.Getpgrp() {
		t.Error("the server is in the process group of the test, which receives the terminal's signals")
	}
}

// When the owner is killed, its servers must end. The next owner must be able to use the
// folders at once, even while the servers shut down.
func TestServers_EndWithTheirOwner(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerFolderVariable+"="+dir)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	pids := strings.Fields(line)
	if len(pids) != 2 {
		t.Fatalf("the owner printed %q, want two process ids", line)
	}
	pg := startTestPostgres(t, PostgresConfig{Dir: filepath.Join(dir, "postgres")})
	startTestRedis(t, RedisConfig{Dir: filepath.Join(dir, "redis")})
	if got := query(t, pg, "SELECT 'up'"); got != "up" {
		t.Errorf("SELECT 'up' = %q", got)
	}
	for i, folder := range []string{"postgres/cluster", "redis"} {
		pid, err := strconv.Atoi(pids[i])
		if err != nil {
			t.Fatal(err)
		}
		if ours, err := isServerOf(pid, filepath.Join(dir, folder)); err != nil || ours {
			t.Errorf("%s: process %d still runs after its owner was killed (error: %v)", folder, pid, err)
		}
	}
}
