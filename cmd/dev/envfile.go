package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// variable is one line of a file of shell variables.
type variable struct{ name, value string }

// exportLine is a line as writeVariables writes it, or as a person would add it.
var exportLine = regexp.MustCompile(`^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)

// readVariables reads a file of shell variables. A file that is not there has
// none; a line that is no assignment is passed over. Nothing is expanded.
func readVariables(path string) (map[string]string, error) {
	body, err := os.ReadFile(path) // #nosec G304 -- a name of ours in the data folder
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

// writeVariables writes a file that sh and bash can source, readable by its
// owner only. A reader sees the file before or the file after, never a part.
func writeVariables(path, heading string, vars []variable) error {
	var text strings.Builder
	for line := range strings.Lines(heading) {
		text.WriteString("# " + line)
	}
	text.WriteByte('\n')
	for _, v := range vars {
		if strings.ContainsAny(v.value, "\x00\n") {
			return fmt.Errorf("%s: %s cannot stand on one line", path, v.name)
		}
		fmt.Fprintf(&text, "export %s=%s\n", v.name, quote(v.value))
	}
	return writeFile(path, []byte(text.String()))
}

// writeFile replaces a file as a whole; its owner alone may read it.
func writeFile(path string, body []byte) (err error) {
	// CreateTemp gives mode 0600.
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

// quote makes one word of the shell that means s. Inside single quotes nothing
// is special but their end.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// unquote undoes quote. A word without quotes is taken as it stands.
func unquote(word string) string {
	if len(word) < 2 || word[0] != '\'' || word[len(word)-1] != '\'' {
		return word
	}
	return strings.ReplaceAll(word[1:len(word)-1], `'\''`, "'")
}
