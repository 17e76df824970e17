package e2e_test

import (
	"bufio"
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

// apiClient sends requests with fixed headers. The methods that change headers return a
// changed copy.
type apiClient struct {
	sys    *system
	header http.Header
}

func (sys *system) client() apiClient { return apiClient{sys, http.Header{}} }

func (c apiClient) withHeader(header, value string) apiClient {
	c.header = maps.Clone(c.header)
	c.header[http.CanonicalHeaderKey(header)] = []string{value}
	return c
}

// withoutHeader removes a header. Requests then do not have its default value either.
func (c apiClient) withoutHeader(header string) apiClient {
	c.header = maps.Clone(c.header)
	c.header[http.CanonicalHeaderKey(header)] = nil
	return c
}

// withCredential sets the credential, which is an access token or a key.
func (c apiClient) withCredential(credential string) apiClient {
	return c.withHeader("Authorization", "Bearer "+credential)
}

func (c apiClient) inMode(mode string) apiClient { return c.withHeader("X-Mode", mode) }

// fromAddress sets the header in which a trusted proxy reports the address of the client.
func (c apiClient) fromAddress(address string) apiClient {
	return c.withHeader("X-Forwarded-For", address)
}

// do calls the REST API. A body of type string or io.Reader is sent unchanged. Any other
// body is sent as JSON. If body is nil, the request has no body.
func (c apiClient) do(t testing.TB, method, path string, body any) response {
	t.Helper()
	return c.send(t, method, c.sys.api+path, body)
}

func (c apiClient) get(t testing.TB, path string) response {
	t.Helper()
	return c.do(t, http.MethodGet, path, nil)
}

func (c apiClient) post(t testing.TB, path string, body any) response {
	t.Helper()
	return c.do(t, http.MethodPost, path, body)
}

func (c apiClient) patch(t testing.TB, path string, body any) response {
	t.Helper()
	return c.do(t, http.MethodPatch, path, body)
}

// send sends a request to a URL. If there is no response, it calls t.Errorf and returns
// an empty response. It does not call t.Fatalf, because tests also call send in
// goroutines that they have started, in which t.Fatalf is not allowed.
func (c apiClient) send(t testing.TB, method, url string, body any) response {
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
	if _, found := request.Header["Content-Type"]; reader != nil && !found {
		request.Header.Set("Content-Type", "application/json")
	}
	received, err := c.sys.http.Do(request)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
		return response{t: t}
	}
	defer func() { _ = received.Body.Close() }()
	text, err := readBody(received)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
	}
	checkDocumented(t, request, received.StatusCode)
	checkMessages(t, request, sent, received.StatusCode, text)
	return response{t: t, request: method + " " + request.URL.RequestURI(), status: received.StatusCode, header: received.Header, body: string(text)}
}

// readBody reads a body. A stream does not end, so readBody only reads its first event.
func readBody(received *http.Response) ([]byte, error) {
	if received.Header.Get("Content-Type") != "text/event-stream" {
		return io.ReadAll(received.Body)
	}
	var text []byte
	for lines := bufio.NewReader(received.Body); ; {
		line, err := lines.ReadBytes('\n')
		if text = append(text, line...); err != nil || len(line) == 1 {
			return text, err
		}
	}
}

// browserUserAgent is the user agent of a browser. The user agent of the Go client
// counts as a bot.
const browserUserAgent = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:130.0) Gecko/20100101 Firefox/130.0"

// click registers a click at the collector with a public key.
func (sys *system) click(t testing.TB, key string, body any) response {
	t.Helper()
	return sys.client().withCredential(key).withHeader("User-Agent", browserUserAgent).send(t, http.MethodPost, sys.edge+"/v1/clicks", body)
}

// response is an HTTP response.
type response struct {
	t       testing.TB
	request string
	status  int
	header  http.Header
	body    string
}

// wantStatus ends the test if the response has another status.
func (r response) wantStatus(status int) response {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%s: status %d, want %d; body %s", r.request, r.status, status, r.body)
	}
	return r
}

// errorBody is the body of every error response (docs/errors.md).
type errorBody struct {
	StatusCode int          `json:"statusCode"`
	Message    string       `json:"message"`
	Error      string       `json:"error"`
	Code       string       `json:"code"`
	Details    []fieldError `json:"details"`
	Context    object       `json:"context"`
}

