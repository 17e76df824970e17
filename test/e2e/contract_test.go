package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
)

// TestJSON describes which JSON the API accepts.
func TestJSON(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	merchant := sys.merchant(t)
	key := merchant.secretKey(t)
	program := func(t *testing.T, body string) response {
		t.Helper()
		return merchant.post(t, "/api/v1/programs", body)
	}
	report := func(t *testing.T, body string) response {
		t.Helper()
		return sys.caller().as(key).post(t, "/api/v1/conversions", body)
	}

	t.Run("a body that is not a JSON object", func(t *testing.T) {
		for _, body := range []string{`{`, `{"name":"a"`, `{"name":}`, `{name:"a"}`, `{"name":"a",}`, `[]`, `"name"`, `5`, `null`, `{"name":"a"}{}`, `{"name":"a"} x`, "{\"name\":\"a\nb\"}", `{"name":"a"} // words`} {
			program(t, body).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
		}
		merchant.get(t, "/api/v1/programs").wantFields(object{"total": 0})
	})
	for _, c := range []struct {
		name, body string
		fields     []string
	}{
		{"unknown fields", `{"name":"a","colour":"red","commissionRules":{"rate":5}}`, []string{"colour", "commissionRules.rate"}},
		{"a proto field name", `{"name":"a","website_url":"https://a.example"}`, []string{"website_url"}},
		{"a duplicate key", `{"name":"a","name":"b"}`, []string{"name"}},
		{"a duplicate key, once escaped", `{"name":"a","n\u0061me":"b"}`, []string{"name"}},
		{"a duplicate key in a nested object", `{"name":"a","commissionRules":{"percentage":1,"percentage":1}}`, []string{"commissionRules.percentage"}},
		{"bytes that are not UTF-8", "{\"name\":\"\xff\"}", []string{"name"}},
		{"half a surrogate pair", `{"name":"\ud800"}`, []string{"name"}},
		{"NUL", `{"name":"a\u0000b"}`, []string{"name"}},
		{"an integer as a string", `{"name":"a","attributionWindowDays":"5"}`, []string{"attributionWindowDays"}},
		{"an integer with a fraction", `{"name":"a","attributionWindowDays":5.0}`, []string{"attributionWindowDays"}},
		{"an integer with an exponent", `{"name":"a","commissionRules":{"holdPeriodDays":1e1}}`, []string{"commissionRules.holdPeriodDays"}},
		{"an integer out of range", `{"name":"a","attributionWindowDays":99999999999999999999}`, []string{"attributionWindowDays"}},
		{"a number as a string", `{"name":"a","commissionRules":{"percentage":"5"}}`, []string{"commissionRules.percentage"}},
		{"a string as a number", `{"name":5}`, []string{"name"}},
		{"a boolean as a string", `{"name":"a","isPublic":"true"}`, []string{"isPublic"}},
		{"an enum in capitals", `{"name":"a","attributionModel":"LAST_CLICK"}`, []string{"attributionModel"}},
		{"an enum by its proto name", `{"name":"a","attributionModel":"ATTRIBUTION_MODEL_LAST_CLICK"}`, []string{"attributionModel"}},
		{"an enum by its number", `{"name":"a","attributionModel":1}`, []string{"attributionModel"}},
		{"an object as a list", `{"name":"a","commissionRules":[]}`, []string{"commissionRules"}},
		{"null in a list", `{"name":"a","allowedDomains":[null]}`, []string{"allowedDomains[0]"}},
		{
			"all decoding errors are listed", `{"name":5,"colour":1,"isPublic":0,"attributionWindowDays":"1","allowedDomains":["a.example",5]}`,
			[]string{"name", "colour", "isPublic", "attributionWindowDays", "allowedDomains[1]"},
		},
		{
			"all validation errors are listed", `{"name":" ","slug":"A","currency":"dollar","attributionWindowDays":0,"linkParam":"1","websiteUrl":"x","commissionRules":{"percentage":101,"holdPeriodDays":-1}}`,
			[]string{"name", "slug", "currency", "attributionWindowDays", "linkParam", "websiteUrl", "commissionRules.percentage", "commissionRules.holdPeriodDays"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			program(t, c.body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", c.fields...)
		})
	}
	t.Run("an amount must be an integer", func(t *testing.T) {
		for _, amount := range []string{`"5"`, `1.0`, `1e3`, `1.5`, `-0.1`, `"1e3"`, `true`, `{}`} {
			report(t, `{"event_type":"purchase","external_transaction_id":"m","currency":"USD","promo_code":"P","amount_cents":`+amount+`}`).
				wantError(http.StatusBadRequest, "VALIDATION_ERROR", "amount_cents")
		}
	})
	t.Run("a body may have 32 levels", func(t *testing.T) {
		nested := func(levels int) string {
			inside := levels - 2 // the body and metadata itself
			return fmt.Sprintf(`{"event_type":"purchase","external_transaction_id":%q,"currency":"USD","promo_code":"P","amount_cents":1,"metadata":{"a":%s1%s}}`,
				uniqueName("deep"), strings.Repeat(`{"a":`, inside), strings.Repeat(`}`, inside))
		}
		report(t, nested(32)).want(http.StatusCreated)
		report(t, nested(33)).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
		report(t, `{"metadata":`+strings.Repeat("[", 10_000)).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
	})
	t.Run("the Content-Type may name the charset, or be absent", func(t *testing.T) {
		merchant.caller.with("Content-Type", "application/json; charset=utf-8").post(t, "/api/v1/programs", `{"name":"a"}`).want(http.StatusCreated)
		merchant.caller.without("Content-Type").post(t, "/api/v1/programs", `{"name":"a"}`).want(http.StatusCreated)
	})
}

// TestQueries describes the query parameters of lists.
func TestQueries(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	merchant := sys.merchant(t)
	for range 3 {
		merchant.post(t, "/api/v1/programs", object{"name": "P"}).want(http.StatusCreated)
	}
	list := func(query string) response { return merchant.get(t, "/api/v1/programs?"+query) }

	list("").want(http.StatusOK).wantFields(object{"total": 3, "page": 1, "limit": 20})
	list("pageSize=2").wantFields(object{"total": 3, "page": 1, "limit": 2})
	list("limit=2&page=2").want(http.StatusOK).wantFields(object{"total": 3, "page": 2, "limit": 2})
	list("pageSize=100").want(http.StatusOK)
	list("page=&limit=&status=").want(http.StatusOK).wantFields(object{"page": 1, "limit": 20})
	list("page=2147483647&pageSize=100").want(http.StatusOK).wantFields(object{"total": 3, "data": []any{}})
	for query, field := range map[string]string{
		"page=0": "page", "page=-1": "page", "page=x": "page", "page=1.0": "page", "page=1e0": "page", "page=99999999999": "page",
		"pageSize=0": "pageSize", "pageSize=101": "pageSize", "limit=0": "limit", "limit=101": "limit", "limit=5&pageSize=5": "pageSize",
		"page=1&page=2": "page", "status=ACTIVE": "status", "status=gone": "status",
		"colour=red": "colour", "page_size=5": "page_size", "PAGE=1": "PAGE", "programId=1": "programId",
	} {
		list(query).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
	}
	for _, query := range []string{"page=%zz", "status=%00", "status=%ff", "%ff=1", "page=1;limit=2", "status[]=active"} {
		list(query).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
	}
	list("colour=red&page=0x&limit=a").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "colour", "page", "limit")
	merchant.post(t, "/api/v1/programs?name=Query", object{"name": "Body"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "name")
}

// TestHTTP describes the behaviour of the API on the level of HTTP.
func TestHTTP(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_CORS_ORIGINS": "https://app.example"}})
	anonymous := sys.caller()

	t.Run("an unknown path", func(t *testing.T) {
		for _, path := range []string{
			"/", "/api", "/api/v1", "/api/v2/programs", "/api/v1/programs/", "/api/v1//programs", "/API/v1/programs",
			"/api/v1/programs/a/b/c/d/e", "/affiliate.v1.ProgramService/ListPrograms",
		} {
			anonymous.get(t, path).wantOutcome(notFound)
		}
		anonymous.get(t, "/api/v1/programs/%2F").wantOutcome(unauthorized) // %2F is an id, although not a valid one
	})
	t.Run("a method that a path does not support", func(t *testing.T) {
		for path, allowed := range map[string]string{
			"/api/v1/programs":            "GET, HEAD, OPTIONS, POST",
			"/api/v1/programs/1":          "GET, HEAD, OPTIONS, PATCH",
			"/api/v1/programs/1/activate": "OPTIONS, POST",
			"/api/v1/conversions":         "GET, HEAD, OPTIONS, POST",
			"/api/v1/health":              "GET, HEAD, OPTIONS",
		} {
			got := anonymous.do(t, http.MethodPut, path, object{}).wantError(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
			if allow := got.header.Get("Allow"); allow != allowed {
				t.Errorf("%s allows %q, want %q", path, allow, allowed)
			}
			if got := anonymous.do(t, http.MethodOptions, path, nil).want(http.StatusNoContent); got.header.Get("Allow") != allowed {
				t.Errorf("OPTIONS %s allows %q", path, got.header.Get("Allow"))
			}
		}
	})
	t.Run("all errors in a query are listed", func(t *testing.T) {
		merchant := sys.merchant(t)
		merchant.get(t, "/api/v1/commissions?page=0&pageSize=101&status=bogus&dateFrom=x&needsReview=1&colour=red&programId=1").
			wantError(http.StatusBadRequest, "VALIDATION_ERROR", "status", "needsReview", "colour", "page", "pageSize", "dateFrom", "programId")
		anonymous.as(merchant.secretKey(t)).get(t, "/api/v1/attribution/decisions?limit=0&from=x&attributed=1&reasonCode=NONE").
			wantError(http.StatusBadRequest, "VALIDATION_ERROR", "attributed", "limit", "from", "reasonCode")
	})
	t.Run("a body that is too large", func(t *testing.T) {
		merchant := sys.merchant(t)
		body := `{"name":"` + strings.Repeat("a", 64<<10) + `"}`
		merchant.post(t, "/api/v1/programs", body).wantError(http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
		// Without a Content-Length.
		merchant.post(t, "/api/v1/programs", io.MultiReader(strings.NewReader(body))).wantError(http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
		anonymous.post(t, "/api/v1/programs", body).wantOutcome(unauthorized)
	})
	t.Run("a body of another content type or encoding", func(t *testing.T) {
		merchant := sys.merchant(t)
		for header, value := range map[string]string{"Content-Type": "text/plain", "Content-Encoding": "gzip"} {
			merchant.with(header, value).post(t, "/api/v1/programs", `{"name":"a"}`).
				wantError(http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
			anonymous.with(header, value).post(t, "/api/v1/programs", `{"name":"a"}`).wantOutcome(unauthorized)
		}
		merchant.with("Content-Type", "text/plain").post(t, "/api/v1/conversions", `a=b`).wantOutcome(forbidden)
		anonymous.as(merchant.secretKey(t)).with("Content-Type", "application/x-www-form-urlencoded").post(t, "/api/v1/conversions", `a=b`).
			wantError(http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
	})
	t.Run("Content-Type is ignored without a body", func(t *testing.T) {
		anonymous.with("Content-Type", "text/plain").do(t, http.MethodPost, "/api/v1/programs/1/activate", "").wantOutcome(unauthorized)
	})
	t.Run("a header cannot override the method", func(t *testing.T) {
		for _, header := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
			anonymous.with(header, http.MethodPatch).post(t, "/api/v1/programs/1", object{}).wantError(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
		}
		form := sys.merchant(t).with("Content-Type", "application/x-www-form-urlencoded").with("X-HTTP-Method-Override", http.MethodGet)
		form.post(t, "/api/v1/programs", "page=1").wantError(http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
	})
	t.Run("a header cannot set gRPC metadata", func(t *testing.T) {
		merchant := sys.merchant(t)
		anonymous.with("Grpc-Metadata-Authorization", "Bearer "+merchant.access).get(t, "/api/v1/programs").wantOutcome(unauthorized)
		merchant.caller.with("Grpc-Metadata-X-Mode", "prod").with("Grpc-Timeout", "1n").get(t, "/api/v1/programs").want(http.StatusOK)
		for name := range merchant.get(t, "/api/v1/programs").header {
			if strings.HasPrefix(strings.ToLower(name), "grpc") {
				t.Errorf("the response has the header %s", name)
			}
		}
	})
	t.Run("request ids", func(t *testing.T) { requestIDs(t, sys) })
	t.Run("security and CORS headers", func(t *testing.T) {
		for _, got := range []response{anonymous.get(t, "/api/v1/health"), anonymous.get(t, "/api/v1/programs"), anonymous.get(t, "/none")} {
			for header, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "Content-Type": "application/json",
			} {
				if value := got.header.Get(header); value != want {
					t.Errorf("%s: %s is %q", got.request, header, value)
				}
			}
		}
		for origin, allowed := range map[string]string{
			"https://app.example": "https://app.example", "https://evil.example": "", "http://app.example": "", "https://app.example.evil.example": "", "null": "",
		} {
			from := anonymous.with("Origin", origin)
			if got := from.get(t, "/api/v1/health"); got.header.Get("Access-Control-Allow-Origin") != allowed || got.header.Get("Vary") != "Origin" {
				t.Errorf("origin %s: headers %v", origin, got.header)
			}
			preflight := from.with("Access-Control-Request-Method", http.MethodPatch).do(t, http.MethodOptions, "/api/v1/programs/1", nil).want(http.StatusNoContent)
			if got := preflight.header.Get("Access-Control-Allow-Methods"); (got != "") != (allowed != "") {
				t.Errorf("preflight from %s allows %q", origin, got)
			}
		}
		if got := anonymous.get(t, "/api/v1/programs").header.Get("WWW-Authenticate"); got != "Bearer" {
			t.Errorf("WWW-Authenticate is %q", got)
		}
	})
}

func requestIDs(t *testing.T, sys *system) {
	t.Helper()
	isMinted := func(id string) bool {
		parsed, fine := affiliate.ParseID[affiliate.Event](id)
		return fine && parsed.Version() == 7
	}
	for _, where := range []string{sys.api + "/api/v1/health", sys.api + "/none", sys.edge + "/v1/health", sys.edge + "/none"} {
		ask := func(id string) string {
			c := sys.caller()
			if id != "" {
				c = c.with("X-Request-Id", id)
			}
			return c.send(t, http.MethodGet, where, nil).header.Get("X-Request-Id")
		}
		for _, valid := range []string{"a", "my-id/1!~", strings.Repeat("x", 128)} {
			if got := ask(valid); got != valid {
				t.Errorf("%s: X-Request-Id %q was replaced by %q", where, valid, got)
			}
		}
		for _, other := range []string{"", strings.Repeat("x", 129), "with space", "tab\there", "é"} {
			if got := ask(other); !isMinted(got) {
				t.Errorf("%s: X-Request-Id %q was not replaced by a new id but by %q", where, other, got)
			}
		}
		if first, second := ask(""), ask(""); first == second {
			t.Errorf("%s: two requests got the id %s", where, first)
		}
	}
}

// TestAnswers describes the JSON of responses.
func TestResponses(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	conversion := w.report(t, purchase("00000000-0000-4000-8000-000000000000")).want(http.StatusCreated)
	responses := []response{
		w.merchant.get(t, w.programPath()), w.merchant.get(t, w.participantPath()), w.merchant.get(t, "/api/v1/programs"),
		w.merchant.get(t, w.commissionPath(w.earn(t))), w.merchant.get(t, "/api/v1/commissions"), w.merchant.get(t, "/api/v1/api-keys"), conversion,
	}
	t.Run("dashboard routes use camelCase, server routes snake_case", func(t *testing.T) {
		for _, got := range responses {
			wrong := regexp.MustCompile(`"[a-z0-9]+(_[a-z0-9]+)+":`)
			if got.request == conversion.request {
				wrong = regexp.MustCompile(`"[a-z0-9]+[A-Z][A-Za-z0-9]*":`)
			}
			if found := wrong.FindString(got.body); found != "" {
				t.Errorf("%s has the name %s", got.request, found)
			}
		}
	})
	t.Run("timestamps are UTC with three decimals", func(t *testing.T) {
		stamp := regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`)
		exact := regexp.MustCompile(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"$`)
		seen := 0
		for _, got := range responses {
			for _, text := range stamp.FindAllString(got.body, -1) {
				if seen++; !exact.MatchString(text) {
					t.Errorf("%s has the timestamp %s", got.request, text)
				}
			}
		}
		if seen < 10 {
			t.Errorf("only %d timestamps found", seen)
		}
	})
	t.Run("numbers are JSON numbers, missing values are null, empty lists and zeros are present", func(t *testing.T) {
		w.merchant.get(t, w.commissionPath(w.earn(t))).want(http.StatusOK).wantFields(object{
			"amountCents": 2000, "reversedAmountCents": 0, "needsReview": false, "reviewReasons": []any{}, "flatAmountCents": nil, "paidAt": nil, "rejectionCode": nil,
		})
		conversion.wantFields(object{"amount_cents": 10_000, "attributed": false, "commission": nil, "attribution.promo_code": nil, "attribution.clicked_at": nil, "fraud.signals": []any{}})
		w.merchant.in("live").get(t, "/api/v1/programs").want(http.StatusOK).wantFields(object{"data": []any{}, "total": 0, "page": 1, "limit": 20})
	})
	t.Run("204 has no body and no Content-Type", func(t *testing.T) {
		got := sys.caller().post(t, "/api/v1/auth/logout", object{"refreshToken": "none"}).want(http.StatusNoContent)
		if got.body != "" || got.header.Get("Content-Type") != "" {
			t.Errorf("body %q, type %q", got.body, got.header.Get("Content-Type"))
		}
	})
	t.Run("text is returned unchanged", func(t *testing.T) {
		name := "<b>\"Ünï\\cödé\" 🛶 \u2028 & {{.}}"
		w.merchant.post(t, "/api/v1/programs", object{"name": name}).want(http.StatusCreated).wantFields(object{"name": name})
	})
}

// TestHTTPS checks that plain HTTP is rejected. Only a trusted proxy may report that the
// client used HTTPS.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_ALLOW_HTTP": "false"}})
	for _, where := range []string{sys.api + "/api/v1/health", sys.api + "/none", sys.edge + "/v1/health"} {
		ask := func(c caller) response { return c.send(t, http.MethodGet, where, nil) }
		ask(sys.caller()).wantError(http.StatusForbidden, "HTTPS_REQUIRED")
		ask(sys.caller().with("X-Forwarded-Proto", "http")).wantError(http.StatusForbidden, "HTTPS_REQUIRED")
		ask(sys.caller().with("X-Forwarded-Proto", "https, http")).wantError(http.StatusForbidden, "HTTPS_REQUIRED")
		ask(sys.caller().with("Forwarded", "proto=https")).wantError(http.StatusForbidden, "HTTPS_REQUIRED")
		through := ask(sys.caller().with("X-Forwarded-Proto", "https"))
		if through.status == http.StatusForbidden || through.header.Get("Strict-Transport-Security") == "" {
			t.Errorf("%s through a trusted proxy: %d, HSTS %q", where, through.status, through.header.Get("Strict-Transport-Security"))
		}
	}
	sys.caller().send(t, http.MethodPost, sys.edge+"/v1/clicks", object{}).wantError(http.StatusForbidden, "HTTPS_REQUIRED")

	untrusting := start(t, setup{env: map[string]string{"TRIBUTARY_ALLOW_HTTP": "false", "TRIBUTARY_TRUSTED_PROXIES": ""}})
	for _, where := range []string{untrusting.api + "/api/v1/health", untrusting.edge + "/v1/health"} {
		untrusting.caller().with("X-Forwarded-Proto", "https").send(t, http.MethodGet, where, nil).wantError(http.StatusForbidden, "HTTPS_REQUIRED")
	}
}
