package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		onPath    []string
		chromeBin string // CHROME_BIN
		want      string
	}{
		"CHROME_BIN comes first":     {onPath: []string{"chromium", "mine"}, chromeBin: "mine", want: "mine"},
		"a browser without a window": {onPath: []string{"chromium", "chromium-headless-shell"}, want: "chromium-headless-shell"},
		"Debian's name":              {onPath: []string{"google-chrome", "chromium-browser", "chromium"}, want: "chromium"},
		"another name":               {onPath: []string{"google-chrome"}, want: "google-chrome"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, command := range c.onPath {
				if err := os.WriteFile(filepath.Join(dir, command), []byte("#!/bin/sh\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir)
			t.Setenv("CHROME_BIN", c.chromeBin)
			if got, err := Find(); err != nil || got != filepath.Join(dir, c.want) {
				t.Errorf("Find = %q, %v; want %s in the folder", got, err, c.want)
			}
		})
	}
}

func TestFind_ErrorForMissingBrowser(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for chromeBin, want := range map[string]string{"": "apt-get install chromium", "no-such-browser": "CHROME_BIN"} {
		t.Setenv("CHROME_BIN", chromeBin)
		for _, find := range []func() (string, error){Find, func() (string, error) { return Ensure(t.Context()) }} {
			path, err := find()
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("CHROME_BIN=%q: path %q, error %v; want an error in one line with %q", chromeBin, path, err, want)
			}
		}
	}
}
