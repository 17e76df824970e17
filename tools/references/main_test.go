package main

import (
	"io/fs"
	"os"
	"slices"
	"testing"
)

// checkFolder returns the references in a folder that lead nowhere.
func checkFolder(t *testing.T, folder string) []string {
	t.Helper()
	root := os.DirFS(folder)
	var files []string
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	dead, err := check(root, files)
	if err != nil {
		t.Fatal(err)
	}
	return dead
}

func TestCheck_FindsReferencesThatLeadNowhere(t *testing.T) {
	want := []string{
		"b.go:3: RULES" + md + " does not exist",
		"b.go:3: docs/guide" + md + "#gone does not exist",
		"b.go:7: docs/gone" + md + " does not exist",
		"b.go:10: gone" + md + " does not exist",
		"deploy/shop.yaml:1: RULES" + md + " does not exist",
		"deploy/shop.yaml:2: docs/gone" + md + " does not exist",
		"docs/guide" + md + ":3: gone" + md + " does not exist",
		"docs/guide" + md + ":3: gone.png does not exist",
		"docs/guide" + md + ":3: guide" + md + "#gone does not exist",
		"docs/guide" + md + ":3: #not-a-title does not exist",
		"docs/guide" + md + ":9: RULES" + md + " does not exist",
		"proto/b.proto:1: docs/gone" + md + " does not exist",
	}
	if got := checkFolder(t, "testdata/dead"); !slices.Equal(got, want) {
		t.Errorf("the check found\n%q, want\n%q", got, want)
	}
}

// md is separate, because the command also reads the strings of this file.
const md = ".md"

func TestCheck_AcceptsReferencesToFilesAndTitles(t *testing.T) {
	if got := checkFolder(t, "testdata/alive"); len(got) != 0 {
		t.Errorf("the check found %q, want nothing", got)
	}
}

func TestCheck_IgnoresGeneratedCodeAndDeletedFiles(t *testing.T) {
	dead, err := check(os.DirFS("testdata/alive"), []string{"gen/a.go", "deleted.go"})
	if err != nil || len(dead) != 0 {
		t.Errorf("the check returned %q and %v, want nothing", dead, err)
	}
}
