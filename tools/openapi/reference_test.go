package main

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/tributary-hq/tributary/gen/openapi"
)

// parseDocument parses the committed document. All tests use the same result, because
// this takes a second.
var parseDocument = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromData([]byte(openapi.Document))
})

func loadDocument(t *testing.T) *openapi3.T {
	t.Helper()
	document, err := parseDocument()
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// The document must be valid OpenAPI, and every example must match its schema.
func TestDocument_IsValidWithItsExamples(t *testing.T) {
	document := loadDocument(t)
	if err := document.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Errorf("the document is not valid: %v", err)
	}
}

// Every operation needs a summary, its rate limit, examples, the meanings of its error
// codes and a curl command.
func TestDocument_DescribesEveryOperation(t *testing.T) {
	document := loadDocument(t)
	summaries := map[string]string{}
	for path, item := range document.Paths.Map() {
		for verb, operation := range item.Operations() {
			name := verb + " " + path
			if other, ok := summaries[operation.Summary]; ok || operation.Summary == "" {
				t.Errorf("%s: the summary %q is empty, or %s has the same", name, operation.Summary, other)
			}
			summaries[operation.Summary] = name
			if !strings.Contains(operation.Description, "Rate limit: `") && !strings.Contains(operation.Description, "There is no rate limit.") {
				t.Errorf("%s: the description does not mention the rate limit", name)
			}
			if body := operation.RequestBody; body != nil && body.Value.Required {
				for mediaType, content := range body.Value.Content {
					if content.Example == nil {
						t.Errorf("%s: the request has no example for %s", name, mediaType)
					}
				}
			}
			described := 0
			for status, response := range operation.Responses.Map() {
				for mediaType, content := range response.Value.Content {
					isError := status >= "400"
					if content.Example == nil && operation.OperationID != "getOpenAPI" && !slices.Contains([]string{"202", "207", "422"}, status) {
						t.Errorf("%s: response %s has no example for %s", name, status, mediaType)
					}
					if isError && strings.Contains(*response.Value.Description, "`: ") {
						described++
					}
				}
			}
			if described == 0 {
				t.Errorf("%s: no error response describes its codes", name)
			}
			if operation.OperationID != "getOpenAPI" && operation.Extensions["x-codeSamples"] == nil {
				t.Errorf("%s has no curl command", name)
			}
		}
	}
	if len(summaries) < 137 {
		t.Errorf("the document has %d operations, want at least 137", len(summaries))
	}
}

func TestTagGroups_ContainEveryTagOnce(t *testing.T) {
	count := map[string]int{}
	for _, group := range tagGroups {
		for _, tag := range group.tags {
			count[tag]++
		}
	}
	for _, tag := range loadDocument(t).Tags {
		if count[tag.Name] != 1 || tagNames[tag.Name] == "" {
			t.Errorf("tag %s is in %d groups, want 1; its display name is %q", tag.Name, count[tag.Name], tagNames[tag.Name])
		}
		delete(count, tag.Name)
	}
	if len(count) > 0 {
		t.Errorf("the groups contain unknown tags: %v", count)
	}
}

func TestCommand_QuotesBody(t *testing.T) {
	sample := example{Method: "POST", URL: "/api/v1/x?a=1", Credential: "secretKey", Headers: map[string]string{"X-Mode": "test"}, Request: []byte(`{"name":"Mia's"}`)}
	want := "curl --fail-with-body 'https://api.example.com/api/v1/x?a=1' \\\n  -H \"Authorization: Bearer $TRIBUTARY_SECRET_KEY\" \\\n  -H 'X-Mode: test' \\\n  -H 'Content-Type: application/json' \\\n  -d '{\n    \"name\": \"Mia'\\''s\"\n  }'"
	if got := sample.command(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDocument_IntroducesEveryCredential(t *testing.T) {
	document := loadDocument(t)
	names := map[string][]string{
		"bearerAuth":       {"**access token of a merchant**", "**access token of a partner**"},
		"secretKey":        {"**secret key**"},
		"publicKey":        {"**public key**"},
		"serviceToken":     {"**service token**"},
		"participantToken": {"**participant token**"},
	}
	for scheme := range document.Components.SecuritySchemes {
		if len(names[scheme]) == 0 {
			t.Errorf("the test does not know the security scheme %s", scheme)
		}
		for _, name := range names[scheme] {
			if !strings.Contains(document.Info.Description, name) {
				t.Errorf("the introduction does not name the %s", name)
			}
		}
	}
}
