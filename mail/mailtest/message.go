// Package mailtest has test helpers for packages that compose or send mail: golden files
// of documents, and a real SMTP server with programmable failures.
//
// Not for production: the server accepts mail from everyone and keeps it in memory.
package mailtest

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	netmail "net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/mail"
)

// Message is a mail that the server accepted.
type Message struct {
	From     string   // of the envelope
	To       []string // of the envelope
	User     string   // the authenticated user; empty: none
	TLS      bool     // the connection was encrypted
	SMTPUTF8 bool     // MAIL FROM had the parameter SMTPUTF8

	Header  netmail.Header
	Subject string // decoded
	Text    string // the text part, decoded, with LF
	HTML    string // the HTML part, decoded, with LF
	Raw     string // as received
}

// parse returns an error if raw is not a mail with a text part and an HTML part, in this
// order.
func parse(raw []byte) (Message, error) {
	parsed, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return Message{}, err
	}
	m := Message{Header: parsed.Header, Raw: string(raw)}
	if m.Subject, err = new(mime.WordDecoder).DecodeHeader(parsed.Header.Get("Subject")); err != nil {
		return Message{}, err
	}
	mediaType, parameters, err := mime.ParseMediaType(parsed.Header.Get("Content-Type"))
	if err != nil {
		return Message{}, err
	}
	if mediaType != "multipart/alternative" {
		return Message{}, errNotMultipart
	}
	parts := multipart.NewReader(parsed.Body, parameters["boundary"])
	for _, part := range []struct {
		mediaType string
		text      *string
	}{{"text/plain", &m.Text}, {"text/html", &m.HTML}} {
		if *part.text, err = readPart(parts, part.mediaType); err != nil {
			return Message{}, err
		}
	}
	if _, err := parts.NextPart(); err != io.EOF {
		return Message{}, fmt.Errorf("a third part: %w", errNotMultipart)
	}
	return m, nil
}

// readPart reads the next part. The reader decodes quoted-printable.
func readPart(parts *multipart.Reader, mediaType string) (string, error) {
	part, err := parts.NextPart()
	if err != nil {
		return "", err
	}
	if got, _, err := mime.ParseMediaType(part.Header.Get("Content-Type")); err != nil || got != mediaType {
		return "", fmt.Errorf("the part is %q, want %s", got, mediaType)
	}
	text, err := io.ReadAll(part)
	return strings.ReplaceAll(string(text), "\r\n", "\n"), err
}

var update = flag.Bool("update", false, "write the golden files")

// Golden renders document and compares it with testdata/NAME.golden.html and
// testdata/NAME.golden.txt of the package under test. The first line of the text file is the
// subject. With the flag -update, Golden writes the files. tools/mailpictures makes
// pictures of the HTML files.
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
