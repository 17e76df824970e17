package mailsink

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/tributary-hq/tributary/tools/localhost"
)

// contentPolicy is the Content-Security-Policy of all responses. The frame that contains
// the HTML of a mail inherits it. Nothing is loaded from the network, no script runs, and
// a base element in a mail cannot change its links. Mails need inline styles.
const contentPolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler returns the handler of the page and of the API.
//
//	GET    /                   the page with all mails; ?to=ADDRESS as below
//	GET    /messages/{id}      the page of one mail
//	GET    /api/messages       an array of Message, newest first; ?to=ADDRESS returns the
//	                           mails to this address, compared without regard to case
//	GET    /api/messages/{id}  one Message
//	DELETE /api/messages       deletes all mails, 204
//
// Errors are plain text: 400 for a query that is not listed here, 403 for a Host header
// that is not localhost, 127.0.0.1 or [::1], 404 for an unknown id.
func (s *Sink) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.serveList)
	mux.HandleFunc("GET /messages/{id}", s.serveMessage)
	mux.HandleFunc("GET /api/messages", s.listMessages)
	mux.HandleFunc("GET /api/messages/{id}", s.getMessage)
	mux.HandleFunc("DELETE /api/messages", s.deleteMessages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		if !localhost.Allow(w, r) {
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (s *Sink) listMessages(w http.ResponseWriter, r *http.Request) {
	query, ok := readQuery(w, r, "to")
	if ok {
		writeJSON(w, s.Messages(query.Get("to")))
	}
}

func (s *Sink) getMessage(w http.ResponseWriter, r *http.Request) {
	if _, ok := readQuery(w, r); !ok {
		return
	}
	m, found := s.message(r.PathValue("id"))
	if !found {
		http.NotFound(w, r)
		return
	}
	writeJSON(w, m)
}

func (s *Sink) deleteMessages(w http.ResponseWriter, r *http.Request) {
	if _, ok := readQuery(w, r); !ok {
		return
	}
	s.clear()
	w.WriteHeader(http.StatusNoContent)
}

// readQuery returns the query parameters. If a parameter is not in names, is empty or is
// repeated, readQuery responds with 400 and returns false.
func readQuery(w http.ResponseWriter, r *http.Request, names ...string) (query url.Values, ok bool) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		http.Error(w, "The query cannot be parsed.", http.StatusBadRequest)
		return nil, false
	}
	for name, values := range query {
		switch {
		case !slices.Contains(names, name):
			http.Error(w, fmt.Sprintf("The query parameter %q is unknown.", name), http.StatusBadRequest)
			return nil, false
		case len(values) != 1 || values[0] == "":
			http.Error(w, fmt.Sprintf("The query parameter %q must have one value.", name), http.StatusBadRequest)
			return nil, false
		}
	}
	return query, true
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // shell scripts search for links in the HTML of mails
	_ = encoder.Encode(value)    // an error means that the client has disconnected
}
