// Package commits builds binaries of other commits of this repository. Commands use it to
// compare another commit with the current one.
//
// A commit is extracted into a separate folder, so the repository and its working tree
// do not change. All builds share Go's build cache, because -trimpath makes a build
// independent of its folder.
package commits

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Git runs git in the current folder and returns its output without leading and trailing
// spaces.
func Git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}

// Resolve returns the full hash of a revision.
func Resolve(ctx context.Context, revision string) (string, error) {
	hash, err := Git(ctx, "rev-parse", "--verify", "--quiet", revision+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("this clone has no commit %s: fetch the history (git fetch --unshallow), or name another commit", revision)
	}
	return hash, nil
}

// Extract writes the files of a commit into an empty folder.
func Extract(ctx context.Context, commit, dir string) error {
	root, err := Git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	archive := filepath.Join(dir, ".archive.tar")
	if _, err := Git(ctx, "-C", root, "archive", "--format=tar", "--output="+archive, commit); err != nil {
		return err
	}
	untar := exec.CommandContext(ctx, "tar", "-x", "-f", archive, "-C", dir)
	if out, err := untar.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("extract %s: %w: %s", commit, err, out), os.Remove(archive))
	}
	return os.Remove(archive)
}

// Build builds packages of the module in dir into the folder out, in the same way as for
// production. Packages are paths inside the module, such as ./cmd/core.
func Build(ctx context.Context, dir, out string, packages ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath", "-o", out + string(filepath.Separator)}, packages...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s in %s: %w", strings.Join(packages, " "), dir, err)
	}
	return nil
}
