package servers

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func writeCommands(t *testing.T, dir string, names ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLocatePostgres(t *testing.T) {
	server := []string{"initdb", "postgres"}
	for name, c := range map[string]struct {
		files  map[string][]string // commands by folder
		bindir string              // PG_BINDIR
		path   string              // PATH
		want   string
	}{
		"PG_BINDIR comes first": {
			files:  map[string][]string{"9/bin": server, "own": server},
			bindir: "own", want: "own",
		},
		"the highest version by number": {
			files: map[string][]string{"9/bin": server, "15/bin": server},
			want:  "15/bin",
		},
		"a version without the server is skipped": {
			files: map[string][]string{"15/bin": server, "16/bin": {"psql"}},
			want:  "15/bin",
		},
		"PATH comes last": {
			files: map[string][]string{"path": server},
			path:  "path", want: "path",
		},
		"a version's folder before PATH": {
			files: map[string][]string{"path": server, "9/bin": server},
			path:  "path", want: "9/bin",
		},
		"no server": {},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			under := func(dir string) string {
				if dir == "" {
					return ""
				}
				return filepath.Join(root, dir)
			}
			for dir, names := range c.files {
				writeCommands(t, under(dir), names...)
			}
			t.Setenv("PG_BINDIR", under(c.bindir))
			t.Setenv("PATH", under(c.path))
			got, err := locatePostgres(t.Context(), filepath.Join(root, "*/bin"))
			if want := under(c.want); err != nil || got != want {
				t.Errorf("locatePostgres = %q, %v; want %q", got, err, want)
			}
		})
	}
}

func TestStartPostgres_RejectsWrongBindir(t *testing.T) {
	t.Setenv("PG_BINDIR", t.TempDir())
	_, err := StartPostgres(t.Context(), PostgresConfig{Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "PG_BINDIR") {
		t.Errorf("StartPostgres: error %v, want one that contains PG_BINDIR", err)
	}
}

// If Redis and apt are missing, the error must say which package to install and which
// variables to set.
func TestStartRedis_ErrorForMissingRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := StartRedis(t.Context(), RedisConfig{Dir: t.TempDir()})
	if err == nil {
		t.Fatal("StartRedis returned no error")
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has more than one line: %v", err)
	}
	for _, want := range []string{"apt-get install redis-server", "TRIBUTARY_REDIS_URL", "TRIBUTARY_TEST_REDIS_URL"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %q: %v", want, err)
		}
	}
}

func TestStartPostgres_EndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if s, err := StartPostgres(ctx, PostgresConfig{Dir: tempDir(t)}); err == nil {
		s.Kill()
		t.Error("StartPostgres did not end with its context")
	}
}
