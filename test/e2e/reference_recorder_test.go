package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// example is a request and a response that the API reference shows for an operation.
type example struct {
	// Method, URL and Headers describe the request, without the credential.
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	// Credential is the kind of the credential: secretKey, accessToken or publicKey. It
	// is empty if the request has no credential.
	Credential string          `json:"credential,omitempty"`
	Request    json.RawMessage `json:"request,omitempty"`
	Status     int             `json:"status"`
	// Form is a request that is a form.
	Form string `json:"form,omitempty"`
	// File is the name of a file that is the request.
	File     string          `json:"file,omitempty"`
	Response json.RawMessage `json:"response,omitempty"`
	// Text is a response that is not JSON, for example CSV.
	Text string `json:"text,omitempty"`
}

// exampleSignature contains the headers of a signed message as the examples show them.
// The timestamp and the signature of a real message depend on the time of the test.
var exampleSignature = map[string]string{
	"Stripe-Signature": "t=1772443800,v1=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd",
	"Svix-Id":          "msg_2f8k1q", "Svix-Timestamp": "1772443800", "Svix-Signature": "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
}

// recorder calls the API and records each call as the example of its operation.
type recorder struct {
	t          *testing.T
	sys        *system
	normalizer *normalizer
	examples   map[string]example
}

func newRecorder(t *testing.T, sys *system) *recorder {
	t.Helper()
	return &recorder{t: t, sys: sys, normalizer: newNormalizer(sys.clock.now()), examples: map[string]example{}}
}

// call sends a request and records the example. The test ends if the request fails, or if
// its operation already has an example.
func (r *recorder) call(c apiClient, method, path string, body any) response {
	r.t.Helper()
	base := r.sys.api
	if path == "/v1/clicks" {
		base = r.sys.edge
	}
	got := c.send(r.t, method, base+path, body)
	if got.status < 200 || got.status > 299 {
		r.t.Fatalf("%s: got status %d; body %s", got.request, got.status, got.body)
	}
	parsed, err := url.Parse(path)
	if err != nil {
		r.t.Fatal(err)
	}
	operation := findOperation(method, parsed.Path)
	if operation == nil {
		r.t.Fatalf("%s %s is not in the OpenAPI document", method, parsed.Path)
	}
	if _, ok := r.examples[operation.id]; ok {
		r.t.Fatalf("%s has two examples", operation.id)
	}
	recorded := example{Method: method, URL: r.normalizer.text(path), Headers: map[string]string{}, Status: got.status}
	for _, name := range []string{"X-Mode", "Idempotency-Key"} {
		if value := c.header.Get(name); value != "" {
			recorded.Headers[name] = r.normalizer.text(value)
		}
	}
	for name, value := range exampleSignature {
		if c.header.Get(name) != "" {
			recorded.Headers[name] = value
		}
	}
	recorded.Credential = credentialKind(c.header.Get("Authorization"))
	if file, ok := body.(io.Reader); ok && file != nil {
		recorded.File = "logo.png"
	} else if form, ok := body.(string); ok {
		recorded.Form = r.normalizer.text(form)
	} else if body != nil {
		sent, err := json.Marshal(body)
		if err != nil {
			r.t.Fatal(err)
		}
		recorded.Request = r.json(string(sent))
	}
	switch {
	case got.body == "":
	case strings.HasPrefix(got.header.Get("Content-Type"), "image/"):
		recorded.Text = "(the bytes of the file)"
	case strings.HasPrefix(got.header.Get("Content-Type"), "application/json"):
		recorded.Response = r.json(got.body)
	default:
		recorded.Text = r.normalizer.text(got.body)
	}
	r.examples[operation.id] = recorded
	return got
}

// callRaw sends a signed body and records the call. The example shows a shorter body.
func (r *recorder) callRaw(c apiClient, path string, body []byte, shown object) {
	r.t.Helper()
	got := c.send(r.t, "POST", r.sys.api+path, string(body)).wantStatus(200)
	sent, err := json.Marshal(shown)
	if err != nil {
		r.t.Fatal(err)
	}
	recorded := example{
		Method: "POST", URL: r.normalizer.text(path), Headers: map[string]string{"Stripe-Signature": exampleSignature["Stripe-Signature"]},
		Status: got.status, Request: r.json(string(sent)), Response: r.json(got.body),
	}
	r.examples[findOperation("POST", path).id] = recorded
}

