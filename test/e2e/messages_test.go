package e2e_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	restapi "github.com/tributary-hq/tributary/gateway/contract"
)

// snakeCaseRoutes maps the method and path template of each route to whether the names of
// its fields are in snake_case.
var snakeCaseRoutes = sync.OnceValue(func() map[string]bool {
	routes, err := restapi.Routes(restapi.Files())
	if err != nil {
		panic(err)
	}
	snakeCase := map[string]bool{"POST /v1/clicks": true}
	for _, route := range routes {
		snakeCase[route.Verb+" "+route.Path()] = route.SnakeCase()
	}
	return snakeCase
})

// fieldError is an item in the details of an error response, or in the details of a
// failed item of a batch.
type fieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// checkMessages checks the messages of the field errors in a response. A message must be
// one sentence that begins with the name of the field. The names of fields in a message
// must be in camelCase on dashboard routes and in snake_case on server routes.
func checkMessages(t testing.TB, request *http.Request, sent []byte, status int, body []byte) {
	t.Helper()
	o := findOperation(request.Method, request.URL.EscapedPath())
	if o == nil || status != http.StatusBadRequest && status != http.StatusMultiStatus && status != http.StatusUnprocessableEntity {
		return
	}
	template := strings.Join(o.segments, "/")
	snakeCase, documented := snakeCaseRoutes()[request.Method+" "+template]
	var response struct {
		Details []fieldError
		Results []struct{ Details []fieldError }
	}
	if !documented || json.Unmarshal(body, &response) != nil {
		return
	}
	all := response.Details
	for _, result := range response.Results {
		all = append(all, result.Details...)
	}
	for _, f := range all {
		if wrong := f.problem(snakeCase, request.URL.RawQuery+string(sent)); wrong != "" {
			t.Errorf("%s %s: %s: %q for the field %q", request.Method, template, wrong, f.Message, f.Field)
		}
	}
}

var (
	snakeCaseName = regexp.MustCompile(`\b[a-z0-9]+(?:_[a-z0-9]+)+\b`)
	camelCaseName = regexp.MustCompile(`\b[a-z0-9]+[A-Z][a-zA-Z0-9]*\b`)
	// enumWords matches the enum values at the end of a message. Enum values have the
	// same spelling on all routes, so they are not checked.
	enumWords = regexp.MustCompile(`(?: one of .*|( when \S+) is [a-z_]+)\.$`)
)

// problem returns what is wrong with the message, or "" if the message is correct. A name
// that also occurs in requestText, the text of the request, may have any spelling.
func (f fieldError) problem(snakeCase bool, requestText string) string {
	subject := f.Field
	switch f.Field {
	case "":
		subject = "The request"
	case "body":
		subject = "The body"
	}
	switch {
	case !strings.HasPrefix(f.Message, subject+" "):
		return "the message does not begin with its field"
	case !strings.HasSuffix(f.Message, ".") || strings.Contains(f.Message, ". "):
		return "the message is not one sentence"
	}
	otherName := snakeCaseName
	if snakeCase {
		otherName = camelCaseName
	}
	for _, name := range otherName.FindAllString(enumWords.ReplaceAllString(f.Message, "$1"), -1) {
		if !strings.Contains(requestText, name) {
			return "the message contains the name " + name + " in the other spelling"
		}
	}
	return ""
}

func TestFieldError_FindsWrongMessages(t *testing.T) {
	for _, c := range []struct {
		field, message string
		snakeCase      bool
		sent, wrong    string
	}{
		{field: "dateTo", message: "dateTo must not be before dateFrom."},
		{field: "date_to", message: "date_to must not be before date_from.", snakeCase: true},
		{field: "body", message: "The body must be a JSON object."},
		{field: "a[1].b", message: "a[1].b must be a UUID."},
		{field: "statuses[0]", message: "statuses[0] must be one of dead_lettered, failed."},
		{field: "account", message: "account is required when method is bank_transfer."},
		{field: "website_url", message: "website_url is not a field of this request.", sent: `{"website_url":1}`},
		{field: "dateTo", message: "must not be before dateFrom.", wrong: "the message does not begin with its field"},
		{field: "dateTo", message: "dateTo must be a date", wrong: "the message is not one sentence"},
		{field: "dateTo", message: "dateTo is bad. It must be a date.", wrong: "the message is not one sentence"},
		{field: "dateTo", message: "dateTo must not be before date_from.", wrong: "the message contains the name date_from in the other spelling"},
		{field: "a", message: "a is required when event_type is lead.", wrong: "the message contains the name event_type in the other spelling"},
		{field: "date_to", message: "date_to must not be before dateFrom.", snakeCase: true, wrong: "the message contains the name dateFrom in the other spelling"},
	} {
		if got := (fieldError{c.field, c.message}).problem(c.snakeCase, c.sent); got != c.wrong {
			t.Errorf("the problem of the message %q is %q, want %q", c.message, got, c.wrong)
		}
	}
}

