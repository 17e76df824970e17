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

// testJSON checks which JSON the API accepts.
func testJSON(t *testing.T, sys *system) {
	merchant := sys.newMerchant(t)
	key := merchant.createSecretKey(t)
	program := func(t *testing.T, body string) response {
		t.Helper()
		return merchant.post(t, "/api/v1/programs", body)
	}
	report := func(t *testing.T, body string) response {
		t.Helper()
		return sys.client().withCredential(key).post(t, "/api/v1/conversions", body)
	}

	t.Run("a body that is not a JSON object", func(t *testing.T) {
		for _, body := range []string{`{`, `{"name":"a"`, `{"name":}`, `{name:"a"}`, `{"name":"a",}`, `[]`, `"name"`, `5`, `null`, `{"name":"a"}{}`, `{"name":"a"} x`, "{\"name\":\"a\nb\"}", `{"name":"a"} // words`} {
			program(t, body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "body")
		}
		got := program(t, `{"colour":1,"name":5,"currency":"dollar"`).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "body")
		got.wantFields(object{"details.0.message": "The body is not valid JSON at byte 40."})
		merchant.get(t, "/api/v1/programs").wantFields(object{"total": 0})
	})
	for _, c := range []struct {
		name, body string
		fields     []string
	}{
		{"unknown fields", `{"name":"a","colour":"red","commissionRules":{"rate":5}}`, []string{"colour", "commissionRules.rate"}},
		{"a field in both spellings", `{"name":"a","website_url":"https://a.example","websiteUrl":"https://a.example"}`, []string{"websiteUrl"}},
		{"a value that is not valid, under keys in snake_case", `{"name":"a","website_url":"x","commission_rules":{"hold_period_days":-1}}`, []string{"website_url", "commission_rules.hold_period_days"}},
		{"a duplicate key", `{"name":"a","name":"b"}`, []string{"name"}},
		{"a duplicate key that is escaped once", `{"name":"a","n\u0061me":"b"}`, []string{"name"}},
		{"a duplicate key in a nested object", `{"name":"a","commissionRules":{"percentage":1,"percentage":1}}`, []string{"commissionRules.percentage"}},
		{"bytes that are not UTF-8", "{\"name\":\"\xff\"}", []string{"name"}},
		{"half a surrogate pair", `{"name":"\ud800"}`, []string{"name"}},
		{"NUL", `{"name":"a\u0000b"}`, []string{"name"}},
		{"a string instead of an integer", `{"name":"a","attributionWindowDays":"5"}`, []string{"attributionWindowDays"}},
		{"an integer with a fraction", `{"name":"a","attributionWindowDays":5.0}`, []string{"attributionWindowDays"}},
		{"an integer with an exponent", `{"name":"a","commissionRules":{"holdPeriodDays":1e1}}`, []string{"commissionRules.holdPeriodDays"}},
		{"an integer out of range", `{"name":"a","attributionWindowDays":99999999999999999999}`, []string{"attributionWindowDays"}},
		{"a string instead of a number", `{"name":"a","commissionRules":{"percentage":"5"}}`, []string{"commissionRules.percentage"}},
		{"a number instead of a string", `{"name":5}`, []string{"name"}},
		{"a string instead of a boolean", `{"name":"a","isPublic":"true"}`, []string{"isPublic"}},
		{"an enum in capitals", `{"name":"a","attributionModel":"LAST_CLICK"}`, []string{"attributionModel"}},
		{"an enum by its proto name", `{"name":"a","attributionModel":"ATTRIBUTION_MODEL_LAST_CLICK"}`, []string{"attributionModel"}},
		{"an enum by its number", `{"name":"a","attributionModel":1}`, []string{"attributionModel"}},
		{"a list instead of an object", `{"name":"a","commissionRules":[]}`, []string{"commissionRules"}},
		{"null in a list", `{"name":"a","allowedDomains":[null]}`, []string{"allowedDomains[0]"}},
		{
			"all decoding errors are listed", `{"name":5,"colour":1,"isPublic":0,"attributionWindowDays":"1","allowedDomains":["a.example",5]}`,
			[]string{"name", "colour", "isPublic", "attributionWindowDays", "allowedDomains[1]"},
		},
		{
			"errors of decoding and of validation are listed together",
			`{"colour":1,"currency":"dollar","websiteUrl":5,"commissionRules":{"percentage":101,"rate":1,"tiers":[5,{"minConversions":1,"percentage":101}]},"allowedDomains":[null,"a b"]}`,
			[]string{
				"colour", "name", "currency", "websiteUrl", "commissionRules.percentage", "commissionRules.rate", "commissionRules.tiers[0]", "commissionRules.tiers[1].percentage",
				"allowedDomains[0]", "allowedDomains[1]",
			},
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
	t.Run("keys may have either spelling, and responses have that of the route", func(t *testing.T) {
		program(t, `{"name":"a","website_url":"https://a.example","commission_rules":{"hold_period_days":3}}`).wantStatus(http.StatusCreated).
			wantFields(object{"websiteUrl": "https://a.example", "commissionRules.holdPeriodDays": 3})
		report(t, `{"eventType":"purchase","externalTransactionId":"both","currency":"USD","promoCode":"P","amountCents":-1}`).
			wantError(http.StatusBadRequest, "VALIDATION_ERROR", "amountCents")
		report(t, `{"eventType":"purchase","externalTransactionId":"both","currency":"USD","promoCode":"P","amountCents":1}`).
			wantStatus(http.StatusCreated).wantFields(object{"external_transaction_id": "both", "amount_cents": 1})
	})
	t.Run("an amount must be an integer", func(t *testing.T) {
		for _, amount := range []string{`"5"`, `1.0`, `1e3`, `1.5`, `-0.1`, `"1e3"`, `true`, `{}`} {
			report(t, `{"event_type":"purchase","external_transaction_id":"m","currency":"USD","promo_code":"P","amount_cents":`+amount+`}`).
				wantError(http.StatusBadRequest, "VALIDATION_ERROR", "amount_cents")
		}
	})
	t.Run("objects may be nested to 32 levels", func(t *testing.T) {
		nested := func(levels int) string {
			inside := levels - 2 // the body itself is level 1, and the field metadata level 2
			return fmt.Sprintf(`{"event_type":"purchase","external_transaction_id":%q,"currency":"USD","promo_code":"P","amount_cents":1,"metadata":{"a":%s1%s}}`,
				uniqueName("deep"), strings.Repeat(`{"a":`, inside), strings.Repeat(`}`, inside))
		}
		report(t, nested(32)).wantStatus(http.StatusCreated)
		report(t, nested(33)).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
		report(t, `{"metadata":`+strings.Repeat("[", 10_000)).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
	})
	t.Run("the header Content-Type may contain the charset, or be missing", func(t *testing.T) {
		merchant.apiClient.withHeader("Content-Type", "application/json; charset=utf-8").post(t, "/api/v1/programs", `{"name":"a"}`).wantStatus(http.StatusCreated)
		merchant.apiClient.withoutHeader("Content-Type").post(t, "/api/v1/programs", `{"name":"a"}`).wantStatus(http.StatusCreated)
	})
}

// testQueries checks the query parameters of lists.
func testQueries(t *testing.T, sys *system) {
	merchant := sys.newMerchant(t)
	for range 3 {
		merchant.post(t, "/api/v1/programs", object{"name": "P"}).wantStatus(http.StatusCreated)
	}
	list := func(query string) response { return merchant.get(t, "/api/v1/programs?"+query) }

	list("").wantStatus(http.StatusOK).wantFields(object{"total": 3, "page": 1, "limit": 20})
	list("pageSize=2").wantFields(object{"total": 3, "page": 1, "limit": 2, "pageSize": 2})
	list("limit=2&page=2").wantStatus(http.StatusOK).wantFields(object{"total": 3, "page": 2, "limit": 2, "pageSize": 2})
	list("pageSize=100").wantStatus(http.StatusOK)
	list("page=&limit=&status=").wantStatus(http.StatusOK).wantFields(object{"page": 1, "limit": 20})
	list("page=2147483647&pageSize=100").wantStatus(http.StatusOK).wantFields(object{"total": 3, "data": []any{}})
	for query, field := range map[string]string{
		"page=0": "page", "page=-1": "page", "page=x": "page", "page=1.0": "page", "page=1e0": "page", "page=99999999999": "page",
		"pageSize=0": "pageSize", "pageSize=101": "pageSize", "limit=0": "limit", "limit=101": "limit", "limit=5&pageSize=5": "pageSize",
		"page=1&page=2": "page", "status=ACTIVE": "status", "status=gone": "status",
		"colour=red": "colour", "page_size=5&pageSize=5": "pageSize", "page_size=0": "page_size", "PAGE=1": "PAGE", "programId=1": "programId",
	} {
		list(query).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
	}
	for _, query := range []string{"page=%zz", "status=%00", "status=%ff", "%ff=1", "page=1;limit=2", "status[]=active"} {
		list(query).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
	}
	list("colour=red&page=0x&limit=a").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "colour", "page", "limit")
	merchant.post(t, "/api/v1/programs?name=Query", object{"name": "Body"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "name")
}

// TestHTTP checks paths, methods, headers and bodies of requests.
func TestHTTP(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_CORS_ORIGINS": "https://app.example"}})
	anonymous := sys.client()

	t.Run("an unknown path", func(t *testing.T) {
		for _, path := range []string{
			"/api", "/api/v1", "/api/v2/programs", "/api/v1/programs/", "/api/v1//programs", "/API/v1/programs",
			"/api/v1/programs/a/b/c/d/e", "/affiliate.v1.ProgramService/ListPrograms",
		} {
			anonymous.get(t, path).wantOutcome(notFound)
		}
		anonymous.get(t, "/api/v1/programs/%2F").wantOutcome(unauthorized) // the service reads %2F as a programme id, and checks the credential before the id
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
			if got := anonymous.do(t, http.MethodOptions, path, nil).wantStatus(http.StatusNoContent); got.header.Get("Allow") != allowed {
				t.Errorf("OPTIONS %s allows %q, want %q", path, got.header.Get("Allow"), allowed)
			}
		}
	})
	t.Run("all errors in a query are listed", func(t *testing.T) {
		merchant := sys.newMerchant(t)
		merchant.get(t, "/api/v1/commissions?page=0&pageSize=101&status=bogus&dateFrom=x&needsReview=1&colour=red&programId=1").
			wantError(http.StatusBadRequest, "VALIDATION_ERROR", "status", "needsReview", "colour", "page", "pageSize", "dateFrom", "programId")
		anonymous.withCredential(merchant.createSecretKey(t)).get(t, "/api/v1/attribution/decisions?limit=0&from=x&attributed=1&reasonCode=NONE").
			wantError(http.StatusBadRequest, "VALIDATION_ERROR", "attributed", "limit", "from", "reasonCode")
	})
	t.Run("a body that is too large", func(t *testing.T) {
		merchant := sys.newMerchant(t)
		body := `{"name":"` + strings.Repeat("a", 64<<10) + `"}`
		merchant.post(t, "/api/v1/programs", body).wantError(http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
		// The reader has no known length, so the request has no Content-Length.
		merchant.post(t, "/api/v1/programs", io.MultiReader(strings.NewReader(body))).wantError(http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
		anonymous.post(t, "/api/v1/programs", body).wantOutcome(unauthorized)
	})
	t.Run("a body of another content type or encoding", func(t *testing.T) {
		merchant := sys.newMerchant(t)
		for header, value := range map[string]string{"Content-Type": "text/plain", "Content-Encoding": "gzip"} {
			merchant.withHeader(header, value).post(t, "/api/v1/programs", `{"name":"a"}`).
				wantError(http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
			anonymous.withHeader(header, value).post(t, "/api/v1/programs", `{"name":"a"}`).wantOutcome(unauthorized)
		}
		merchant.withHeader("Content-Type", "text/plain").post(t, "/api/v1/conversions", `a=b`).wantOutcome(forbidden)
		anonymous.withCredential(merchant.createSecretKey(t)).withHeader("Content-Type", "application/x-www-form-urlencoded").post(t, "/api/v1/conversions", `a=b`).
			wantError(http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
	})
	t.Run("Content-Type is ignored without a body", func(t *testing.T) {
		anonymous.withHeader("Content-Type", "text/plain").do(t, http.MethodPost, "/api/v1/programs/1/activate", "").wantOutcome(unauthorized)
	})
	t.Run("a header cannot override the method", func(t *testing.T) {
		for _, header := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
			anonymous.withHeader(header, http.MethodPatch).post(t, "/api/v1/programs/1", object{}).wantError(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
		}
		form := sys.newMerchant(t).withHeader("Content-Type", "application/x-www-form-urlencoded").withHeader("X-HTTP-Method-Override", http.MethodGet)
		form.post(t, "/api/v1/programs", "page=1").wantError(http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
	})
	t.Run("a header cannot set gRPC metadata", func(t *testing.T) {
		merchant := sys.newMerchant(t)
		anonymous.withHeader("Grpc-Metadata-Authorization", "Bearer "+merchant.access).get(t, "/api/v1/programs").wantOutcome(unauthorized)
		merchant.apiClient.withHeader("Grpc-Metadata-X-Mode", "prod").withHeader("Grpc-Timeout", "1n").get(t, "/api/v1/programs").wantStatus(http.StatusOK)
		for name := range merchant.get(t, "/api/v1/programs").header {
			if strings.HasPrefix(strings.ToLower(name), "grpc") {
				t.Errorf("the response has the header %s", name)
			}
		}
	})
	t.Run("request ids", func(t *testing.T) { testRequestIDs(t, sys) })
	t.Run("security and CORS headers", func(t *testing.T) {
		for _, got := range []response{anonymous.get(t, "/api/v1/health"), anonymous.get(t, "/api/v1/programs"), anonymous.get(t, "/none")} {
			for header, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "Content-Type": "application/json",
			} {
				if value := got.header.Get(header); value != want {
					t.Errorf("%s: the header %s is %q, want %q", got.request, header, value, want)
				}
			}
		}
		for origin, allowed := range map[string]string{
			"https://app.example": "https://app.example", "https://evil.example": "", "http://app.example": "", "https://app.example.evil.example": "", "null": "",
		} {
			client := anonymous.withHeader("Origin", origin)
			if got := client.get(t, "/api/v1/health"); got.header.Get("Access-Control-Allow-Origin") != allowed || got.header.Get("Vary") != "Origin" {
				t.Errorf("for the origin %s Access-Control-Allow-Origin is %q and Vary %q, want %q and Origin", origin, got.header.Get("Access-Control-Allow-Origin"), got.header.Get("Vary"), allowed)
			}
			preflight := client.withHeader("Access-Control-Request-Method", http.MethodPatch).do(t, http.MethodOptions, "/api/v1/programs/1", nil).wantStatus(http.StatusNoContent)
			if got := preflight.header.Get("Access-Control-Allow-Methods"); (got != "") != (allowed != "") {
				t.Errorf("a preflight request from %s returns the methods %q, want methods: %t", origin, got, allowed != "")
			}
		}
		if got := anonymous.get(t, "/api/v1/programs").header.Get("WWW-Authenticate"); got != "Bearer" {
			t.Errorf("WWW-Authenticate is %q, want Bearer", got)
		}
	})
}

func testRequestIDs(t *testing.T, sys *system) {
	isNewID := func(id string) bool {
		parsed, valid := affiliate.ParseID[affiliate.EventID](id)
		return valid && parsed.Version() == 7
	}
	for _, url := range []string{sys.api + "/api/v1/health", sys.api + "/none", sys.edge + "/v1/health", sys.edge + "/none"} {
		requestID := func(id string) string {
			c := sys.client()
			if id != "" {
				c = c.withHeader("X-Request-Id", id)
			}
			return c.send(t, http.MethodGet, url, nil).header.Get("X-Request-Id")
		}
		for _, valid := range []string{"a", "my-id/1!~", strings.Repeat("x", 128)} {
			if got := requestID(valid); got != valid {
				t.Errorf("%s: X-Request-Id %q was replaced by %q", url, valid, got)
			}
		}
		for _, invalid := range []string{"", strings.Repeat("x", 129), "with space", "tab\there", "é"} {
			if got := requestID(invalid); !isNewID(got) {
				t.Errorf("%s: X-Request-Id %q was replaced by %q, want a new UUIDv7", url, invalid, got)
			}
		}
		if first, second := requestID(""), requestID(""); first == second {
			t.Errorf("%s: two requests got the same id %s", url, first)
		}
	}
}

// testResponses checks the JSON of responses.
func testResponses(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	conversion := f.report(t, purchase("00000000-0000-4000-8000-000000000000")).wantStatus(http.StatusCreated)
	responses := []response{
		f.merchant.get(t, f.programPath()), f.merchant.get(t, f.participantPath()), f.merchant.get(t, "/api/v1/programs"),
		f.merchant.get(t, f.commissionPath(f.earnCommission(t))), f.merchant.get(t, "/api/v1/commissions"), f.merchant.get(t, "/api/v1/api-keys"), conversion,
	}
	t.Run("dashboard routes use camelCase, server routes snake_case", func(t *testing.T) {
		for _, got := range responses {
			wrong := regexp.MustCompile(`"[a-z0-9]+(_[a-z0-9]+)+":`)
			if got.request == conversion.request {
				wrong = regexp.MustCompile(`"[a-z0-9]+[A-Z][A-Za-z0-9]*":`)
			}
			if found := wrong.FindString(got.body); found != "" {
				t.Errorf("the response to %s has the field %s in the wrong spelling", got.request, found)
			}
		}
	})
	t.Run("timestamps are in UTC with milliseconds", func(t *testing.T) {
		stamp := regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`)
		exact := regexp.MustCompile(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"$`)
		seen := 0
		for _, got := range responses {
			for _, text := range stamp.FindAllString(got.body, -1) {
				if seen++; !exact.MatchString(text) {
					t.Errorf("the response to %s has the timestamp %s, want UTC with milliseconds", got.request, text)
				}
			}
		}
		if seen < 10 {
			t.Errorf("the responses have %d timestamps, want at least 10", seen)
		}
	})
	t.Run("numbers are JSON numbers, missing values are null, empty lists and zeros are present", func(t *testing.T) {
		f.merchant.get(t, f.commissionPath(f.earnCommission(t))).wantStatus(http.StatusOK).wantFields(object{
			"amountCents": 2000, "reversedAmountCents": 0, "needsReview": false, "reviewReasons": []any{}, "flatAmountCents": nil, "paidAt": nil, "rejectionCode": nil,
		})
		conversion.wantFields(object{"amount_cents": 10_000, "attributed": false, "commission": nil, "attribution.promo_code": nil, "attribution.clicked_at": nil, "fraud.signals": []any{}})
		f.merchant.inMode("live").get(t, "/api/v1/programs").wantStatus(http.StatusOK).wantFields(object{"data": []any{}, "total": 0, "page": 1, "limit": 20})
	})
	t.Run("a response with the status 204 has no body and no Content-Type", func(t *testing.T) {
		got := sys.client().post(t, "/api/v1/auth/logout", object{"refreshToken": "none"}).wantStatus(http.StatusNoContent)
		if got.body != "" || got.header.Get("Content-Type") != "" {
			t.Errorf("a 204 has the body %q and the Content-Type %q, want neither", got.body, got.header.Get("Content-Type"))
		}
	})
	t.Run("text is returned unchanged", func(t *testing.T) {
		text := "<b>\"Ünï\\cödé\" 🛶 \u2028 & {{.}}"
		f.merchant.post(t, "/api/v1/programs", object{"name": "Text", "description": text}).wantStatus(http.StatusCreated).wantFields(object{"description": text})
	})
}

// TestHTTPS checks that plain HTTP is rejected. Only a trusted proxy may report that the
// client used HTTPS.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_ALLOW_HTTP": "false"}})
	for _, url := range []string{sys.api + "/api/v1/health", sys.api + "/none", sys.edge + "/v1/health"} {
		get := func(c apiClient) response { return c.send(t, http.MethodGet, url, nil) }
		get(sys.client()).wantError(http.StatusForbidden, "HTTPS_REQUIRED")
		get(sys.client().withHeader("X-Forwarded-Proto", "http")).wantError(http.StatusForbidden, "HTTPS_REQUIRED")
		get(sys.client().withHeader("X-Forwarded-Proto", "https, http")).wantError(http.StatusForbidden, "HTTPS_REQUIRED")
		get(sys.client().withHeader("Forwarded", "proto=https")).wantError(http.StatusForbidden, "HTTPS_REQUIRED")
		forwarded := get(sys.client().withHeader("X-Forwarded-Proto", "https"))
		if forwarded.status == http.StatusForbidden || forwarded.header.Get("Strict-Transport-Security") == "" {
			t.Errorf("%s through a trusted proxy: status %d and Strict-Transport-Security %q, want success and a value", url, forwarded.status, forwarded.header.Get("Strict-Transport-Security"))
		}
	}
	sys.client().send(t, http.MethodPost, sys.edge+"/v1/clicks", object{}).wantError(http.StatusForbidden, "HTTPS_REQUIRED")

	untrusting := start(t, setup{env: map[string]string{"TRIBUTARY_ALLOW_HTTP": "false", "TRIBUTARY_TRUSTED_PROXIES": ""}})
	for _, url := range []string{untrusting.api + "/api/v1/health", untrusting.edge + "/v1/health"} {
		untrusting.client().withHeader("X-Forwarded-Proto", "https").send(t, http.MethodGet, url, nil).wantError(http.StatusForbidden, "HTTPS_REQUIRED")
	}
}
