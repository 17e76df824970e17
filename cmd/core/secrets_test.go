package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/seal"
)

func TestCreateSecrets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	read := func() map[string]string {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		for _, entry := range entries {
			info, err := entry.Info()
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != 0o600 {
				t.Errorf("%s has the mode %s, want 0600", entry.Name(), info.Mode())
			}
			content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
			if err != nil {
				t.Fatal(err)
			}
			files[entry.Name()] = strings.TrimSpace(string(content))
		}
		return files
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"secrets", dir}, &out); err != nil {
		t.Fatal(err)
	}
	first := read()
	want := []string{"database-password", "encryption-keys", "hash-key", "jwt-keys", "landing-password", "landing-pgpass", "owner-password", "owner-pgpass", "pgpass"}
	if got := slices.Sorted(maps.Keys(first)); !slices.Equal(got, want) {
		t.Fatalf("the files are %v, want %v", got, want)
	}
	if strings.Count(out.String(), "created ") != len(want) || strings.Contains(out.String(), first["hash-key"]) {
		t.Errorf("the output is %q, want the names of the files only", out.String())
	}
	cfg, err := settings.Parse[settings.Core]([]string{
		"TRIBUTARY_DATABASE_URL=postgres://127.0.0.1/x", "TRIBUTARY_REDIS_URL=redis://127.0.0.1",
		"TRIBUTARY_JWT_KEYS_FILE=" + filepath.Join(dir, "jwt-keys"), "TRIBUTARY_HASH_KEY_FILE=" + filepath.Join(dir, "hash-key"),
		"TRIBUTARY_ENCRYPTION_KEYS_FILE=" + filepath.Join(dir, "encryption-keys"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.ParseTokenKeys(cfg.JWTKeys, time.Now); err != nil {
		t.Errorf("jwt-keys: %v", err)
	}
	if _, err := seal.New(cfg.EncryptionKeys); err != nil {
		t.Errorf("encryption-keys: %v", err)
	}

	// Each program gets its own secrets and nothing else. A later run replaces them.
	programs := t.TempDir()
	copies := []string{"secrets", dir, filepath.Join(programs, "collector") + "=hash-key", filepath.Join(programs, "core") + "=hash-key,pgpass"}
	for range 2 {
		out.Reset()
		if err := run(t.Context(), copies, &out); err != nil {
			t.Fatal(err)
		}
	}
	for program, want := range map[string][]string{"collector": {"hash-key"}, "core": {"hash-key", "pgpass"}} {
		entries, err := os.ReadDir(filepath.Join(programs, program))
		if err != nil || len(entries) != len(want) {
			t.Errorf("the folder of the %s has the entries %v, error %v, want %q", program, entries, err, want)
		}
		for _, name := range want {
			if copied, err := os.ReadFile(filepath.Join(programs, program, name)); err != nil || strings.TrimSpace(string(copied)) != first[name] {
				t.Errorf("%s of the %s is not that of the installation, error %v", name, program, err)
			}
		}
	}
	for argument, fault := range map[string]string{"collector": "must have the form FOLDER=FILE,FILE…", "=hash-key": "must have the form", programs + "=missing": "missing"} {
		if err := run(t.Context(), []string{"secrets", dir, argument}, &out); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("the copy %q returned %v, want %q", argument, err, fault)
		}
	}

	// A second run creates only what is missing.
	if err := os.Remove(filepath.Join(dir, "jwt-keys")); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := run(t.Context(), []string{"secrets", dir}, &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "created "+filepath.Join(dir, "jwt-keys")+"\n"; got != want {
		t.Errorf("the output of the second run is %q, want %q", got, want)
	}
	for name, content := range read() {
		if (content == first[name]) != (name != "jwt-keys") {
			t.Errorf("%s: a second run must create only missing files", name)
		}
	}
}
