package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// The gateway responds to each error reason of the core with the status and the code that
// the proto specifies.
func TestErrors_EveryReasonHasStatusAndCode(t *testing.T) {
	var coreErr error
	f := newFixture(t, func(context.Context, string, proto.Message) (proto.Message, error) { return nil, coreErr })
	values := affiliatev1.ErrorReason(0).Descriptor().Values()
	for i := range values.Len() {
		if values.Get(i).Number() == 0 {
			continue
		}
		reason := strings.TrimPrefix(string(values.Get(i).Name()), "ERROR_REASON_")
		spec := proto.GetExtension(values.Get(i).Options(), affiliatev1.E_Error).(*affiliatev1.ErrorSpec)
		coreErr = coreError(codes.Code(spec.GetGrpcCode()), reason, "A special message.", map[string]string{"retry_after": "7"}, "name", "must be good")
		got := f.do("POST", "/api/v1/programs", `{}`)
		e := got.requireError(t, int(spec.GetHttpStatus()), reason)
		if want := map[bool]string{true: spec.GetMessage(), false: "A special message."}[reason == "INTERNAL_ERROR"]; e.Message != want {
			t.Errorf("%s: message %q, want %q", reason, e.Message, want)
		}
		if got.header.Get("Retry-After") != "7" {
			t.Errorf("%s: the header Retry-After is %q, want 7", reason, got.header.Get("Retry-After"))
		}
		if got, want := got.header.Get("WWW-Authenticate"), map[bool]string{true: "Bearer"}[spec.GetHttpStatus() == 401]; got != want {
			t.Errorf("%s: the header WWW-Authenticate is %q, want %q", reason, got, want)
		}

		coreErr = coreError(codes.Code(spec.GetGrpcCode()), reason, "", nil)
		if reason == "VALIDATION_ERROR" {
			continue
		}
		if e := f.do("POST", "/api/v1/programs", `{}`).requireError(t, int(spec.GetHttpStatus()), reason); e.Message != spec.GetMessage() {
			t.Errorf("%s without a message: message %q, want the standard message %q", reason, e.Message, spec.GetMessage())
		}
	}
}

func TestViolations_HaveClientSpelling(t *testing.T) {
	fields := []string{
		"name", "must be good", "website_url", "must be good", "commission_rules.flat_amount_cents", "must be good", "allowed_domains[3]", "must be good", "x-mode", "must be good",
	}
	f := newFixture(t, func(context.Context, string, proto.Message) (proto.Message, error) {
		return nil, coreError(codes.InvalidArgument, "VALIDATION_ERROR", "", nil, fields...)
	})
	e := f.do("POST", "/api/v1/programs", `{}`).requireError(t, 400, "VALIDATION_ERROR")
	requireFields(t, e, "name=must be good\nwebsiteUrl=must be good\ncommissionRules.flatAmountCents=must be good\nallowedDomains[3]=must be good\nx-mode=must be good")
	fields = []string{"line_items[0].amount_cents", "must be good", "event_type", "must be good"}
	e = f.do("POST", "/api/v1/conversions", `{}`).requireError(t, 400, "VALIDATION_ERROR")
	requireFields(t, e, "line_items[0].amount_cents=must be good\nevent_type=must be good")
	fields = []string{"answers[favourite colour]", "must be good", "program_id", "must be good", "referral_code", "must be good"}
	e = f.do("POST", "/api/v1/partner/programs/p/apply", `{}`).requireError(t, 400, "VALIDATION_ERROR")
	requireFields(t, e, "answers.favourite colour=must be good\nprogramId=must be good\nreferralCode=must be good")
	fields = []string{"page_size", "must be good"}
	e = f.do("GET", "/api/v1/programs?limit=1000", "").requireError(t, 400, "VALIDATION_ERROR")
	requireFields(t, e, "limit=must be good")
	e = f.do("GET", "/api/v1/programs?pageSize=1000", "").requireError(t, 400, "VALIDATION_ERROR")
	requireFields(t, e, "pageSize=must be good")
}

