package e2e_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// object is a JSON object.
type object = map[string]any

// caller sends requests with a set of headers. The methods that change headers return a
// copy.
type caller struct {
	sys    *system
	header http.Header
}

func (sys *system) caller() caller { return caller{sys, http.Header{}} }

func (c caller) with(header, value string) caller {
	c.header = maps.Clone(c.header)
	c.header[http.CanonicalHeaderKey(header)] = []string{value}
	return c
}

// without removes a header. The request then also lacks the default value of the header.
func (c caller) without(header string) caller {
	c.header = maps.Clone(c.header)
	c.header[http.CanonicalHeaderKey(header)] = nil
	return c
}

// as sets the credential: an access token or a key.
func (c caller) as(credential string) caller { return c.with("Authorization", "Bearer "+credential) }

func (c caller) in(mode string) caller { return c.with("X-Mode", mode) }

// from sets the client address, as a trusted proxy reports it.
func (c caller) from(address string) caller { return c.with("X-Forwarded-For", address) }

// do calls the REST API. A string body is sent unchanged, any other body as JSON, and
// nil means no body.
func (c caller) do(t testing.TB, method, path string, body any) response {
	t.Helper()
	return c.send(t, method, c.sys.api+path, body)
}

func (c caller) get(t testing.TB, path string) response {
	t.Helper()
	return c.do(t, http.MethodGet, path, nil)
}

func (c caller) post(t testing.TB, path string, body any) response {
	t.Helper()
	return c.do(t, http.MethodPost, path, body)
}

func (c caller) patch(t testing.TB, path string, body any) response {
	t.Helper()
	return c.do(t, http.MethodPatch, path, body)
}

// send sends a request to a URL. If there is no response, it fails the test with
// t.Errorf, because it is also called from other goroutines.
func (c caller) send(t testing.TB, method, url string, body any) response {
	t.Helper()
	var reader io.Reader
	var sent []byte
	switch body := body.(type) {
	case nil:
	case string:
		sent, reader = []byte(body), strings.NewReader(body)
	case io.Reader:
		reader = body
	default:
		encoded, err := json.Marshal(body)
		if err != nil {
			t.Errorf("encode the body: %v", err)
			return response{t: t}
		}
		sent, reader = encoded, bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, reader)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
		return response{t: t}
	}
	request.Header = maps.Clone(c.header)
	if _, given := request.Header["Content-Type"]; reader != nil && !given {
		request.Header.Set("Content-Type", "application/json")
	}
	received, err := c.sys.http.Do(request)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
		return response{t: t}
	}
	defer func() { _ = received.Body.Close() }()
	text, err := io.ReadAll(received.Body)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
	}
	checkDocumented(t, request, received.StatusCode)
	checkMessages(t, request, sent, received.StatusCode, text)
	return response{t: t, request: method + " " + request.URL.RequestURI(), status: received.StatusCode, header: received.Header, body: string(text)}
}

// browserUserAgent is the user agent of a browser. The user agent of the Go client
// counts as a bot.
const browserUserAgent = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:130.0) Gecko/20100101 Firefox/130.0"

// click registers a click at the collector with a public key.
func (sys *system) click(t testing.TB, key string, body any) response {
	t.Helper()
	return sys.caller().as(key).with("User-Agent", browserUserAgent).send(t, http.MethodPost, sys.edge+"/v1/clicks", body)
}

// response is an HTTP response.
type response struct {
	t       testing.TB
	request string
	status  int
	header  http.Header
	body    string
}

// want ends the test if the status is not the expected one.
func (a response) want(status int) response {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d; body %s", a.request, a.status, status, a.body)
	}
	return a
}

// envelope is the body of every error (SPEC.md section 7).
type envelope struct {
	StatusCode int     `json:"statusCode"`
	Message    string  `json:"message"`
	Error      string  `json:"error"`
	Code       string  `json:"code"`
	Details    []fault `json:"details"`
}