// wantError checks the status, the error code and the format of an error response. If
// fields are given, it checks that the details of the error list exactly these fields. It
// returns the response, so that the test can check the headers too.
func (r response) wantError(status int, code string, fields ...string) response {
	r.t.Helper()
	if r.status != status {
		r.t.Errorf("%s: status %d, want %d %s; body %s", r.request, r.status, status, code, r.body)
		return r
	}
	decoder := json.NewDecoder(strings.NewReader(r.body))
	switch code {
	case "BULK_ALL_FAILED", "PROCESSOR_PERMISSION_MISSING", "SECOND_FACTOR_REQUIRED": // these errors have additional fields
	default:
		decoder.DisallowUnknownFields()
	}
	var got errorBody
	if err := decoder.Decode(&got); err != nil {
		r.t.Errorf("%s: the body is not an error: %v; body %s", r.request, err, r.body)
		return r
	}
	receivedCodes.Store(got.Code, true)
	if got.StatusCode != status || got.Code != code || got.Message == "" || got.Error != http.StatusText(status) {
		r.t.Errorf("%s: want %d %s, got %s", r.request, status, code, r.body)
	}
	if contentType := r.header.Get("Content-Type"); contentType != "application/json" {
		r.t.Errorf("%s: the error has the content type %q", r.request, contentType)
	}
	if got.Details != nil && code != "VALIDATION_ERROR" {
		r.t.Errorf("%s: only a VALIDATION_ERROR may have details: %s", r.request, r.body)
	}
	if got.Context != nil && len(got.Context) == 0 {
		r.t.Errorf("%s: an empty context: %s", r.request, r.body)
	}
	listed := []string{}
	for _, detail := range got.Details {
		if detail.Message == "" {
			r.t.Errorf("%s: field %q has no message: %s", r.request, detail.Field, r.body)
		}
		listed = append(listed, detail.Field)
	}
	if len(fields) > 0 {
		slices.Sort(listed)
		slices.Sort(fields)
		if !slices.Equal(slices.Compact(listed), fields) {
			r.t.Errorf("%s: errors for the fields %q, want %q; body %s", r.request, listed, fields, r.body)
		}
	}
	return r
}

// wantNoContext checks that an error has no context.
func (r response) wantNoContext() {
	r.t.Helper()
	if strings.Contains(r.body, `"context"`) {
		r.t.Errorf("%s: the error has a context: %s", r.request, r.body)
	}
}

// value returns the value at a path in the JSON body, for example data.0.id. A number has
// the type json.Number.
func (r response) value(path string) any {
	r.t.Helper()
	decoder := json.NewDecoder(strings.NewReader(r.body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		r.t.Fatalf("%s: the response is not JSON: %v: %s", r.request, err, r.body)
	}
	for step := range strings.SplitSeq(path, ".") {
		var found bool
		switch container := value.(type) {
		case object:
			value, found = container[step]
		case []any:
			index, err := strconv.Atoi(step)
			if found = err == nil && index < len(container); found {
				value = container[index]
			}
		}
		if !found {
			r.t.Fatalf("%s: the response has no %s: %s", r.request, path, r.body)
		}
	}
	return value
}

func (r response) text(path string) string {
	r.t.Helper()
	text, ok := r.value(path).(string)
	if !ok {
		r.t.Fatalf("%s: %s is not a string: %s", r.request, path, r.body)
	}
	return text
}

func (r response) number(path string) int64 {
	r.t.Helper()
	number, ok := r.value(path).(json.Number)
	if !ok {
		r.t.Fatalf("%s: %s is not a number: %s", r.request, path, r.body)
	}
	n, err := number.Int64()
	if err != nil {
		r.t.Fatalf("%s: %s is not an integer: %s", r.request, path, r.body)
	}
	return n
}

// instant returns the timestamp at a path. The test ends if the timestamp is not in UTC
// with milliseconds.
func (r response) instant(path string) time.Time {
	r.t.Helper()
	at, err := time.Parse("2006-01-02T15:04:05.000Z", r.text(path))
	if err != nil {
		r.t.Fatalf("%s: %s: %v", r.request, path, err)
	}
	return at
}

// length returns the number of elements of a list.
func (r response) length(path string) int {
	r.t.Helper()
	list, ok := r.value(path).([]any)
	if !ok {
		r.t.Fatalf("%s: %s is not a list: %s", r.request, path, r.body)
	}
	return len(list)
}

// wantFields compares the values at the given paths with the expected values. An expected
// integer must have the type int or int64.
func (r response) wantFields(want object) response {
	r.t.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		value := want[path]
		if n, ok := value.(int); ok {
			value = json.Number(strconv.Itoa(n))
		}
		expected, _ := json.Marshal(value)
		got, _ := json.Marshal(r.value(path))
		if !bytes.Equal(got, expected) {
			r.t.Errorf("%s: %s is %s, want %s", r.request, path, got, expected)
		}
	}
	return r
}

// retryAfter returns the value of the Retry-After header. The test ends if the header is
// missing or less than one second.
func (r response) retryAfter() time.Duration {
	r.t.Helper()
	seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		r.t.Fatalf("%s: Retry-After is %q, want at least 1", r.request, r.header.Get("Retry-After"))
	}
	return time.Duration(seconds) * time.Second
}

// countStatuses counts responses by status and error code.
func countStatuses(responses []response) map[string]int {
	counts := map[string]int{}
	for _, r := range responses {
		var e errorBody
		if r.status >= http.StatusBadRequest {
			_ = json.Unmarshal([]byte(r.body), &e)
		}
		counts[strings.TrimSpace(strconv.Itoa(r.status)+" "+cmp.Or(e.Code, ""))]++
	}
	return counts
}

// concurrently calls request n times concurrently and returns the responses.
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
