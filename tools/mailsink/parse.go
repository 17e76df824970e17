package mailsink

import (
	"bytes"
	"io"
	"strings"

	"github.com/emersion/go-message"
	_ "github.com/emersion/go-message/charset" // decodes charsets other than UTF-8 and ASCII
)

// parse returns the headers and the texts of a mail.
func parse(source []byte) Message {
	entity, err := message.Read(bytes.NewReader(source))
	if entity == nil || err != nil && !isUnknownCoding(err) {
		return Message{Headers: map[string]string{}, Text: clean(source)}
	}
	m := Message{
		From:    headerText(entity.Header, "From"),
		Subject: headerText(entity.Header, "Subject"),
		Headers: headers(entity.Header),
	}
	if err := m.readParts(entity); err != nil && m.Text == "" && m.HTML == "" {
		m.Text = clean(source)
	}
	return m
}

// readParts sets Text and HTML.
func (m *Message) readParts(entity *message.Entity) error {
	hasText, hasHTML := false, false
	return entity.Walk(func(_ []int, part *message.Entity, err error) error {
		if err != nil && !isUnknownCoding(err) {
			return err
		}
		mediaType, _, _ := part.Header.ContentType() // if it is malformed, the part is ignored
		disposition, _, _ := part.Header.ContentDisposition()
		switch {
		case disposition == "attachment":
			return nil
		case mediaType == "text/plain" && !hasText:
			hasText = true
			m.Text, err = read(part.Body)
			return err
		case mediaType == "text/html" && !hasHTML:
			hasHTML = true
			m.HTML, err = read(part.Body)
			return err
		}
		return nil
	})
}

// isUnknownCoding reports whether err means that a part has an unknown charset or
// transfer encoding. The part is readable, but not decoded.
func isUnknownCoding(err error) bool {
	return message.IsUnknownCharset(err) || message.IsUnknownEncoding(err)
}

func read(body io.Reader) (string, error) {
	text, err := io.ReadAll(body)
	return clean(text), err
}

// clean returns a text with \n as the line break and without invalid UTF-8.
func clean(text []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(text), "\uFFFD"), "\r\n", "\n")
}

// headerText returns a header with encoded words decoded.
func headerText(h message.Header, name string) string {
	text, _ := h.Text(name) // if the charset is unknown, text is the value as it was sent
	return clean([]byte(text))
}

// headers returns all headers. Their names are canonical.
func headers(h message.Header) map[string]string {
	all := map[string]string{}
	for fields := h.Fields(); fields.Next(); {
		name, value := fields.Key(), clean([]byte(fields.Value()))
		if earlier, repeated := all[name]; repeated {
			value = earlier + "\n" + value
		}
		all[name] = value
	}
	return all
}
