package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// variable is a shell variable. A file of shell variables has one variable per line.
type variable struct{ name, value string }

// exportLine matches an assignment, with or without export.
var exportLine = regexp.MustCompile(`^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)

// readVariables reads a file of shell variables. If the file does not exist, the result
// is empty. Lines that are not assignments are ignored. Values are not expanded.
func readVariables(path string) (map[string]string, error) {
	body, err := os.ReadFile(path) // #nosec G304 -- a fixed name in the data folder
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for line := range strings.Lines(string(body)) {
		if m := exportLine.FindStringSubmatch(strings.TrimRight(line, "\r\n")); m != nil {
			values[m[1]] = unquote(strings.TrimSpace(m[2]))
		}
	}
	return values, nil
}

// writeVariables writes a file that sh and bash can source, with mode 0600. It replaces
// the file atomically.
func writeVariables(path, heading string, vars []variable) error {
	var text strings.Builder
	for line := range strings.Lines(heading) {
		text.WriteString("# " + line)
	}
	text.WriteByte('\n')
	for _, v := range vars {
		if strings.ContainsAny(v.value, "\x00\n") {
			return fmt.Errorf("%s: %s contains a line break or a zero byte", path, v.name)
		}
		fmt.Fprintf(&text, "export %s=%s\n", v.name, quote(v.value))
	}
	return writeFile(path, []byte(text.String()))
}

// writeFile replaces a file atomically. The new file has mode 0600.
func writeFile(path string, body []byte) (err error) {
	// CreateTemp creates the file with mode 0600.
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(body)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// quote returns s as one word of the shell, in single quotes.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// unquote reverses quote. It returns a word without quotes unchanged.
func unquote(word string) string {
	if len(word) < 2 || word[0] != '\'' || word[len(word)-1] != '\'' {
		return word
	}
	return strings.ReplaceAll(word[1:len(word)-1], `'\''`, "'")
}

const (
	jwtKeysName        = "TRIBUTARY_JWT_KEYS"
	hashKeyName        = "TRIBUTARY_HASH_KEY"
	encryptionKeysName = "TRIBUTARY_ENCRYPTION_KEYS"

	hashKeySize       = 32
	encryptionKeySize = 32
)

const secretsHeading = `The keys of this development system. They are created once. If this file is deleted,
sessions end, stored hashes no longer match, and encrypted values cannot be decrypted.
make reset deletes this file together with the data.
`

// loadSecrets returns the keys of the service from the file at path. It creates missing
// keys and adds them to the file.
func loadSecrets(path string) (map[string]string, error) {
	secrets, err := readVariables(path)
	if err != nil {
		return nil, err
	}
	created := false
	for name, create := range map[string]func() string{
		jwtKeysName:        func() string { return "dev:" + randomBase64(ed25519.SeedSize) },
		hashKeyName:        func() string { return randomBase64(hashKeySize) },
		encryptionKeysName: func() string { return "dev:" + randomBase64(encryptionKeySize) },
	} {
		if secrets[name] == "" {
			secrets[name], created = create(), true
		}
	}
	if !created {
		return secrets, nil
	}
	return secrets, writeVariables(path, secretsHeading, []variable{
		{jwtKeysName, secrets[jwtKeysName]},
		{hashKeyName, secrets[hashKeyName]},
		{encryptionKeysName, secrets[encryptionKeysName]},
	})
}

func randomBase64(size int) string {
	b := make([]byte, size)
	_, _ = rand.Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)
}
