package stripeserver

import (
	"encoding/json"
	"mime"
	"net/http"
)

// The paths with which other processes store objects and create events.
const (
	objectsPath = "/_objects"
	eventsPath  = "/_events"
)

// controlHandler returns the handler for other processes. They need no key. The requests
// must have the content type application/json, so that a browser does not send them for a
// website without a preflight request, which fails.
//
//	POST /_objects  a JSON object; stores it as Put does, 204
//	POST /_events   {"type": "charge.refunded", "object": "ch_1"}; stores an event as Event
//	                does and returns its body
//
// Errors are plain text: 400 for a body that is not valid, 404 for an object that does not
// exist, 415 for another content type.
func (s *Server) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+objectsPath, s.serveObjects)
	mux.HandleFunc("POST "+eventsPath, s.serveEvents)
	return mux
}

func (s *Server) serveObjects(w http.ResponseWriter, r *http.Request) {
	var object map[string]any
	if !readJSON(w, r, &object) {
		return
	}
	if text(object, "id") == "" || text(object, "object") == "" {
		http.Error(w, "The fields id and object are required.", http.StatusBadRequest)
		return
	}
	s.Put(object)
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	var event struct{ Type, Object string }
	if !readJSON(w, r, &event) {
		return
	}
	if event.Type == "" || event.Object == "" {
		http.Error(w, "The fields type and object are required.", http.StatusBadRequest)
		return
	}
	body, found := s.addEvent(event.Type, event.Object, nil)
	if !found {
		http.Error(w, "The object does not exist.", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // an error means that the client has disconnected
}

// readJSON decodes the body of a request. If it returns false, it has sent an error.
func readJSON(w http.ResponseWriter, r *http.Request, value any) bool {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "The content type must be application/json.", http.StatusUnsupportedMediaType)
		return false
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(value); err != nil {
		http.Error(w, "The body is not a valid JSON object.", http.StatusBadRequest)
		return false
	}
	return true
}