// A violation names a field as the client wrote it. If the client did not write it, the name
// has the spelling of the route.
func TestViolations_NameKeysAsClientWroteThem(t *testing.T) {
	var fields []string
	f := newFixture(t, func(context.Context, string, proto.Message) (proto.Message, error) {
		return nil, coreError(codes.InvalidArgument, "VALIDATION_ERROR", "", nil, fields...)
	})
	fields = []string{"website_url", "must not be {landing_url}", "landing_url", "must be good", "commission_rules.hold_period_days", "must be good", "commission_rules.net_basis", "must be good"}
	e := f.do("POST", "/api/v1/programs", `{"website_url":"x","landingUrl":"x","commission_rules":{"hold_period_days":1}}`).requireError(t, 400, "VALIDATION_ERROR")
	requireFields(t, e, "website_url=must not be landingUrl\nlandingUrl=must be good\ncommission_rules.hold_period_days=must be good\ncommission_rules.netBasis=must be good")
	fields = []string{"line_items[1].amount_cents", "must be good", "event_type", "is required", "sub_id", "must be good"}
	e = f.do("POST", "/api/v1/conversions", `{"lineItems":[{},{"amountCents":1}],"sub_id":"x"}`).requireError(t, 400, "VALIDATION_ERROR")
	requireFields(t, e, "lineItems[1].amountCents=must be good\nevent_type=is required\nsub_id=must be good")
	fields = []string{"participant_id", "must be a UUID", "date_from", "must be a date"}
	e = f.do("GET", "/api/v1/commissions?partnerId=x&date_from=y", "").requireError(t, 400, "VALIDATION_ERROR")
	requireFields(t, e, "partnerId=must be a UUID\ndate_from=must be a date")
}

// requireFields checks the details of an error; see errorBody.fields.
func requireFields(t *testing.T, e errorBody, want string) {
	t.Helper()
	if got := e.fields(); got != want {
		t.Errorf("details:\ngot\n%s\nwant\n%s", got, want)
	}
}

