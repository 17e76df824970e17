package landing_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/tributary-hq/tributary/gen/openapi"
)

// The document describes the routes that are served, and no others.
func TestOpenAPI_DescribesServedRoutes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	doc, err := openapi3.NewLoader().LoadFromData([]byte(openapi.Landing))
	check(t, err)
	check(t, doc.Validate(t.Context()))
	if got := doc.Paths.Len(); got != 5 {
		t.Errorf("the document has %d paths, want 5", got)
	}
	for path, item := range doc.Paths.Map() {
		var documented []string
		for method, operation := range item.Operations() {
			documented = append(documented, method)
			content := ""
			if operation.RequestBody != nil {
				content = body(path, nil)
			}
			r := f.send(method, path, content)
			if operation.Responses.Status(r.status) == nil || r.status > 299 {
				t.Errorf("%s %s: %d %s, want a documented success", method, path, r.status, r.body)
				continue
			}
			for _, name := range []string{"RateLimit", "RateLimit-Policy", "X-Request-Id", "Cache-Control"} {
				served := r.header.Get(name) != "" && r.header.Get(name) != "no-store"
				if _, documented := operation.Responses.Status(r.status).Value.Headers[name]; documented != served && strings.HasPrefix(path, "/api/public/") {
					t.Errorf("%s %s: the header %s is documented: %v, sent: %v", method, path, name, documented, served)
				}
			}
			if limited := operation.Responses.Status(429); limited != nil && (limited.Value.Headers["RateLimit"] == nil || limited.Value.Headers["Retry-After"] == nil) {
				t.Errorf("%s %s: the response 429 has the headers %v, want also RateLimit and Retry-After", method, path, limited.Value.Headers)
			}
		}
		served := slices.DeleteFunc(strings.Split(f.send(http.MethodOptions, path, "").header.Get("Allow"), ", "), func(method string) bool {
			return method == http.MethodOptions || method == http.MethodHead
		})
		if slices.Sort(documented); !slices.Equal(documented, served) {
			t.Errorf("%s: the document has the methods %v, and the service has %v", path, documented, served)
		}
	}
}

// The document describes the bodies that the service accepts.
func TestOpenAPI_SchemasMatchTheChecks(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	doc, err := openapi3.NewLoader().LoadFromData([]byte(openapi.Landing))
	check(t, err)
	for _, path := range []string{waitlist, contact} {
		schema := doc.Paths.Value(path).Post.RequestBody.Value.Content.Get("application/json").Schema.Value
		for _, changes := range []map[string]any{
			nil,
			{"unknown": 1},
			{"elapsedMs": 1500},
			{"elapsedMs": 1499},
			{"elapsedMs": 1500.5},
			{"elapsedMs": 1800000},
			{"elapsedMs": 1800001},
			{"elapsedMs": nil},
			{"elapsedMs": "1500"},
			{"website": "x"},
			{"website": nil},
			{"email": nil},
			{"email": ""},
			{"email": strings.Repeat("a", 309) + "@example.com"},
			{"name": ""},
			{"name": strings.Repeat("n", 101)},
			{"message": "123456789"},
			{"message": strings.Repeat("m", 5001)},
		} {
			fields := map[string]any{"email": "ada@example.com", "website": "", "elapsedMs": 4000.0}
			if path == contact {
				fields["name"], fields["message"] = "Ada Byron", "A message with enough characters."
			}
			for name, value := range changes {
				if fields[name] = value; value == nil {
					delete(fields, name)
				}
				if n, isInt := value.(int); isInt {
					fields[name] = float64(n)
				}
			}
			if _, ok := changes["name"]; ok && path == waitlist {
				continue
			}
			if _, ok := changes["message"]; ok && path == waitlist {
				continue
			}
			valid := schema.VisitJSON(fields) == nil
			if r := f.post(path, body(path, changes)); valid != (r.status == 201) {
				t.Errorf("%s with %.60v: the document says %v, the service responded with %d %s", path, changes, valid, r.status, r.body)
			}
		}
	}
}

var errorCodes = []string{
	"INVALID_EMAIL", "INVALID_REQUEST", "ANTI_SPAM_FAILED", "RATE_LIMITED", "HTTPS_REQUIRED", "NOT_FOUND", "METHOD_NOT_ALLOWED",
	"PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "INTERNAL_ERROR", "SERVICE_UNAVAILABLE",
}

func TestOpenAPI_ListsAllErrorCodes(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData([]byte(openapi.Landing))
	check(t, err)
	var got []string
	for _, code := range doc.Components.Schemas["Error"].Value.Properties["code"].Value.Enum {
		got = append(got, code.(string))
	}
	if !slices.Equal(got, errorCodes) {
		t.Errorf("the document lists the codes %v, want %v", got, errorCodes)
	}
}
