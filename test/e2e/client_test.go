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

// caller is who sends a request. Its methods return changed copies.
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

// without sends no such header, not even the one that would be there by default.
func (c caller) without(header string) caller {
	c.header = maps.Clone(c.header)
	c.header[http.CanonicalHeaderKey(header)] = nil
	return c
}

// as shows a credential: an access token or a key.
func (c caller) as(credential string) caller { return c.with("Authorization", "Bearer "+credential) }

func (c caller) in(mode string) caller { return c.with("X-Mode", mode) }

// from makes the request come from an address, as a trusted proxy reports it.
func (c caller) from(address string) caller { return c.with("X-Forwarded-For", address) }

// do calls the REST API. A string is sent as it is, anything else as JSON, nil
// not at all.
func (c caller) do(t testing.TB, method, path string, body any) answer {
	t.Helper()
	return c.send(t, method, c.sys.api+path, body)
}

func (c caller) get(t testing.TB, path string) answer {
	t.Helper()
	return c.do(t, http.MethodGet, path, nil)
}

func (c caller) post(t testing.TB, path string, body any) answer {
	t.Helper()
	return c.do(t, http.MethodPost, path, body)
}

func (c caller) patch(t testing.TB, path string, body any) answer {
	t.Helper()
	return c.do(t, http.MethodPatch, path, body)
}

// send fails the test, and not at once, when there is no answer: it is called
// from many goroutines at a time.
func (c caller) send(t testing.TB, method, url string, body any) answer {
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
			return answer{t: t}
		}
		sent, reader = encoded, bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, reader)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
		return answer{t: t}
	}
	request.Header = maps.Clone(c.header)
	if _, said := request.Header["Content-Type"]; reader != nil && !said {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.sys.http.Do(request)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
		return answer{t: t}
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
	}
	checkDocumented(t, request, response.StatusCode)
	checkMessages(t, request, sent, response.StatusCode, text)
	return answer{t: t, what: method + " " + request.URL.RequestURI(), status: response.StatusCode, header: response.Header, body: string(text)}
}

// visitorAgent is that of a person: the test's own HTTP client would be a bot.
const visitorAgent = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:130.0) Gecko/20100101 Firefox/130.0"

// click posts to the collector with a public key.
func (sys *system) click(t testing.TB, key string, body any) answer {
	t.Helper()
	return sys.caller().as(key).with("User-Agent", visitorAgent).send(t, http.MethodPost, sys.edge+"/v1/clicks", body)
}

// answer is one HTTP answer.
type answer struct {
	t      testing.TB
	what   string
	status int
	header http.Header
	body   string
}

// want ends the test unless the status is as expected.
func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d; body %s", a.what, a.status, status, a.body)
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

// wantError checks status, code and the whole shape of the envelope, and for a
// VALIDATION_ERROR that exactly the named fields are faulty. It returns itself
// so that headers can be looked at.
func (a answer) wantError(status int, code string, fields ...string) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Errorf("%s: status %d, want %d %s; body %s", a.what, a.status, status, code, a.body)
		return a
	}
	decoder := json.NewDecoder(strings.NewReader(a.body))
	if code != "BULK_ALL_FAILED" { // whose results stand beside the envelope
		decoder.DisallowUnknownFields()
	}
	var got envelope
	if err := decoder.Decode(&got); err != nil {
		a.t.Errorf("%s: the error is no envelope: %v; body %s", a.what, err, a.body)
		return a
	}
	answered.Store(got.Code, true)
	if got.StatusCode != status || got.Code != code || got.Message == "" || got.Error != http.StatusText(status) {
		a.t.Errorf("%s: want %d %s, got %s", a.what, status, code, a.body)
	}
	if contentType := a.header.Get("Content-Type"); contentType != "application/json" {
		a.t.Errorf("%s: an error of type %q", a.what, contentType)
	}
	if got.Details != nil && code != "VALIDATION_ERROR" {
		a.t.Errorf("%s: details are for VALIDATION_ERROR only: %s", a.what, a.body)
	}
	named := []string{}
	for _, detail := range got.Details {
		if detail.Message == "" {
			a.t.Errorf("%s: field %q has no message: %s", a.what, detail.Field, a.body)
		}
		named = append(named, detail.Field)
	}
	if len(fields) > 0 {
		slices.Sort(named)
		slices.Sort(fields)
		if !slices.Equal(slices.Compact(named), fields) {
			a.t.Errorf("%s: faulty fields %q, want %q; body %s", a.what, named, fields, a.body)
		}
	}
	return a
}

// at reads a value by its path: data.0.id. Numbers keep their text.
func (a answer) at(path string) any {
	a.t.Helper()
	decoder := json.NewDecoder(strings.NewReader(a.body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		a.t.Fatalf("%s: the answer is no JSON: %v: %s", a.what, err, a.body)
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
			a.t.Fatalf("%s: the answer has no %s: %s", a.what, path, a.body)
		}
	}
	return value
}

func (a answer) text(path string) string {
	a.t.Helper()
	text, ok := a.at(path).(string)
	if !ok {
		a.t.Fatalf("%s: %s is no string: %s", a.what, path, a.body)
	}
	return text
}

func (a answer) number(path string) int64 {
	a.t.Helper()
	number, ok := a.at(path).(json.Number)
	if !ok {
		a.t.Fatalf("%s: %s is no number: %s", a.what, path, a.body)
	}
	n, err := number.Int64()
	if err != nil {
		a.t.Fatalf("%s: %s is no integer: %s", a.what, path, a.body)
	}
	return n
}

// instant reads a timestamp, which always has three decimals.
func (a answer) instant(path string) time.Time {
	a.t.Helper()
	at, err := time.Parse("2006-01-02T15:04:05.000Z", a.text(path))
	if err != nil {
		a.t.Fatalf("%s: %s: %v", a.what, path, err)
	}
	return at
}

// length is how many elements a list has.
func (a answer) length(path string) int {
	a.t.Helper()
	list, ok := a.at(path).([]any)
	if !ok {
		a.t.Fatalf("%s: %s is no list: %s", a.what, path, a.body)
	}
	return len(list)
}

// wantFields compares some values of the answer; integers are written as int.
func (a answer) wantFields(want object) answer {
	a.t.Helper()
	for _, path := range slices.Sorted(maps.Keys(want)) {
		value := want[path]
		if n, ok := value.(int); ok {
			value = json.Number(strconv.Itoa(n))
		}
		expected, _ := json.Marshal(value)
		got, _ := json.Marshal(a.at(path))
		if !bytes.Equal(got, expected) {
			a.t.Errorf("%s: %s is %s, want %s", a.what, path, got, expected)
		}
	}
	return a
}

// retryAfter is the whole seconds that a refused caller is told to wait.
func (a answer) retryAfter() time.Duration {
	a.t.Helper()
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		a.t.Fatalf("%s: Retry-After is %q", a.what, a.header.Get("Retry-After"))
	}
	return time.Duration(seconds) * time.Second
}

// statuses counts answers by status and code.
func statuses(answers []answer) map[string]int {
	counts := map[string]int{}
	for _, a := range answers {
		var e envelope
		if a.status >= http.StatusBadRequest {
			_ = json.Unmarshal([]byte(a.body), &e)
		}
		counts[strings.TrimSpace(strconv.Itoa(a.status)+" "+cmp.Or(e.Code, ""))]++
	}
	return counts
}

// atOnce makes n requests from n goroutines and returns their answers.
func atOnce(n int, request func(i int) answer) []answer {
	answers := make([]answer, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { answers[i] = request(i) })
	}
	all.Wait()
	return answers
}

func containsAll(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
