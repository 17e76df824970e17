package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge/errorspec"
)

// recordedExamples is a JSON object with an example of each operation, by operation id.
// TestReferenceExamples in test/e2e writes the file and describes its fields.
//
//go:embed examples.json
var recordedExamples []byte

type example struct {
	Method, URL string
	Headers     map[string]string
	Credential  string
	Request     json.RawMessage
	Form        string // a request that is a form
	File        string // the name of a file that is the request
	Status      int
	Response    json.RawMessage
	Text        string
}

func readExamples() (map[string]example, error) {
	var examples map[string]example
	err := json.Unmarshal(recordedExamples, &examples)
	return examples, err
}

// withExample adds an example to each media type of a content object.
func withExample(content object, value any) object {
	result := make(object, 0, len(content))
	for _, m := range content {
		result = append(result, member{m.key, append(append(object{}, m.value.(object)...), member{"example", value})})
	}
	return result
}

// formFields returns the fields of a form with their values.
func formFields(form string) object {
	values, _ := url.ParseQuery(form) // the example is valid
	var fields object
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set(&fields, name, values.Get(name))
	}
	return fields
}

// credentials maps each kind of credential to the shell variable that commands use for
// it.
var credentials = map[string]string{
	"secretKey": "$TRIBUTARY_SECRET_KEY", "accessToken": "$ACCESS_TOKEN", "publicKey": "$TRIBUTARY_PUBLIC_KEY",
}

// command returns the request of an example as a curl command.
func (e example) command() string {
	base := "https://api.example.com"
	if strings.HasPrefix(e.URL, "/v1/") {
		base = "https://collect.example.com"
	}
	lines := []string{"curl --fail-with-body"}
	if e.Method != http.MethodGet && (e.Method != http.MethodPost || e.Request == nil && e.Form == "") {
		lines[0] += " -X " + e.Method
	}
	if e.Headers["Accept-Encoding"] != "" {
		lines[0] += " --compressed"
	}
	lines[0] += " '" + base + e.URL + "'"
	if e.Credential != "" {
		lines = append(lines, `-H "Authorization: Bearer `+credentials[e.Credential]+`"`)
	}
	for _, name := range []string{"X-Mode", "Idempotency-Key", "Svix-Id", "Svix-Timestamp", "Svix-Signature", "Stripe-Signature"} {
		if value := e.Headers[name]; value != "" {
			lines = append(lines, "-H '"+name+": "+value+"'")
		}
	}
	if e.Request != nil {
		lines = append(lines, "-H 'Content-Type: application/json'", "-d '"+strings.ReplaceAll(indented(e.Request), "'", `'\''`)+"'")
	}
	if e.Form != "" {
		lines = append(lines, "-d '"+e.Form+"'")
	}
	if e.File != "" {
		lines = append(lines, "--data-binary @"+e.File)
	}
	return strings.Join(lines, " \\\n  ")
}

func indented(text json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Indent(&out, text, "  ", "  "); err != nil {
		return string(text)
	}
	return out.String()
}

// errorExample returns the body of an error with the given code.
func errorExample(status int, statusText, code, message string) object {
	body := object{{"statusCode", status}, {"message", message}, {"error", statusText}, {"code", code}}
	if code == "VALIDATION_ERROR" {
		set(&body, "details", []object{{{"field", "page"}, {"message", "page must be at least 1."}}})
	}
	return body
}

// meanings returns a Markdown list of error codes with their standard messages.
func meanings(codes []string) string {
	var lines []string
	for _, code := range codes {
		lines = append(lines, "- `"+code+"`: "+errorspec.ByReason(affiliate.Reason(code)).Message)
	}
	return strings.Join(lines, "\n")
}