// wantError checks the status, the error code and the format of the error. For a
// VALIDATION_ERROR with fields it checks that exactly these fields are listed. It
// returns the response, so that the headers can be checked too.
func (a response) wantError(status int, code string, fields ...string) response {
	a.t.Helper()
	if a.status != status {
		a.t.Errorf("%s: status %d, want %d %s; body %s", a.request, a.status, status, code, a.body)
		return a
	}
	decoder := json.NewDecoder(strings.NewReader(a.body))
	if code != "BULK_ALL_FAILED" { // has results in addition to the envelope
		decoder.DisallowUnknownFields()
	}
	var got envelope
	if err := decoder.Decode(&got); err != nil {
		a.t.Errorf("%s: not an error envelope: %v; body %s", a.request, err, a.body)
		return a
	}
	receivedCodes.Store(got.Code, true)
	if got.StatusCode != status || got.Code != code || got.Message == "" || got.Error != http.StatusText(status) {
		a.t.Errorf("%s: want %d %s, got %s", a.request, status, code, a.body)
	}
	if contentType := a.header.Get("Content-Type"); contentType != "application/json" {
		a.t.Errorf("%s: the error has the content type %q", a.request, contentType)
	}
	if got.Details != nil && code != "VALIDATION_ERROR" {
		a.t.Errorf("%s: only a VALIDATION_ERROR may have details: %s", a.request, a.body)
	}
	named := []string{}
	for _, detail := range got.Details {
		if detail.Message == "" {
			a.t.Errorf("%s: field %q has no message: %s", a.request, detail.Field, a.body)
		}
		named = append(named, detail.Field)
	}
	if len(fields) > 0 {
		slices.Sort(named)
		slices.Sort(fields)
		if !slices.Equal(slices.Compact(named), fields) {
			a.t.Errorf("%s: errors for the fields %q, want %q; body %s", a.request, named, fields, a.body)
		}
	}
	return a
}

// value returns the value at a path such as data.0.id. Numbers are of type json.Number.
func (a response) value(path string) any {
	a.t.Helper()
	decoder := json.NewDecoder(strings.NewReader(a.body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		a.t.Fatalf("%s: the response is not JSON: %v: %s", a.request, err, a.body)
	}
	for step := range strings.SplitSeq(path, ".") {
		var found bool
		switch in := value.(type) {
		case object:
			value, found = in[step]
		case []any:
			index, err := strconv.Atoi(step)
			if found = err == nil && index < len(in); found {
				value = in[index]
			}
		}
		if !found {
			a.t.Fatalf("%s: the response has no %s: %s", a.request, path, a.body)
		}
	}
	return value
}

func (a response) text(path string) string {
	a.t.Helper()
	text, ok := a.value(path).(string)
	if !ok {
		a.t.Fatalf("%s: %s is not a string: %s", a.request, path, a.body)
	}
	return text
}

func (a response) number(path string) int64 {
	a.t.Helper()
	number, ok := a.value(path).(json.Number)
	if !ok {
		a.t.Fatalf("%s: %s is not a number: %s", a.request, path, a.body)
	}
	n, err := number.Int64()
	if err != nil {
		a.t.Fatalf("%s: %s is not an integer: %s", a.request, path, a.body)
	}
	return n
}

// instant returns a timestamp. It must have three decimals.
func (a response) instant(path string) time.Time {
	a.t.Helper()
	at, err := time.Parse("2006-01-02T15:04:05.000Z", a.text(path))
	if err != nil {
		a.t.Fatalf("%s: %s: %v", a.request, path, err)
	}
	return at
}

// length returns the number of elements of a list.
func (a response) length(path string) int {
	a.t.Helper()
	list, ok := a.value(path).([]any)
	if !ok {
		a.t.Fatalf("%s: %s is not a list: %s", a.request, path, a.body)
	}
	return len(list)
}

// wantFields compares values of the response. Write integers as int.
func (a response) wantFields(want object) response {
	a.t.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		value := want[path]
		if n, ok := value.(int); ok {
			value = json.Number(strconv.Itoa(n))
		}
		expected, _ := json.Marshal(value)
		got, _ := json.Marshal(a.value(path))
		if !bytes.Equal(got, expected) {
			a.t.Errorf("%s: %s is %s, want %s", a.request, path, got, expected)
		}
	}
	return a
}

// retryAfter returns the value of the Retry-After header. It must be at least one
// second.
func (a response) retryAfter() time.Duration {
	a.t.Helper()
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		a.t.Fatalf("%s: Retry-After is %q", a.request, a.header.Get("Retry-After"))
	}
	return time.Duration(seconds) * time.Second
}

// countStatuses counts responses by status and error code.
func countStatuses(responses []response) map[string]int {
	counts := map[string]int{}
	for _, a := range responses {
		var e envelope
		if a.status >= http.StatusBadRequest {
			_ = json.Unmarshal([]byte(a.body), &e)
		}
		counts[strings.TrimSpace(strconv.Itoa(a.status)+" "+cmp.Or(e.Code, ""))]++
	}
	return counts
}

// concurrently sends n requests concurrently and returns the responses.
func concurrently(n int, request func(i int) response) []response {
	responses := make([]response, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { responses[i] = request(i) })
	}
	all.Wait()
	return responses
}

func containsAll(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
