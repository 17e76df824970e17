package mailtest

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	netmail "net/mail"
	"strings"
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
