package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/tributary-hq/tributary/tools/servers"
)

// Download downloads the libraries of the applications into the folder web of a checkout, if
// they are missing or are not those of package-lock.json. It runs npm, which runs no script of
// a library. If npm is missing and the caller is root on a machine with apt, it installs
// Debian's package first. The output goes to standard error.
func Download(ctx context.Context, folder string) error {
	wanted, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		return err
	}
	// The mark is a copy of the lock file that was installed.
	mark := filepath.Join(folder, "node_modules", ".installed.json")
	if installed, err := os.ReadFile(mark); err == nil && bytes.Equal(installed, wanted) {
		return nil
	}
	if _, err := exec.LookPath("npm"); err != nil {
		if err := errors.Join(servers.Install(ctx, "nodejs"), servers.Install(ctx, "npm")); err != nil {
			return fmt.Errorf("the web pages need Node.js with npm: %w", err)
		}
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir, npm.Stdout, npm.Stderr = folder, os.Stderr, os.Stderr
	if err := npm.Run(); err != nil {
		return fmt.Errorf("npm ci: %w", err)
	}
	return os.WriteFile(mark, wanted, 0o644)
}