// testFieldErrorsContainPathInBody checks that a field error contains the path of the
// wrong value in the request body. For each kind of path, it sends a body that the
// gateway cannot decode, and a body that the core rejects. There is no case for a
// protobuf oneof, because the API has none, and no case for a map in snake_case.
func testFieldErrorsContainPathInBody(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	partner, key := f.sys.newPartner(t).inMode("test"), f.sys.client().withCredential(f.secretKey)
	program := func(body string) response { return f.merchant.patch(t, f.programPath(), body) }
	application := func(body string) response { return partner.post(t, f.applyPath(), body) }
	conversion := func(body string) response { return key.post(t, "/api/v1/conversions", body) }
	rules := func(rules string) string { return `{"commissionRules":` + rules + `}` }
	sale := func(fields string) string {
		return `{"event_type":"purchase","external_transaction_id":"o","amount_cents":1,"currency":"USD","promo_code":"P",` + fields + `}`
	}
	type bodies struct{ undecodable, invalid string }
	for _, c := range []struct {
		shape string
		send  func(body string) response
		field string
		bodies
	}{
		{"field", program, "payoutTermDays", bodies{`{"payoutTermDays":"1"}`, `{"payoutTermDays":-1}`}},
		{"nested field", program, "commissionRules.holdPeriodDays", bodies{rules(`{"holdPeriodDays":1.5}`), rules(`{"holdPeriodDays":-1}`)}},
		{"field nested twice", program, "commissionRules.recurring.maxMonths", bodies{rules(`{"recurring":{"maxMonths":true}}`), rules(`{"recurring":{"maxMonths":0}}`)}},
		{"item of a list", program, "allowedDomains[1]", bodies{`{"allowedDomains":["a.example",5]}`, `{"allowedDomains":["a.example","a b"]}`}},
		{"field of an item", program, "commissionRules.tiers[1].percentage", bodies{
			rules(`{"tiers":[{"minConversions":1,"percentage":1},{"minConversions":2,"percentage":"2"}]}`),
			rules(`{"tiers":[{"minConversions":1,"percentage":1},{"minConversions":2,"percentage":101}]}`),
		}},
		{"value of a map", application, "answers.why_us", bodies{
			`{"answers":{"why_us":1}}`, `{"answers":{"why_us":"` + strings.Repeat("x", 2001) + `"}}`,
		}},
		{"whole body", program, "body", bodies{undecodable: `[]`}},
		{"field, snake_case", conversion, "sub_id", bodies{
			sale(`"sub_id":5`), sale(`"sub_id":"` + strings.Repeat("x", 3000) + `"`),
		}},
		{"field of an item, snake_case", conversion, "line_items[1].amount_cents", bodies{
			sale(`"line_items":[{"product_id":"a","amount_cents":1},{"product_id":"b","amount_cents":"1"}]`),
			sale(`"line_items":[{"product_id":"a","amount_cents":1},{"product_id":"b","amount_cents":-1}]`),
		}},
		{"value in a free object, snake_case", conversion, "metadata.someKey[1]", bodies{
			undecodable: sale(`"metadata":{"someKey":[1,"\u0000"]}`),
		}},
		{"whole body, snake_case", conversion, "body", bodies{undecodable: `[]`}},
	} {
		for _, body := range []string{c.undecodable, c.invalid} {
			if body != "" {
				t.Run(c.shape, func(*testing.T) { c.send(body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", c.field) })
			}
		}
	}
	for _, quantity := range []string{`"1"`, `0`} {
		item := sale(`"line_items":[{"product_id":"a","amount_cents":1,"quantity":` + quantity + `}]`)
		key.post(t, "/api/v1/conversions/batch", `{"conversions":[`+item+`,`+item+`]}`).
			wantError(http.StatusUnprocessableEntity, "BULK_ALL_FAILED").wantFields(object{
			"results.1.details.0.field": "conversions[1].line_items[0].quantity",
		})
	}
}
