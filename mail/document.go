package mail

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Document is the content of a mail, independent of its format. Every field is plain
// text. Only paragraphs and the bodies of items keep line breaks; elsewhere a line break
// becomes a space.
type Document struct {
	Brand     string // optional; the name above the content, for example of the product
	Logo      string // optional; an http or https URL of a picture above the name
	Subject   string // at most 200 characters are used
	Preheader string // optional; mail programs show it in their list after the subject; not visible in the mail
	Heading   string
	Greeting  string // optional, "Hello Maria,"
	Blocks    []Block
	Button    *Link    // optional; its URL is also shown as text below it
	Closing   []string // optional paragraphs after the button
	Footer    Footer
}

// Block is one element of the main part. Exactly one field is set.
type Block struct {
	Paragraph string // line breaks are kept, blank lines separate paragraphs
	Facts     []Fact // a small table
	Items     []Item // a list, for example of notifications
	More      string // a note after a list, "and 12 more"
}

// Fact is one row of a table.
type Fact struct{ Label, Value string }

// Item is one entry of a list. Body, Time and URL are optional. Time is text, as the
// reader should see it. URL is an http or https URL that the title links to.
type Item struct{ Title, Body, Time, URL string }

// Link is a labeled http or https URL.
type Link struct{ Label, URL string }

// Footer is the small print.
type Footer struct {
	Reason         string // why the recipient gets this mail
	UnsubscribeURL string // optional; an http or https URL
}

// Content is a document in the formats of a mail.
type Content struct{ Subject, HTML, Text string }

const (
	maxSubject   = 200 // characters
	maxPreheader = 200 // characters
)

// Render returns the subject, the HTML part and the text part of the document. It returns
// an error if the document has no subject or heading, if a block has not exactly one
// field, if a button has no label, or if a URL is not an absolute http or https URL. The
// error contains no text of the document.
func (d Document) Render() (Content, error) {
	if err := d.check(); err != nil {
		return Content{}, fmt.Errorf("mail: %w", err)
	}
	c := d.clean()
	html, err := c.html()
	if err != nil {
		return Content{}, fmt.Errorf("mail: execute the layout: %w", err)
	}
	return Content{Subject: c.Subject, HTML: html, Text: c.text()}, nil
}

func (d Document) check() error {
	if line(d.Subject) == "" {
		return errors.New("the document has no subject")
	}
	if line(d.Heading) == "" {
		return errors.New("the document has no heading")
	}
	for i, b := range d.Blocks {
		if n := b.fields(); n != 1 {
			return fmt.Errorf("block %d has %d fields, want 1", i, n)
		}
		for _, item := range b.Items {
			if item.URL != "" && !isWebURL(item.URL) {
				return fmt.Errorf("an item of block %d has a URL that is not http or https", i)
			}
		}
	}
	if d.Button != nil && line(d.Button.Label) == "" {
		return errors.New("the button has no label")
	}
	if d.Button != nil && !isWebURL(d.Button.URL) {
		return errors.New("the URL of the button is not http or https")
	}
	if d.Logo != "" && !isWebURL(d.Logo) {
		return errors.New("the URL of the logo is not http or https")
	}
	if u := d.Footer.UnsubscribeURL; u != "" && !isWebURL(u) {
		return errors.New("the unsubscribe URL is not http or https")
	}
	return nil
}

func (b Block) fields() int {
	n := 0
	for _, set := range []bool{b.Paragraph != "", len(b.Facts) > 0, len(b.Items) > 0, b.More != ""} {
		if set {
			n++
		}
	}
	return n
}

// isWebURL reports whether s is an absolute http or https URL. url.Parse rejects control
// characters.
func isWebURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// clean returns a copy of d without control characters. Both formats use it, so that both
// have the same text.
func (d Document) clean() Document {
	d.Brand = line(d.Brand)
	d.Logo = encodeURL(d.Logo)
	d.Subject = shorten(line(d.Subject), maxSubject)
	d.Preheader = shorten(line(d.Preheader), maxPreheader)
	d.Heading = line(d.Heading)
	d.Greeting = line(d.Greeting)
	d.Footer.Reason = line(d.Footer.Reason)
	d.Footer.UnsubscribeURL = encodeURL(d.Footer.UnsubscribeURL)
	if d.Button != nil {
		d.Button = &Link{Label: line(d.Button.Label), URL: encodeURL(d.Button.URL)}
	}
	closing := make([]string, len(d.Closing))
	for i, paragraph := range d.Closing {
		closing[i] = lines(paragraph)
	}
	d.Closing = closing
	blocks := make([]Block, len(d.Blocks))
	for i, b := range d.Blocks {
		blocks[i] = b.clean()
	}
	d.Blocks = blocks
	return d
}

func (b Block) clean() Block {
	c := Block{Paragraph: lines(b.Paragraph), More: line(b.More)}
	for _, f := range b.Facts {
		c.Facts = append(c.Facts, Fact{Label: line(f.Label), Value: line(f.Value)})
	}
	for _, item := range b.Items {
		c.Items = append(c.Items, Item{Title: line(item.Title), Body: lines(item.Body), Time: line(item.Time), URL: encodeURL(item.URL)})
	}
	return c
}

