package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestDataDir_ReturnsPreferredFolder(t *testing.T) {
	preferred := filepath.Join(tempDir(t), ".dev", "postgres")
	got, err := DataDir(preferred)
	if err != nil || got != preferred {
		t.Fatalf("DataDir = %q, %v; want %q", got, err, preferred)
	}
	if info, err := os.Stat(got); err != nil || !info.IsDir() {
		t.Errorf("the folder was not created: %v", err)
	}
}

func TestDataDir_BelowClosedFolder(t *testing.T) {
	home := tempDir(t)
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	preferred := filepath.Join(home, "postgres")
	got, err := DataDir(preferred)
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		// The server runs as the same user, who can reach the folder.
		if got != preferred {
			t.Fatalf("DataDir = %q, want %q", got, preferred)
		}
		return
	}
	t.Cleanup(func() { _ = os.RemoveAll(got) })
	if filepath.Dir(got) != "/var/tmp" {
		t.Fatalf("DataDir = %q, want a folder of /var/tmp", got)
	}
	if again, err := DataDir(preferred); err != nil || again != got {
		t.Errorf("second DataDir = %q, %v; want %q as before", again, err, got)
	}
	if _, err := StartPostgres(contextWithin(t, time.Minute), PostgresConfig{Dir: preferred}); err == nil || !strings.Contains(err.Error(), home+" is closed") {
		t.Errorf("start in the closed folder: error %v, want one that names %s", err, home)
	}
	startTestPostgres(t, PostgresConfig{Dir: got})
	if err := os.Chmod(got, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := DataDir(preferred); err == nil {
		t.Error("no error for a folder that everyone may change")
	}
}

// startSleeper starts a process with the working directory dir.
func startSleeper(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

func writePid(t *testing.T, file string, pid int) {
	t.Helper()
	if err := os.WriteFile(file, []byte(strconv.Itoa(pid)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReclaim_StopsServerOfEarlierRun(t *testing.T) {
	dir := tempDir(t)
	file := filepath.Join(dir, "pid")
	server := startSleeper(t, dir)
	writePid(t, file, server.Process.Pid)
	ended := make(chan struct{})
	go func() {
		_ = server.Wait() // returns an error because of SIGTERM
		close(ended)
	}()
	if err := reclaim(contextWithin(t, 10*time.Second), dir, file, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the server still runs")
	}
}

func TestReclaim_DoesNotStopOtherProgram(t *testing.T) {
	dir := tempDir(t)
	file := filepath.Join(dir, "pid")
	other := startSleeper(t, "/")
	writePid(t, file, other.Process.Pid)
	if err := reclaim(contextWithin(t, 10*time.Second), dir, file, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the pid file was not removed: %v", err)
	}
	if !alive(other.Process.Pid) {
		t.Error("the other program was stopped")
	}
}

// A crash leaves a pid file, and its process id may later belong to another process of
// the same user. Without reclaim Postgres would refuse to start.
func TestStartPostgres_RemovesStalePidFile(t *testing.T) {
	t.Parallel()
	cfg := PostgresConfig{Dir: tempDir(t)}
	stop(t, startTestPostgres(t, cfg))
	argv, err := asPostgres([]string{"sleep", "60"}, "KILL")
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(argv[0], argv[1:]...)
	other.Dir = "/"
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	cluster := filepath.Join(cfg.Dir, "cluster")
	stale := strconv.Itoa(other.Process.Pid) + "\n" + cluster + "\n1\n1\n\n\n\nready\n"
	file := filepath.Join(cluster, "postmaster.pid")
	if err := os.WriteFile(file, []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := chownToPostgres(file); err != nil {
		t.Fatal(err)
	}
	s := startTestPostgres(t, cfg)
	if got := query(t, s, "SELECT 'up'"); got != "up" {
		t.Errorf("SELECT 'up' = %q", got)
	}
}

func TestStartPostgres_RepeatsInterruptedFirstStart(t *testing.T) {
	t.Parallel()
	cfg := PostgresConfig{Dir: tempDir(t)}
	unfinished := filepath.Join(cfg.Dir, "cluster.new")
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(unfinished, "PG_VERSION"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startTestPostgres(t, cfg)
	if got := query(t, s, "SELECT current_database()"); got != "tributary" {
		t.Errorf("database = %q, want tributary", got)
	}
}

func TestMemoryDir_RespectsTMPDIR(t *testing.T) {
	configured := tempDir(t)
	for _, tmp := range []string{configured, ""} {
		t.Setenv("TMPDIR", tmp)
		dir, err := MemoryDir()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.Remove(dir) }()
		switch parent := filepath.Dir(dir); {
		case tmp != "" && parent != tmp:
			t.Errorf("MemoryDir = %s, want a folder in TMPDIR, which is %s", dir, tmp)
		case tmp == "" && parent != memoryFolder && parent != os.TempDir() && parent != "/var/tmp":
			t.Errorf("MemoryDir = %s, want a folder in %s or in a temporary folder", dir, memoryFolder)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o711 {
			t.Errorf("%s has the mode %v (error: %v), want 0711", dir, info, err)
		}
	}
}
