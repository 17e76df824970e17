package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// blocks returns the code blocks of a page that begin with the given words, for example
// "go" for programs and "go excerpt" for excerpts.
func blocks(t *testing.T, page, words string) []string {
	t.Helper()
	var found []string
	for _, block := range regexp.MustCompile("(?ms)^```"+words+"\n(.*?)^```$").FindAllStringSubmatch(read(t, page), -1) {
		found = append(found, block[1])
	}
	if len(found) == 0 {
		t.Fatalf("%s has no code block that begins with %q", page, words)
	}
	return found
}

// withoutIndentation removes the tabs at the start of each line.
func withoutIndentation(text string) string {
	return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(text, "")
}

// An excerpt in Go is not a program, so it is compiled as a part of an example.
func TestDocumentation_GoExcerptsAreCompiled(t *testing.T) {
	t.Parallel()
	examples := withoutIndentation(read(t, "clients/go/example_test.go"))
	for _, excerpt := range blocks(t, "docs/grpc.md", "go excerpt") {
		if !strings.Contains(examples, withoutIndentation(excerpt)) {
			t.Errorf("clients/go/example_test.go does not contain this excerpt of docs/grpc.md:\n%s", excerpt)
		}
	}
}

// The installation in clients/go/README.md must work in a module outside this repository.
func TestDocumentation_GoClientWorksInAnotherModule(t *testing.T) {
	t.Parallel()
	const page = "clients/go/README.md"
	module, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// With the checksums of this repository, go mod tidy needs no checksum database.
	for name, text := range map[string]string{"main.go": blocks(t, page, "go")[0], "go.sum": read(t, "go.sum")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	install := strings.ReplaceAll(blocks(t, page, "sh excerpt")[0], "/path/to/tributary", module)
	cmd := exec.Command("bash", "-c", "set -eu\n"+install+"go build -o program .\n")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("install the client in another module: %v\n%s", err, out)
	}
}
