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

	// A collector gets the hash key and nothing else.
	out.Reset()
	collector := filepath.Join(t.TempDir(), "collector")
	if err := run(t.Context(), []string{"secrets", dir, collector}, &out); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(collector); err != nil || len(entries) != 1 {
		t.Errorf("the folder of the collector has the entries %v, error %v, want one", entries, err)
	}
	if copied, err := os.ReadFile(filepath.Join(collector, "hash-key")); err != nil || strings.TrimSpace(string(copied)) != first["hash-key"] {
		t.Errorf("the hash key of the collector is not that of the core, error %v", err)
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