// encodeURL percent-encodes spaces and other characters with which a mail program would
// end the URL early in the text part. s is empty or satisfies isWebURL.
func encodeURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	return urlEscapes.Replace(u.String())
}

//go:embed layout.html.tmpl
var layoutText string

// layout is the HTML of all mails. html/template escapes every value for its place.
var layout = template.Must(template.New("layout").Funcs(template.FuncMap{
	"outlookStart": func() template.HTML { return outlookStart },
	"outlookEnd":   func() template.HTML { return outlookEnd },
	"filler":       func() template.HTML { return filler },
	"paragraphs":   func(s string) []string { return strings.Split(s, "\n\n") },
	"lines":        func(s string) []string { return strings.Split(s, "\n") },
}).Parse(layoutText))

// html/template removes comments, so these constants are inserted as values.
const (
	// Outlook on Windows ignores max-width. A table that only Outlook reads limits the
	// width there.
	outlookStart = `<!--[if mso]><table role="presentation" align="center" width="600" cellpadding="0" cellspacing="0" border="0"><tr><td><![endif]-->`
	outlookEnd   = `<!--[if mso]></td></tr></table><![endif]-->`
)

// filler follows the preheader. Mail programs show a fixed number of characters after the
// subject; without the filler, they would continue with the heading. The characters have
// no width.
var filler = template.HTML(strings.Repeat("&#847;&zwnj;&nbsp;", 60)) //nolint:gosec // a constant

func (d Document) html() (string, error) {
	var b strings.Builder
	if err := layout.Execute(&b, d); err != nil {
		return "", err
	}
	return b.String(), nil
}

// urlEscapes replaces characters that are allowed in url.URL.RawQuery, but not in a URL.
var urlEscapes = strings.NewReplacer(" ", "%20", "<", "%3C", ">", "%3E", `"`, "%22")

// line returns s as one line without the characters that visible removes or replaces. Each run of line breaks, tabs
// and spaces becomes one space.
func line(s string) string {
	return strings.Join(strings.Fields(visible(s)), " ")
}

// lines is like line, but keeps single line breaks and blank lines. More than one blank
// line in a row becomes one.
func lines(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n\n").Replace(s)
	var kept []string
	for _, l := range strings.Split(s, "\n") {
		l = line(l)
		if l == "" && (len(kept) == 0 || kept[len(kept)-1] == "") {
			continue
		}
		kept = append(kept, l)
	}
	return strings.TrimRight(strings.Join(kept, "\n"), "\n")
}

// visible replaces control characters by spaces. It removes byte order marks, and characters that change the direction
// of the text around them, because a name with such a character could make the rest of a sentence read backwards.
// Letters of right-to-left scripts have their direction without these characters. Invalid UTF-8 becomes U+FFFD.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return ' '
		case r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069', r == '\ufeff':
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}

// shorten returns at most limit characters of s. If s is longer, the last character of the
// result is an ellipsis.
func shorten(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:limit-1]), " ") + "…"
}

// text returns the text part of a cleaned document. Lines are not wrapped, because mail
// programs wrap them at the width of the window.
func (d Document) text() string {
	parts := []string{d.Heading}
	add := func(part string) {
		if part != "" {
			parts = append(parts, part)
		}
	}
	add(d.Greeting)
	for _, b := range d.Blocks {
		add(b.text())
	}
	if d.Button != nil {
		add(d.Button.Label + ":\n" + d.Button.URL)
	}
	for _, paragraph := range d.Closing {
		add(paragraph)
	}
	add(d.Footer.text(d.Brand))
	return strings.Join(parts, "\n\n") + "\n"
}

func (b Block) text() string {
	var rows []string
	for _, f := range b.Facts {
		rows = append(rows, strings.TrimRight(f.Label+": "+f.Value, " "))
	}
	for _, item := range b.Items {
		rows = append(rows, item.text())
	}
	separator := "\n"
	if len(b.Items) > 0 {
		separator = "\n\n"
	}
	return b.Paragraph + strings.Join(rows, separator) + b.More
}

func (i Item) text() string {
	rows := []string{i.Title}
	if i.Time != "" {
		rows[0] += " (" + i.Time + ")"
	}
	if i.Body != "" {
		rows = append(rows, strings.Split(i.Body, "\n")...)
	}
	if i.URL != "" {
		rows = append(rows, i.URL)
	}
	return "* " + strings.Join(rows, "\n  ")
}

// text separates the footer with a line, because the text part has no smaller font.
func (f Footer) text(brand string) string {
	rows := []string{"---"}
	if brand != "" {
		rows = append(rows, brand)
	}
	if f.Reason != "" {
		rows = append(rows, f.Reason)
	}
	if f.UnsubscribeURL != "" {
		rows = append(rows, "Unsubscribe: "+f.UnsubscribeURL)
	}
	if len(rows) == 1 {
		return ""
	}
	return strings.Join(rows, "\n")
}
