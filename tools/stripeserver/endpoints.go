package stripeserver

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Endpoint is a webhook endpoint.
type Endpoint struct {
	ID            string
	URL           string
	Secret        string // signs the messages
	EnabledEvents []string
	APIVersion    string // empty for the version of the account
	Status        string // enabled or disabled
}

// Endpoints returns the registered webhook endpoints, oldest first. Put can change them,
// for example to disable one.
func (s *Server) Endpoints() []Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Endpoint
	for _, o := range slices.Backward(s.matching(resourceOf("webhook_endpoint"), nil)) {
		id := text(o.fields, "id")
		found = append(found, Endpoint{
			ID: id, URL: text(o.fields, "url"), Secret: s.secrets[id], EnabledEvents: texts(o.fields["enabled_events"]),
			APIVersion: text(o.fields, "api_version"), Status: text(o.fields, "status"),
		})
	}
	return found
}

// createEndpoint processes POST /v1/webhook_endpoints. Only its answer contains the
// secret.
func (s *Server) createEndpoint(c call) answer {
	if a, ok := checkURL(c); !ok {
		return a
	}
	if a, ok := knownParams(c.params, "api_version", "description", "enabled_events", "metadata", "url"); !ok {
		return a
	}
	secret := newID("whsec_")
	endpoint := deepCopy(map[string]any{
		"id": newID("we_"), "object": "webhook_endpoint", "application": nil, "status": "enabled", "secret": secret,
		"api_version": optional(c.params["api_version"]), "description": optional(c.params["description"]),
		"enabled_events": texts(c.params["enabled_events"]), "metadata": metadata(nil, c.params), "url": c.params["url"],
		"created": time.Now().Unix(), "livemode": c.live,
	})
	response := success(endpoint)
	s.put(endpoint)
	return response
}

// updateEndpoint processes POST /v1/webhook_endpoints/{id}.
func (s *Server) updateEndpoint(c call) answer {
	endpoint, a, ok := s.find(c)
	if !ok {
		return a
	}
	if a, ok := knownParams(c.params, "description", "disabled", "enabled_events", "metadata", "url"); !ok {
		return a
	}
	endpoint = deepCopy(endpoint)
	if c.params["url"] != nil {
		if a, ok := checkURL(c); !ok {
			return a
		}
		endpoint["url"] = c.params["url"]
	}
	if events := texts(c.params["enabled_events"]); events != nil {
		endpoint["enabled_events"] = events
	}
	if description, given := c.params["description"]; given {
		endpoint["description"] = optional(description)
	}
	switch c.params["disabled"] {
	case "true":
		endpoint["status"] = "disabled"
	case "false":
		endpoint["status"] = "enabled"
	}
	endpoint["metadata"] = metadata(endpoint["metadata"], c.params)
	s.put(deepCopy(endpoint))
	return s.retrieve(c)
}

// checkURL checks the URL of an endpoint.
func checkURL(c call) (a answer, ok bool) {
	parsed, err := url.Parse(text(c.params, "url"))
	if err == nil && parsed.Host != "" && (parsed.Scheme == "http" && !c.live || parsed.Scheme == "https") {
		return answer{}, true
	}
	message := "Not a valid URL"
	switch {
	case err == nil && parsed.Scheme == "":
		message = "Invalid URL: An explicit scheme (such as https) must be provided."
	case err == nil && parsed.Scheme == "http":
		message = "Invalid URL: URL must be HTTPS in live mode."
	}
	return failure(http.StatusBadRequest, apiError{Code: "url_invalid", Param: "url", Message: message}), false
}

// knownParams checks that all parameters are among names. The parameter expand is always
// known.
func knownParams(params map[string]any, names ...string) (a answer, ok bool) {
	for name := range params {
		if name != "expand" && !slices.Contains(names, name) {
			return unsupported(name), false
		}
	}
	return answer{}, true
}

// optional returns a parameter, or nil if it is absent or empty.
func optional(value any) any {
	if value == nil || value == "" {
		return nil
	}
	return value
}

// metadata returns the metadata of an object after a request. An empty value removes a
// key, and an empty parameter removes all keys.
func metadata(stored any, params map[string]any) map[string]any {
	merged := map[string]any{}
	if old, ok := stored.(map[string]any); ok && params["metadata"] != "" {
		maps.Copy(merged, old)
	}
	given, _ := params["metadata"].(map[string]any)
	for key, value := range given {
		merged[key] = value
		if value == "" {
			delete(merged, key)
		}
	}
	return merged
}
