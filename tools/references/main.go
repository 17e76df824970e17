// Command references checks that everything that comments and documents refer to is in the
// repository: each path that ends in .md leads to a file, each link of a document to a file,
// and each anchor to a title. It prints the other references and then fails.
//
// It reads the files that git knows or would add, without generated code and testdata. It
// reads only the comments and strings of Go files. A path is relative to the folder of its
// file or to the root of the repository. Texts in tools/ become pages of docs/, so their
// paths can be relative to docs/ too, and their links are checked in the pages. It must run
// in the root of the checkout:
//
//	go run ./tools/references
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"log"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/tributary-hq/tributary/tools/commits"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("references: ")
	list, err := commits.Git(context.Background(), "ls-files", "--cached", "--others", "--exclude-standard")
	if err != nil {
		log.Fatal(err)
	}
	dead, err := check(os.DirFS("."), strings.Split(list, "\n"))
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range dead {
		fmt.Println(line)
	}
	if len(dead) > 0 {
		log.Fatalf("%d references lead nowhere: say the reason itself, or name a document of this repository", len(dead))
	}
}

// repository is the address of a file of the repository without its path.
const repository = "https://github.com/tributary-hq/tributary/blob/main/"

var (
	// link matches the end of a relative link. Its groups are the file, which is empty for a
	// link to a title of the same page, and the anchor.
	link = regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)
	// mention matches an address, or the path of a document. Its groups are the path and the
	// anchor.
	mention = regexp.MustCompile(`https?://\S+|([\w./%*<>{}$-]*\w\.md)\b(?:#([\w-]+))?`)
	// pattern matches characters of texts that are not a path but stand for several.
	pattern = regexp.MustCompile(`[%*<>{}$]`)
)

// tree is a repository: its files and folders, and the anchors of its documents.
type tree struct {
	files   fs.FS
	exists  map[string]bool
	anchors map[string]map[string]bool
}

// check returns the references of the files that lead nowhere, each with its file and line.
func check(root fs.FS, files []string) ([]string, error) {
	t := tree{files: root, exists: map[string]bool{".": true}, anchors: map[string]map[string]bool{}}
	for _, file := range files {
		for ; file != "."; file = path.Dir(file) {
			t.exists[file] = true
		}
	}
	var dead []string
	for _, file := range files {
		if strings.HasPrefix(file, "gen/") || strings.HasPrefix(file, "gateway/reference/") || strings.Contains(file, "/testdata/") {
			continue // generated, a copy of another project's program, and planted
		}
		text, err := fs.ReadFile(root, file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // deleted, and the deletion is not committed
		case err != nil:
			return nil, err
		case bytes.IndexByte(text, 0) >= 0:
			continue // not a text
		}
		found, err := t.deadReferences(file, string(text))
		if err != nil {
			return nil, err
		}
		dead = append(dead, found...)
	}
	return dead, nil
}

// deadReferences returns the references of a file that lead nowhere.
func (t *tree) deadReferences(file, text string) (dead []string, err error) {
	if path.Ext(file) == ".go" {
		text = commentsAndStrings(text)
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		report := func(alive bool, name, anchor string) {
			if anchor != "" {
				name += "#" + anchor
			}
			if !alive {
				dead = append(dead, fmt.Sprintf("%s:%d: %s does not exist", file, number, name))
			}
		}
		if path.Ext(file) == ".md" && !strings.HasPrefix(file, "tools/") {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				alive, err := t.leads(file, m[1], m[2])
				if err != nil {
					return nil, err
				}
				report(alive, m[1], m[2])
			}
		}
		if path.Ext(file) == ".md" {
			line = link.ReplaceAllString(line, "] ")
		}
		line = strings.ReplaceAll(line, repository, " ")
		for _, m := range mention.FindAllStringSubmatch(line, -1) {
			if m[1] == "" || pattern.MatchString(m[1]) {
				continue
			}
			alive, err := t.leads(file, m[1], m[2])
			if err != nil {
				return nil, err
			}
			report(alive, m[1], m[2])
		}
	}
	return dead, nil
}

// leads reports whether a reference in a file leads to a file or folder and, if it has an
// anchor, to a title. name is empty for a reference to a title of the same page.
func (t *tree) leads(file, name, anchor string) (bool, error) {
	targets := []string{path.Join(path.Dir(file), name), path.Clean(name)}
	if strings.HasPrefix(file, "tools/") {
		targets = append(targets, path.Join("docs", name))
	}
	if name == "" {
		targets = []string{file}
	}
	target := slices.IndexFunc(targets, func(target string) bool { return t.exists[target] })
	if target < 0 || anchor == "" || path.Ext(targets[target]) != ".md" {
		return target >= 0, nil
	}
	anchors, err := t.anchorsOf(targets[target])
	return anchors[anchor], err
}

// anchorsOf returns the anchors of the titles of a document.
func (t *tree) anchorsOf(document string) (map[string]bool, error) {
	if anchors, ok := t.anchors[document]; ok {
		return anchors, nil
	}
	text, err := fs.ReadFile(t.files, document)
	if err != nil {
		return nil, err
	}
	t.anchors[document] = anchors(string(text))
	return t.anchors[document], nil
}

// notInAnchor matches the characters of a title that are not in its anchor.
var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)

// anchors returns the anchors of the titles of a text, as GitHub makes them. The second title
// with the same text gets the suffix -1. Lines in code blocks are no titles.
func anchors(text string) map[string]bool {
	found, inCode := map[string]bool{}, false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			inCode = !inCode
		}
		title := strings.TrimLeft(line, "#")
		if inCode || title == line {
			continue
		}
		title = notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(link.ReplaceAllString(title, "]"))), "")
		anchor := strings.ReplaceAll(title, " ", "-")
		for n := 1; found[anchor]; n++ {
			anchor = fmt.Sprintf("%s-%d", strings.ReplaceAll(title, " ", "-"), n)
		}
		found[anchor] = true
	}
	return found
}

// commentsAndStrings returns the comments and strings of a Go file, each on its lines of the
// file.
func commentsAndStrings(source string) string {
	var s scanner.Scanner
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(source))
	s.Init(file, []byte(source), nil, scanner.ScanComments)
	var b strings.Builder
	line := 1
	for {
		pos, kind, text := s.Scan()
		if kind == token.EOF {
			return b.String()
		}
		if kind != token.COMMENT && kind != token.STRING {
			continue
		}
		b.WriteString(strings.Repeat("\n", file.Line(pos)-line) + text + " ")
		line = file.Line(pos) + strings.Count(text, "\n")
	}
}