// stream opens a stream of events and records it with its first event.
func (r *recorder) stream(c apiClient, path string) {
	r.t.Helper()
	stream := c.openStream(r.t, path)
	defer stream.close()
	ready := stream.next(r.t, "ready")
	data, err := json.Marshal(ready.data)
	if err != nil {
		r.t.Fatal(err)
	}
	r.examples[findOperation("GET", path).id] = example{
		Method: "GET", URL: path, Headers: map[string]string{}, Status: 200, Credential: credentialKind(c.header.Get("Authorization")),
		Text: fmt.Sprintf("retry: 5000\nid: 42\nevent: ready\ndata: %s\n\n", data), // the real id depends on the time
	}
}

func (r *recorder) json(text string) json.RawMessage {
	r.t.Helper()
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(r.normalizer.text(text))); err != nil {
		r.t.Fatal(err)
	}
	return compact.Bytes()
}

func credentialKind(authorization string) string {
	credential := strings.TrimPrefix(authorization, "Bearer ")
	switch {
	case credential == "":
		return ""
	case strings.HasPrefix(credential, "sk_"):
		return "secretKey"
	case strings.HasPrefix(credential, "pk_"):
		return "publicKey"
	}
	return "accessToken"
}

// normalizer replaces values that are different in each run of the test, for example ids.
// Equal values get equal replacements, so ids in different examples still match.
type normalizer struct {
	start    time.Time
	replaced map[string]string
	count    map[string]int
	// replacements contains the values of the map replaced. If a text contains such a
	// value, it has already been replaced and stays as it is.
	replacements map[string]bool
}

// referenceTime is the time in the examples for the start of the test.
var referenceTime = time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)

func newNormalizer(start time.Time) *normalizer {
	return &normalizer{start: start, replaced: map[string]string{}, count: map[string]int{}, replacements: map[string]bool{}}
}

var (
	jwtPattern         = regexp.MustCompile(`eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`)
	keyPattern         = regexp.MustCompile(`\b((?:[ps]k|st)_(?:test|live))_[0-9A-Za-z]{20,}`)
	exportPattern      = regexp.MustCompile(`exp_[A-Za-z0-9_-]{43}`)
	ticketPattern      = regexp.MustCompile(`tkt_[A-Za-z0-9_-]+`)
	downloadPattern    = regexp.MustCompile(`dlt_[A-Za-z0-9_-]+`)
	unsubscribePattern = regexp.MustCompile(`unsubscribe\?token=[A-Za-z0-9_-]+`)
	secretPattern      = regexp.MustCompile(`whsec_[A-Za-z0-9+/=]+`)
	eventPattern       = regexp.MustCompile(`\bevt_[0-9a-f]{32}\b`)
	uuidPattern        = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	longHexPattern     = regexp.MustCompile(`\b[0-9a-f]{30,64}\b`)
	timePattern        = regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z`)
	datePattern        = regexp.MustCompile(`\b20\d\d-\d\d-\d\d\b`)
	sentencePattern    = regexp.MustCompile(`\b\d{1,2} (?:January|February|March|April|May|June|July|August|September|October|November|December) 20\d\d at \d\d:\d\d:\d\d\.\d{3} UTC`)
	shortLinkPattern   = regexp.MustCompile(`/r/[0-9A-Za-z]{10}\b`)
	tokenFieldPattern  = regexp.MustCompile(`"(refreshToken|token)":"([^"]+)"`)
	last4Pattern       = regexp.MustCompile(`"last4":"[^"]{4}"`)
	portPattern        = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	totpSecretPattern  = regexp.MustCompile(`"secret":"[A-Z2-7]{32}"`)
	totpURLPattern     = regexp.MustCompile(`"otpauthUrl":"[^"]+"`)
	totpCodePattern    = regexp.MustCompile(`"code":"[0-9]{6}"`)
	challengePattern   = regexp.MustCompile(`chl_[A-Za-z0-9_-]+`)
	recoveryPattern    = regexp.MustCompile(`"(?:[a-z2-7]{4}-){3}[a-z2-7]{4}"`)
	durationPattern    = regexp.MustCompile(`"(durationMs|latencyMs|responseTimeMs)":\d+`)
)

