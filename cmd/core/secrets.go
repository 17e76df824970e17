package main

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const secretBytes = 32

// createSecrets creates the files with the secrets of an installation in a folder. It does not
// change a file that exists, so it can run at each start. A file for a setting has the name of
// the setting without TRIBUTARY_, in lower case and with hyphens.
func createSecrets(out io.Writer, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	type secret struct {
		name   string
		create func() (string, error)
	}
	secrets := []secret{
		{"jwt-keys", func() (string, error) { return "k1:" + newSecret(base64.StdEncoding), nil }},
		{"encryption-keys", func() (string, error) { return "k1:" + newSecret(base64.StdEncoding), nil }},
		{"hash-key", func() (string, error) { return newSecret(base64.StdEncoding), nil }},
	}
	// The passwords of the login roles in deploy/postgres/roles.sql. The second file of each
	// role contains the password in the format of libpq, for PGPASSFILE.
	for _, prefix := range []string{"", "owner-", "landing-"} {
		password := cmp.Or(prefix, "database-") + "password"
		secrets = append(secrets,
			secret{password, func() (string, error) { return newSecret(base64.RawURLEncoding), nil }},
			secret{prefix + "pgpass", func() (string, error) {
				content, err := os.ReadFile(filepath.Join(dir, password)) // #nosec G304 -- the operator names the folder
				return "*:*:*:*:" + strings.TrimSpace(string(content)), err
			}})
	}
	for _, secret := range secrets {
		created, err := createFile(filepath.Join(dir, secret.name), secret.create)
		if err != nil {
			return err
		}
		if created {
			if _, err := fmt.Fprintln(out, "created", filepath.Join(dir, secret.name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// copySecrets copies files of a folder into the folders of programs, so that each program can read its
// own secrets only. Each element of copies has the form FOLDER=FILE,FILE…. Existing files are replaced.
func copySecrets(out io.Writer, from string, copies []string) error {
	for _, list := range copies {
		folder, files, ok := strings.Cut(list, "=")
		if !ok || folder == "" {
			return fmt.Errorf("%q must have the form FOLDER=FILE,FILE…", list)
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		for name := range strings.SplitSeq(files, ",") {
			content, err := os.ReadFile(filepath.Join(from, name)) // #nosec G304 -- the operator names the files
			if err != nil {
				return err
			}
			path := filepath.Join(folder, name)
			if err := os.WriteFile(path, content, 0o600); err != nil { // #nosec G703 -- the operator names the folder
				return err
			}
			if _, err := fmt.Fprintln(out, "copied", path); err != nil {
				return err
			}
		}
	}
	return nil
}

func newSecret(encoding *base64.Encoding) string {
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b) // never fails
	return encoding.EncodeToString(b)
}

// createFile creates a file that only its owner can read. It returns false if the file exists.
// The file appears with its whole content, so a process that crashes in createFile leaves no
// empty file.
func createFile(path string, create func() (string, error)) (created bool, err error) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	content, err := create()
	if err != nil {
		return false, err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".secret-*") // mode 0600
	if err != nil {
		return false, err
	}
	defer func() {
		if removeErr := os.Remove(temporary.Name()); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}()
	_, err = temporary.WriteString(content + "\n")
	if err := errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return false, err
	}
	// Unlike a rename, a link fails if another process has created the file since then.
	switch err := os.Link(temporary.Name(), path); {
	case errors.Is(err, fs.ErrExist):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}
