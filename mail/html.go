package mail

import (
	_ "embed"
	"html/template"
	"strings"
)

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

// html returns the HTML part of a cleaned document.
func (d Document) html() (string, error) {
	var b strings.Builder
	if err := layout.Execute(&b, d); err != nil {
		return "", err
	}
	return b.String(), nil
}