// text returns s with all ids, keys, tokens, times, ports and durations replaced.
func (n *normalizer) text(s string) string {
	s = keyPattern.ReplaceAllStringFunc(s, func(key string) string {
		return n.replacement("key", key, keyPattern.FindStringSubmatch(key)[1]+"_7Hq2mVx9Lr4TzKp6Wd8Ns%02d")
	})
	s = tokenFieldPattern.ReplaceAllStringFunc(s, func(field string) string {
		parts := tokenFieldPattern.FindStringSubmatch(field)
		return `"` + parts[1] + `":"` + n.replacement("token", parts[2], "rt_3nPq8sVw1xYz5aBc%02d") + `"`
	})
	replace := func(pattern *regexp.Regexp, kind, format string) {
		s = pattern.ReplaceAllStringFunc(s, func(value string) string { return n.replacement(kind, value, format) })
	}
	replace(jwtPattern, "jwt", "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiIwMTkzNmYyZSJ9.signature%02d")
	replace(exportPattern, "export", "exp_N0RvbiBxdWl4b3RlIGRlIGxhIE1hbmNoYSBkZSBDZXJ2%02d")
	replace(ticketPattern, "ticket", "tkt_QmVhbnMgZnJvbSBFdGhpb3BpYSBhcmUgdGhlIG5l%02d")
	replace(downloadPattern, "download ticket", "dlt_QmVhbnMgZnJvbSBFdGhpb3BpYSBhcmUgdGhlIG5l%02d")
	replace(unsubscribePattern, "unsubscribe", "unsubscribe?token=AZNvLnwaejudTl9gcYKT%02d")
	replace(secretPattern, "secret", "whsec_C2FVsBQIhrscChlQIMV5b5sSYspob7o%02d")
	replace(challengePattern, "challenge", "chl_TWlsayBhbmQgaG9uZXkgZnJvbSB0aGUgaGlsbHM%02d")
	replace(recoveryPattern, "recovery code", `"k4tm-2xqa-pn7d-wz%02d"`)
	s = totpSecretPattern.ReplaceAllString(s, `"secret":"JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"`)
	s = totpURLPattern.ReplaceAllString(s, `"otpauthUrl":"otpauth://totp/Tributary:noa@mail.example?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=Tributary"`)
	s = totpCodePattern.ReplaceAllString(s, `"code":"492039"`)
	replace(eventPattern, "event", "evt_01936f2e7c1a7a3b9d4e5f60718293%02x")
	replace(uuidPattern, "uuid", "01936f2e-7c1a-7a3b-9d4e-5f60718293%02x")
	replace(longHexPattern, "hex", "b5d4045c3f466fa91fe2cc6abe79232a1a57cdf104f7a26e716e0a1e2789df%02x")
	s = timePattern.ReplaceAllStringFunc(s, func(value string) string {
		at, err := time.Parse(time.RFC3339Nano, value)
		if err != nil || inReferenceMonth(at) {
			return value
		}
		if at.Equal(at.Truncate(24 * time.Hour)) {
			return n.exampleDate(at) + "T00:00:00.000Z"
		}
		return n.exampleTime(at).Format("2006-01-02T15:04:05.000Z")
	})
	s = sentencePattern.ReplaceAllStringFunc(s, func(value string) string {
		at, err := time.Parse("2 January 2006 at 15:04:05.000 UTC", value)
		if err != nil {
			return value
		}
		return n.exampleTime(at).Format("2 January 2006 at 15:04:05.000 UTC")
	})
	s = datePattern.ReplaceAllStringFunc(s, func(value string) string {
		at, err := time.Parse(time.DateOnly, value)
		if err != nil || inReferenceMonth(at) {
			return value
		}
		return n.exampleDate(at)
	})
	replace(shortLinkPattern, "link", "/r/Vd8MepJ%03d")
	s = last4Pattern.ReplaceAllString(s, `"last4":"Ns01"`)
	s = portPattern.ReplaceAllString(s, "127.0.0.1:8443")
	s = durationPattern.ReplaceAllString(s, `"$1":42`)
	return s
}

// exampleDate returns the date in the examples for a date, which is at 00:00.
func (n *normalizer) exampleDate(date time.Time) string {
	return n.exampleTime(date.Add(n.start.Sub(n.start.Truncate(24 * time.Hour)))).Format(time.DateOnly)
}

// inReferenceMonth reports whether a time is in the month of referenceTime. These times do not
// depend on the time of the test, so they are not replaced.
func inReferenceMonth(at time.Time) bool {
	return at.Year() == referenceTime.Year() && at.Month() == referenceTime.Month()
}

// replacement returns the replacement of a value. For a value that it has not seen
// before, it creates the replacement from format and the number of values of this kind.
func (n *normalizer) replacement(kind, value, format string) string {
	if n.replacements[value] {
		return value
	}
	if known, ok := n.replaced[kind+value]; ok {
		return known
	}
	n.count[kind]++
	replacement := fmt.Sprintf(format, n.count[kind])
	n.replaced[kind+value], n.replacements[replacement] = replacement, true
	return replacement
}

// exampleTime returns the time that replaces the time t. It is as many full days after
// referenceTime as t is after the start of the test.
func (n *normalizer) exampleTime(t time.Time) time.Time {
	days := int(t.Sub(n.start).Round(24*time.Hour) / (24 * time.Hour))
	return referenceTime.AddDate(0, 0, days)
}
