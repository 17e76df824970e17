package mailsink

import (
	_ "embed"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"time"
)

// refreshSeconds is the time after which the browser loads the list again.
const refreshSeconds = 3

//go:embed pages.html
var pages string

var templates = template.Must(template.New("pages").Funcs(template.FuncMap{
	"clock": func(t Time) string { return t.Local().Format(time.DateTime) },
}).Parse(pages))

// serveList serves the page with the list of mails.
func (s *Sink) serveList(w http.ResponseWriter, r *http.Request) {
	query, ok := readQuery(w, r, "to")
	if !ok {
		return
	}
	to := query.Get("to")
	writePage(w, "list", map[string]any{
		"To":             to,
		"Messages":       s.Messages(to),
		"RefreshSeconds": refreshSeconds,
	})
}

// serveMessage serves the page of one mail.
func (s *Sink) serveMessage(w http.ResponseWriter, r *http.Request) {
	if _, ok := readQuery(w, r); !ok {
		return
	}
	m, found := s.message(r.PathValue("id"))
	if !found {
		http.NotFound(w, r)
		return
	}
	writePage(w, "message", map[string]any{
		"Message":     m,
		"HeaderNames": slices.Sorted(maps.Keys(m.Headers)),
		"Frame":       frameDocument(m.HTML),
	})
}

// frameDocument returns the document of the sandboxed frame that shows the HTML of a
// mail. The base element opens links in a new tab, because most websites refuse to load
// in a frame. The doctype is first, so that browsers use the standards mode; they ignore
// a second doctype and a second base element in the mail.
func frameDocument(html string) string {
	if html == "" {
		return ""
	}
	return `<!doctype html><base target="_blank">` + html
}

func writePage(w http.ResponseWriter, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = templates.ExecuteTemplate(w, name, data) // an error means that the client has disconnected
}