func TestClientPath_ConvertsProtoPathToCamelCase(t *testing.T) {
	desc := (&affiliatev1.CreateProgramRequest{}).ProtoReflect().Descriptor()
	for in, want := range map[string]string{
		"": "", "nothing": "nothing", "website_url.x": "websiteUrl.x", "allowed_domains[": "allowedDomains[", "commission_rules.nope.a": "commissionRules.nope.a",
		"flat_rate.a_b": "flatRate.aB", "X-Mode": "X-Mode",
		"commission_rules": "commissionRules", "allowed_domains[0][1]": "allowedDomains[0].[1]", "[0]": "[0]", ".": ".",
	} {
		if got := clientPath(desc, in, false, nil); got != want {
			t.Errorf("clientPath(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestErrors_StatusWithoutErrorInfo(t *testing.T) {
	var coreErr error
	f := newFixture(t, func(context.Context, string, proto.Message) (proto.Message, error) { return nil, coreErr })
	otherDomain, _ := status.New(codes.NotFound, "x").WithDetails(&errdetails.ErrorInfo{Reason: "SLUG_TAKEN", Domain: "elsewhere"})
	unknownReason, _ := status.New(codes.FailedPrecondition, "x").WithDetails(&errdetails.ErrorInfo{Reason: "UNKNOWN_REASON", Domain: "tributary"})
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{status.Error(codes.InvalidArgument, "internal details"), 400, "VALIDATION_ERROR"},
		{status.Error(codes.Unauthenticated, "internal details"), 401, "UNAUTHORIZED"},
		{status.Error(codes.PermissionDenied, "internal details"), 403, "FORBIDDEN"},
		{status.Error(codes.NotFound, "internal details"), 404, "NOT_FOUND"},
		{status.Error(codes.ResourceExhausted, "internal details"), 413, "PAYLOAD_TOO_LARGE"},
		{status.Error(codes.Unavailable, "internal details"), 503, "SERVICE_UNAVAILABLE"},
		{status.Error(codes.DeadlineExceeded, "internal details"), 503, "SERVICE_UNAVAILABLE"},
		{status.Error(codes.Canceled, "internal details"), 500, "INTERNAL_ERROR"},
		{status.Error(codes.Unknown, "internal details"), 500, "INTERNAL_ERROR"},
		{status.Error(codes.Internal, "internal details"), 500, "INTERNAL_ERROR"},
		{status.Error(codes.Unimplemented, "internal details"), 500, "INTERNAL_ERROR"},
		{status.Error(codes.DataLoss, "internal details"), 500, "INTERNAL_ERROR"},
		{errors.New("internal details"), 500, "INTERNAL_ERROR"},
		{otherDomain.Err(), 404, "NOT_FOUND"},
		{unknownReason.Err(), 500, "INTERNAL_ERROR"},
	} {
		coreErr = c.err
		got := f.do("GET", "/api/v1/programs", "")
		if c.code == "VALIDATION_ERROR" {
			// The core's status does not contain the invalid fields, so the error has no
			// details.
			if got.status != 400 || !strings.Contains(got.body, `"code":"VALIDATION_ERROR"`) {
				t.Errorf("%v: status %d, want 400 VALIDATION_ERROR: %s", c.err, got.status, got.body)
			}
		} else {
			got.requireError(t, c.status, c.code)
		}
		if strings.Contains(got.body, "internal details") {
			t.Errorf("%v: the response contains the message of the core: %s", c.err, got.body)
		}
		if want := map[bool]string{true: "1"}[c.status == 503]; got.header.Get("Retry-After") != want {
			t.Errorf("%v: the header Retry-After is %q, want %q", c.err, got.header.Get("Retry-After"), want)
		}
		if want := c.status >= 500; want != strings.Contains(f.log.String(), got.header.Get("X-Request-Id")) {
			t.Errorf("%v: the log contains the request: %t, want %t: %s", c.err, !want, want, f.log)
		}
	}
}

func TestErrors_UnreachableCore(t *testing.T) {
	f := newFixture(t, nil)
	f.grpc.Stop()
	for _, path := range []string{"/api/v1/programs", "/api/v1/health", "/api/v1/programs?x=1"} {
		got := f.do("GET", path, "")
		got.requireError(t, 503, "SERVICE_UNAVAILABLE")
		if got.header.Get("Retry-After") != "1" {
			t.Errorf("%s: the header Retry-After is %q, want 1", path, got.header.Get("Retry-After"))
		}
	}
	f.do("GET", "/nowhere", "").requireError(t, 404, "NOT_FOUND")
}

func TestErrors_SlowCoreAndClosedConnection(t *testing.T) {
	callStarted, callCanceled := make(chan struct{}, 1), make(chan struct{}, 1)
	f := newFixture(t, func(ctx context.Context, _ string, _ proto.Message) (proto.Message, error) {
		callStarted <- struct{}{}
		<-ctx.Done()
		callCanceled <- struct{}{}
		return nil, status.FromContextError(ctx.Err()).Err()
	}, func(c *Config) { c.Timeout = time.Second }) // long enough to call the core on a busy machine
	got := f.do("GET", "/api/v1/programs", "")
	got.requireError(t, 503, "SERVICE_UNAVAILABLE")
	<-callStarted
	<-callCanceled

	f = newFixture(t, f.core.respond)
	ctx, closeConnection := context.WithCancel(t.Context())
	defer closeConnection()
	go func() {
		<-callStarted
		closeConnection()
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/api/v1/programs", nil)
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	if response, err := http.DefaultClient.Do(request); err == nil {
		_ = response.Body.Close()
		t.Error("the client got a response although it closed the connection")
	}
	select {
	case <-callCanceled:
	case <-time.After(20 * time.Second):
		t.Error("the call to the core was not cancelled")
	}
	if text := f.log.String(); text != "" {
		t.Errorf("after a closed connection: logged %s, want nothing", text)
	}
}

func TestErrors_MessageTooLargeForCore(t *testing.T) {
	f := newFixture(t, nil) // The fake core accepts at most 32 KiB per message.
	f.do("POST", "/api/v1/programs", `{"name":"`+strings.Repeat("a", 40<<10)+`"}`).requireError(t, 413, "PAYLOAD_TOO_LARGE")
}

// The order of checks is: credential (401), rate limit (429), access (403), body (400). A
// caller who is refused gets no details about the body.
func TestErrors_CallerIsCheckedBeforeBody(t *testing.T) {
	for name, admitErr := range map[string]error{
		"401 UNAUTHORIZED":        coreError(codes.Unauthenticated, "UNAUTHORIZED", "", nil),
		"401 INVALID_API_KEY":     coreError(codes.Unauthenticated, "INVALID_API_KEY", "", nil),
		"429 RATE_LIMIT_EXCEEDED": coreError(codes.ResourceExhausted, "RATE_LIMIT_EXCEEDED", "", map[string]string{"retry_after": "12"}),
		"403 FORBIDDEN":           coreError(codes.PermissionDenied, "FORBIDDEN", "", nil),
		"503 SERVICE_UNAVAILABLE": status.Error(codes.Unavailable, "gone"),
		"500 INTERNAL_ERROR":      status.Error(codes.Unimplemented, "an old core"),
	} {
		f := newFixture(t, respondToAdmit(admitErr))
		want := map[string]int{"401": 401, "429": 429, "403": 403, "503": 503, "500": 500}[name[:3]]
		for _, c := range []struct{ verb, path, body string }{
			{"POST", "/api/v1/programs", `{"x":1}`},
			{"POST", "/api/v1/programs", `{`},
			{"POST", "/api/v1/programs?x=1", ""},
			{"GET", "/api/v1/programs?page=x", ""},
			{"PATCH", "/api/v1/programs/p", `{"mode":1}`},
			{"POST", "/api/v1/conversions", `{"amount_cents":"5"}`},
		} {
			got := f.do(c.verb, c.path, c.body, "Authorization", "Bearer x", "X-Mode", "test")
			got.requireError(t, want, name[4:])
			if name[:3] == "429" && got.header.Get("Retry-After") != "12" {
				t.Errorf("%s: the header Retry-After is %q, want 12", name, got.header.Get("Retry-After"))
			}
			call := requireOneCall(t, f.core, affiliatev1.GateService_Admit_FullMethodName)
			if md := call.metadata; md.Get("authorization")[0] != "Bearer x" || md.Get("x-mode")[0] != "test" || md.Get("x-client-ip") == nil || md.Get("x-request-id") == nil {
				t.Errorf("Admit got the metadata %v, want the credential, the mode, the client's address and the request id", md)
			}
		}
	}
	// If the core admits the caller, the response with 400 has the headers of the rate
	// limit.
	f := newFixture(t, func(ctx context.Context, _ string, _ proto.Message) (proto.Message, error) {
		return nil, grpc.SetHeader(ctx, metadata.Pairs("ratelimit", `"general";r=5;t=9`))
	})
	got := f.do("POST", "/api/v1/programs", `{"x":1}`)
	got.requireError(t, 400, "VALIDATION_ERROR")
	if got := got.header.Get("RateLimit"); got != `"general";r=5;t=9` {
		t.Errorf("the header RateLimit is %q, want the value of the core", got)
	}
}

func TestErrors_HaveRateLimitHeaders(t *testing.T) {
	f := newFixture(t, func(ctx context.Context, _ string, _ proto.Message) (proto.Message, error) {
		_ = grpc.SetHeader(ctx, metadata.Pairs("ratelimit", `"general";r=0;t=9`, "x-internal", "secret", "x-http-code", "202"))
		return nil, coreError(codes.ResourceExhausted, "RATE_LIMIT_EXCEEDED", "", map[string]string{"retry_after": "9"})
	})
	got := f.do("GET", "/api/v1/programs", "")
	got.requireError(t, 429, "RATE_LIMIT_EXCEEDED")
	if got.header.Get("RateLimit") != `"general";r=0;t=9` || got.header.Get("Retry-After") != "9" || got.header.Get("X-Internal") != "" {
		t.Errorf("headers %v, want RateLimit and Retry-After of the core and no X-Internal", got.header)
	}
}

// If a response cannot be encoded, the client gets an internal error and no partial
// response.
func TestErrors_ResponseThatCannotBeEncoded(t *testing.T) {
	f := newFixture(t, func(context.Context, string, proto.Message) (proto.Message, error) {
		return &affiliatev1.Program{CommissionRules: &affiliatev1.CommissionRules{Percentage: ptr(nan())}}, nil
	})
	f.do("POST", "/api/v1/programs", `{}`).requireError(t, 500, "INTERNAL_ERROR")
}

func nan() float64 { var zero float64; return zero / zero }

// An incomplete body is an error of the client. The gateway must not pass such a body to
// the core.
func TestBody_EndsEarlyIsClientError(t *testing.T) {
	f := newFixture(t, nil)
	for name, c := range map[string]struct{ header, body string }{
		"shorter than Content-Length":    {"Content-Length: 100\r\n", `{"name":"x"}`},
		"chunked without the last chunk": {"Transfer-Encoding: chunked\r\n", "c\r\n{\"name\":\"x\"}\r\n"},
		"chunked with an invalid chunk":  {"Transfer-Encoding: chunked\r\n", "nonsense\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			response := f.sendIncompleteBody(t, c.header, c.body, true)
			e := response.requireError(t, 400, "VALIDATION_ERROR")
			if e.fields() != "body=could not be read to its end" || response.header.Get("Connection") != "close" {
				t.Errorf("details %s with the header Connection %q, want a fault of the body with close", e.fields(), response.header.Get("Connection"))
			}
			requireOneCall(t, f.core, affiliatev1.GateService_Admit_FullMethodName)
		})
	}
}

func TestBody_StallIsClientError(t *testing.T) {
	f := newFixture(t, nil)
	server := httptest.NewUnstartedServer(f.server.Config.Handler)
	server.Config.ReadTimeout = 100 * time.Millisecond
	server.Start()
	defer server.Close()
	f.url = server.URL
	response := f.sendIncompleteBody(t, "Content-Length: 100\r\n", `{"name":"x"}`, false)
	e := response.requireError(t, 400, "VALIDATION_ERROR")
	if e.fields() != "body=could not be read to its end" || response.header.Get("Connection") != "close" {
		t.Errorf("details %s with the header Connection %q, want a fault of the body with close", e.fields(), response.header.Get("Connection"))
	}
	requireOneCall(t, f.core, affiliatev1.GateService_Admit_FullMethodName)
}

// sendIncompleteBody sends a POST request with an incomplete body and reads the response.
// If closeWrite is true, it closes the sending side of the connection after the body.
func (f *fixture) sendIncompleteBody(t *testing.T, header, body string, closeWrite bool) httpResponse {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "POST /api/v1/programs HTTP/1.1\r\nHost: x\r\n"+header+"\r\n"+body); err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	if closeWrite {
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	if response.Close {
		// Restore the header, which net/http has removed.
		response.Header.Set("Connection", "close")
	}
	return httpResponse{response.StatusCode, response.Header, string(text)}
}

// In violations that the core returns, the gateway replaces the field names by the names
// that the client used.
func TestViolations_SnakeCaseRoutesKeepClientSpelling(t *testing.T) {
	var field string
	f := newFixture(t, func(context.Context, string, proto.Message) (proto.Message, error) {
		return nil, coreError(codes.InvalidArgument, "VALIDATION_ERROR", "", nil, field, "must be good")
	})
	for _, c := range []struct{ query, field, want string }{
		{"page_size=1000", "page_size", "page_size"},
		{"pageSize=1000", "page_size", "pageSize"},
		{"limit=1000", "page_size", "limit"},
		{"", "page_size", "page_size"},
		{"dateTo=x", "date_to", "dateTo"},
		{"", "", "body"},
		{"", "X-Mode", "X-Mode"},
	} {
		field = c.field
		e := f.do("GET", "/api/v1/conversions?"+c.query, "").requireError(t, 400, "VALIDATION_ERROR")
		if e.fields() != c.want+"=must be good" {
			t.Errorf("the query %q: details %s, want the field %s", c.query, e.fields(), c.want)
		}
	}
	field = "commission_rules.tiers[2].min_revenue_cents"
	e := f.do("POST", "/api/v1/programs", `{}`).requireError(t, 400, "VALIDATION_ERROR")
	requireFields(t, e, "commissionRules.tiers[2].minRevenueCents=must be good")
}

// The gateway does not report faults of the body to a caller that the core refuses.
func TestBody_TypeAndSizeAreCheckedAfterCaller(t *testing.T) {
	f := newFixture(t, respondToAdmit(coreError(codes.ResourceExhausted, "RATE_LIMIT_EXCEEDED", "", map[string]string{"retry_after": "12"})))
	large := strings.Repeat(" ", 64<<10+1)
	f.do("POST", "/api/v1/programs", large).requireError(t, 429, "RATE_LIMIT_EXCEEDED")
	f.do("POST", "/api/v1/programs", `{}`, "Content-Type", "text/plain").requireError(t, 429, "RATE_LIMIT_EXCEEDED")
	f.do("POST", "/api/v1/programs/p/activate", `{}`, "Content-Encoding", "gzip").requireError(t, 429, "RATE_LIMIT_EXCEEDED")
	f = newFixture(t, respondToAdmit(nil))
	// The type and the size of the body are checked before the query.
	f.do("POST", "/api/v1/programs?x=1", large).requireError(t, 413, "PAYLOAD_TOO_LARGE")
	f.do("POST", "/api/v1/programs?x=1", `{`, "Content-Type", "text/plain").requireError(t, 415, "UNSUPPORTED_MEDIA_TYPE")
}

// Field names inside a message have the spelling of the client, like the field of the
// violation itself.
func TestViolations_MessagesHaveClientSpelling(t *testing.T) {
	var field, message string
	f := newFixture(t, func(context.Context, string, proto.Message) (proto.Message, error) {
		return nil, coreError(codes.InvalidArgument, "VALIDATION_ERROR", "", nil, field, message)
	})
	for _, c := range []struct{ verb, path, body, field, message, want string }{
		{"GET", "/api/v1/commissions", "", "date_to", "must not be before {date_from}", "dateTo must not be before dateFrom."},
		{"GET", "/api/v1/conversions", "", "date_to", "must not be before {date_from}", "date_to must not be before date_from."},
		{"GET", "/api/v1/conversions?dateFrom=2026-01-01", "", "date_to", "must not be before {date_from}", "date_to must not be before dateFrom."},
		{"POST", "/api/v1/conversions", `{}`, "amount_cents", "is required with {currency}", "amount_cents is required with currency."},
		{
			"POST", "/api/v1/programs", `{}`, "commission_rules.tiers[1].min_conversions", "must be absent with {commission_rules.tiers[0].min_revenue_cents}",
			"commissionRules.tiers[1].minConversions must be absent with commissionRules.tiers[0].minRevenueCents.",
		},
		{"POST", "/api/v1/programs", `{}`, "slug", "must match the pattern ^[a-z_]{1,40}$", "slug must match the pattern ^[a-z_]{1,40}$."},
		{"POST", "/api/v1/programs", `{}`, "", "must be good", "The body must be good."},
		// These are fields of the stored object, not of the request.
		{"POST", "/api/v1/programs/p/activate", `{}`, "website_url", "is required without {landing_url}", "websiteUrl is required without landingUrl."},
	} {
		field, message = c.field, c.message
		e := f.do(c.verb, c.path, c.body).requireError(t, 400, "VALIDATION_ERROR")
		if len(e.Details) != 1 || e.Details[0].Message != c.want {
			t.Errorf("%s %s: details %+v, want one with the message %q", c.verb, c.path, e.Details, c.want)
		}
	}
}
