// Package mailtest has test helpers for packages that compose or send mail: golden files
// of documents, and a real SMTP server with programmable failures.
//
// Not for production: the server accepts mail from everyone and keeps it in memory.
package mailtest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/tributary-hq/tributary/mail"
)

var update = flag.Bool("update", false, "write the golden files")

// Golden renders document and compares it with testdata/NAME.golden.html and
// testdata/NAME.golden.txt of the package under test. The first line of the latter is the
// subject. With the flag -update, Golden writes the files. tools/mailpictures makes
// pictures of them.
func Golden(t testing.TB, name string, document mail.Document) {
	t.Helper()
	content, err := document.Render()
	if err != nil {
		t.Fatal(err)
	}
	for suffix, got := range map[string]string{
		".golden.html": content.HTML,
		".golden.txt":  "Subject: " + content.Subject + "\n\n" + content.Text,
	} {
		path := filepath.Join("testdata", name+suffix)
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil { //nolint:gosec // the files are part of the repository
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil { //nolint:gosec // see above
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v; run the test with -update to write the file", err)
		}
		if got != string(want) {
			t.Errorf("%s differs from the document; run the test with -update and read the changes. Got:\n%s", path, got)
		}
	}
}
