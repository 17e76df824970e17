package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages lists the pages of the documentation whose examples run on the demo.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "docs/merchant/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	list := []string{"docs/stripe.md", "docs/partner-api.md", "docs/grpc.md", "docs/landing-page.md", "clients/go/README.md"}
	for _, path := range found {
		list = append(list, "docs/merchant/"+filepath.Base(path))
	}
	return list
}

// codeBlock matches a code block and its language. A code block with a second word after
// the language, such as "go excerpt", does not match, so it is not run.
var codeBlock = regexp.MustCompile("(?ms)^```(sh|js|python|go)\n(.*?)^```$")

// interpreters maps a language to the command that runs a code block from standard input.
// Programs in Go are not in this map, because they are written to a file and run with go
// run.
var interpreters = map[string]string{
	"js":     "node --input-type=module -",
	"python": "python3 -",
}

// exampleScript returns a shell script that runs all code blocks of a page in their
// order. The sh blocks run in the same shell. The other blocks get the exported variables
// of this shell.
func exampleScript(text string) string {
	var script strings.Builder
	script.WriteString("set -eu -o pipefail\n")
	for i, block := range codeBlock.FindAllStringSubmatch(text, -1) {
		language, code := block[1], block[2]
		switch language {
		case "sh":
			script.WriteString(code)
		case "go":
			// With -trimpath, the program does not depend on its folder, so later runs find it
			// in Go's build cache.
			file := fmt.Sprintf("$EXAMPLES/%d/main.go", i)
			fmt.Fprintf(&script, "mkdir -p %q\ncat > %q <<'END_OF_BLOCK'\n%sEND_OF_BLOCK\n(cd \"$MODULE\" && go run -trimpath %q)\n", filepath.Dir(file), file, code, file)
		default:
			fmt.Fprintf(&script, "%s <<'END_OF_BLOCK'\n%sEND_OF_BLOCK\n", interpreters[language], code)
		}
	}
	return script.String()
}

// Every example of the documentation must work. It must also work a second time, because
// a reader may repeat a page.
func TestDocumentation_ExamplesWork(t *testing.T) {
	t.Parallel()
	dir := makeTempDir(t)
	r := start(t, dir, testEnv("TRIBUTARY_LIMIT_GENERAL=10000", "TRIBUTARY_LIMIT_CONVERSIONS=10000"))
	defer r.stop(t)
	module, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("pages", func(t *testing.T) {
		for _, page := range pages(t) {
			script := exampleScript(read(t, page))
			if !strings.Contains(script, "curl") && !strings.Contains(script, "go run") {
				continue // the page has no examples
			}
			t.Run(filepath.Base(page), func(t *testing.T) {
				t.Parallel()
				examples := t.TempDir()
				for range 2 {
					cmd := exec.Command("bash", "-c", script)
					cmd.Dir = dir
					cmd.Env = append(os.Environ(), "EXAMPLES="+examples, "MODULE="+module)
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Fatalf("run the examples: %v\n%s", err, out)
					}
				}
			})
		}
	})
}

func TestExampleScript(t *testing.T) {
	t.Parallel()
	page := "# Page\n\n```sh\nexport A=1\n```\n\n```js\nconsole.log(process.env.A)\n```\n\n```js excerpt\nnot run\n```\n\n```json\n{}\n```\n\n```python\nimport os\nprint(os.environ['A'] + 'p')\n```\n"
	out, err := exec.Command("bash", "-c", exampleScript(page)).CombinedOutput()
	if err != nil || string(out) != "1\n1p\n" {
		t.Errorf("the script printed %q and returned %v, want 1 and 1p", out, err)
	}
	if out, err := exec.Command("bash", "-c", exampleScript("```sh\nfalse\n```\n```sh\ntrue\n```\n")).CombinedOutput(); err == nil {
		t.Errorf("a failing block did not fail the script: %q", out)
	}
}
