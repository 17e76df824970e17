package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestWriteVariables_ShellReadsSameValues(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "env")
	want := map[string]string{}
	var vars []variable
	for name, value := range map[string]string{
		"PLAIN": "abc", "QUOTES": `it's "so"`, "SHELL_WORDS": "$HOME `id` $(id) \\ ! # *", "URL": "postgres://u:p%40@h/db?a=b&c=d", "EDGE": "'", "TWO": "''",
	} {
		want[name] = value
		vars = append(vars, variable{name, value})
	}
	if err := writeVariables(path, "Two\nlines\n", vars); err != nil {
		t.Fatal(err)
	}
	got, err := readVariables(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("readVariables returned %s = %q, want %q", name, got[name], value)
		}
		out := shellValue(t, path, name)
		if out != value {
			t.Errorf("sh reads %s = %q, want %q", name, out, value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("readVariables returned %v, want only the variables %v", got, want)
	}
	if err := writeVariables(path, "", []variable{{"A", "b\nc"}}); err == nil {
		t.Error("writeVariables accepted a value with a line break")
	}
	if left, err := filepath.Glob(path + "?*"); err != nil || len(left) > 0 {
		t.Errorf("temporary files remain: %v, %v", left, err)
	}
}

func shellValue(t *testing.T, path, name string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", `. "$1" && printenv "$2"`, "sh", path, name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func TestLoadSecrets_CreatesSecretsOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secrets")
	first, err := loadSecrets(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := loadSecrets(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{jwtKeysName, hashKeyName} {
		if first[name] == "" || first[name] != second[name] {
			t.Errorf("%s is %q at the first start and %q at the second, want the same value", name, first[name], second[name])
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{hashKeyName: "created"}
	last := map[string]string{databaseURLName: "postgres://last", redisURLName: "redis://last", stripeURLName: "http://last"}
	for name, test := range map[string]struct {
		environ []string
		want    map[string]string
	}{
		"empty environment": {
			want: map[string]string{
				databaseURLName: "", hashKeyName: "created", allowHTTPName: "true", trustedProxiesName: loopback, registrationName: "open",
				"TRIBUTARY_API_LISTEN": "127.0.0.1:8080", "TRIBUTARY_COLLECTOR_LISTEN": "127.0.0.1:8081",
				"TRIBUTARY_GRPC_LISTEN": "127.0.0.1:9090", "TRIBUTARY_METRICS_LISTEN": "127.0.0.1:9100", shutdownDelayName: "0s",
			},
		},
		"addresses of the previous run": {
			environ: []string{databaseURLName + "=postgres://last", redisURLName + "=redis://last", stripeURLName + "=http://last"},
			want:    map[string]string{databaseURLName: "", redisURLName: "", stripeURLName: ""},
		},
		"address of another server": {
			environ: []string{databaseURLName + "=postgres://other", redisURLName + "=redis://last", stripeURLName + "=http://other"},
			want:    map[string]string{databaseURLName: "postgres://other", redisURLName: "", stripeURLName: "http://other"},
		},
		"a shutdown delay": {
			environ: []string{shutdownDelayName + "=2s"},
			want:    map[string]string{shutdownDelayName: "2s"},
		},
		"secret in a file": {
			environ: []string{hashKeyName + "_FILE=/secret"},
			want:    map[string]string{hashKeyName: ""},
		},
		"public port": {
			environ: []string{"TRIBUTARY_API_LISTEN=0.0.0.0:8080"},
			want:    map[string]string{allowHTTPName: ""},
		},
		"public port with HTTP allowed": {
			environ: []string{"TRIBUTARY_API_LISTEN=0.0.0.0:8080", allowHTTPName + "=true"},
			want:    map[string]string{allowHTTPName: "true"},
		},
		"certificate": {
			environ: []string{"TRIBUTARY_TLS_CERT=/cert", "TRIBUTARY_GRPC_TLS_KEY=/key"},
			want:    map[string]string{"TRIBUTARY_TLS_CERT": "", "TRIBUTARY_GRPC_TLS_KEY": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := environment(test.environ, secrets, last)
			for name, value := range test.want {
				if got[name] != value {
					t.Errorf("%s = %q, want %q", name, got[name], value)
				}
			}
		})
	}
}

func TestConfigure_RejectsPlainHTTPOnPublicPort(t *testing.T) {
	t.Parallel()
	secrets, err := loadSecrets(filepath.Join(t.TempDir(), "secrets"))
	if err != nil {
		t.Fatal(err)
	}
	_, _, _, err = configure(environment([]string{"TRIBUTARY_API_LISTEN=0.0.0.0:8080"}, secrets, nil))
	if err == nil || !strings.Contains(err.Error(), allowHTTPName) {
		t.Errorf("configure returned %v, want an error about %s", err, allowHTTPName)
	}
}

func TestOpenFolder_AllowsOneProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), folderName)
	if err := reset(path, io.Discard); err != nil {
		t.Fatalf("reset of a missing folder: %v", err)
	}
	f, err := openFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openFolder(path); err == nil {
		t.Error("openFolder opened a folder that is already open")
	}
	if err := reset(path, io.Discard); err == nil {
		t.Error("reset deleted a folder that is open")
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if err := reset(path, io.Discard); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("after reset os.Stat returned %v, want that the folder does not exist", err)
	}
}

func TestWithoutPassword(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"postgres://u:secret@h/db":      "postgres://u:xxxxx@h/db",
		"redis://127.0.0.1:6379/0":      "redis://127.0.0.1:6379/0",
		"host=h user=u password=secret": "(in .dev/env)",
		"postgres://u:se%cret@h/db":     "(in .dev/env)",
	} {
		if got := withoutPassword(address); got != want {
			t.Errorf("withoutPassword(%q) = %q, want %q", address, got, want)
		}
	}
}
