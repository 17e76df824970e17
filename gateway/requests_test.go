package gateway

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge/jsonscan"
)

func TestBody_WrongTypeOrSizeIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	const body = `{"name":"x"}`
	for _, c := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"no content type", nil, 201},
		{"application/json", []string{"Content-Type", "application/json"}, 201},
		{"application/json in UTF-8", []string{"Content-Type", "Application/JSON; charset=UTF-8"}, 201},
		{"identity encoding", []string{"Content-Encoding", "identity"}, 201},
		{"other charset", []string{"Content-Type", "application/json; charset=latin1"}, 415},
		{"plain text", []string{"Content-Type", "text/plain"}, 415},
		{"merge patch", []string{"Content-Type", "application/merge-patch+json"}, 415},
		{"two types", []string{"Content-Type", "application/json", "Content-Type", "text/plain"}, 415},
		{"malformed type", []string{"Content-Type", ";;"}, 415},
		{"gzip encoding", []string{"Content-Encoding", "gzip"}, 415},
	} {
		response := f.do("POST", "/api/v1/programs", body, c.headers...)
		if c.status == 415 {
			response.requireError(t, 415, "UNSUPPORTED_MEDIA_TYPE")
			requireOneCall(t, f.core, affiliatev1.GateService_Admit_FullMethodName)
			continue
		}
		if response.status != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.name, response.status, c.status, response.body)
		}
		if call := requireOneCall(t, f.core, affiliatev1.ProgramService_CreateProgram_FullMethodName); call.request.(*affiliatev1.CreateProgramRequest).GetName() != "x" {
			t.Errorf("%s: the core got %v, want the name x", c.name, call.request)
		}
	}
	if response := f.do("GET", "/api/v1/programs", "", "Content-Type", "text/plain"); response.status != 200 {
		t.Errorf("a Content-Type without a body: status %d, want 200", response.status)
	}
	f.core.takeCalls()

	largest := `{"name":"` + strings.Repeat("a", 10) + `"}` + strings.Repeat(" ", 64<<10-21)
	if response := f.do("POST", "/api/v1/programs", largest); len(largest) != 64<<10 || response.status != 201 {
		t.Errorf("a body of %d bytes: status %d, want a body of 65536 bytes and the status 201", len(largest), response.status)
	}
	f.core.takeCalls()
	f.do("POST", "/api/v1/programs", largest+" ").requireError(t, 413, "PAYLOAD_TOO_LARGE")
	chunked, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/api/v1/programs", io.MultiReader(strings.NewReader(largest), strings.NewReader(" ")))
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	f.send(chunked).requireError(t, 413, "PAYLOAD_TOO_LARGE")
	for _, call := range f.core.takeCalls() {
		if call.method != affiliatev1.GateService_Admit_FullMethodName {
			t.Errorf("%s was called with a body that is too large", call.method)
		}
	}
}

func TestBody_UnknownAndUnsettableFieldsAreFaults(t *testing.T) {
	f := newFixture(t, nil)
	for _, c := range []struct{ name, verb, path, body, want string }{
		{"path parameter", "PATCH", "/api/v1/programs/p", `{"programId":"q"}`, "programId=" + unknownField},
		{"path parameter by its proto name", "PATCH", "/api/v1/programs/p", `{"program_id":"q"}`, "program_id=" + unknownField},
		{"update mask", "PATCH", "/api/v1/programs/p", `{"updateMask":"name","update_mask":"name"}`, "updateMask=" + unknownField + "\nupdate_mask=" + unknownField},
		{"read-only fields", "PATCH", "/api/v1/programs/p", `{"mode":"test","status":"active","id":"x"}`, "mode=" + unknownField + "\nstatus=" + unknownField + "\nid=" + unknownField},
		{"both spellings of a field", "POST", "/api/v1/programs", `{"website_url":"x","websiteUrl":"x"}`, "websiteUrl=" + mustNotBeWith + "website_url, which is the same field"},
		{"wrong type in a nested object", "POST", "/api/v1/programs", `{"commissionRules":{"percentage":"5"}}`, "commissionRules.percentage=" + mustBeNumber},
		{"query of a route that has a body", "POST", "/api/v1/programs?name=x&a=1", `{"b":1}`, "name=is not a parameter of this route\na=is not a parameter of this route\nb=" + unknownField},
		{"body of a route that has no body", "POST", "/api/v1/programs/p/activate", `{"a":1}`, "a=" + unknownField},
		{"body of a GET", "GET", "/api/v1/programs?page=x", `{"page":1}`, "page=" + mustBeInteger + "\npage=" + unknownField},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := f.do(c.verb, c.path, c.body).requireError(t, 400, "VALIDATION_ERROR")
			if e.fields() != c.want {
				t.Errorf("details:\ngot\n%s\nwant\n%s", e.fields(), c.want)
			}
			requireOneCall(t, f.core, affiliatev1.GateService_Admit_FullMethodName)
		})
	}
	for _, verb := range []string{"GET", "POST"} {
		path := map[string]string{"GET": "/api/v1/programs", "POST": "/api/v1/programs/p/activate"}[verb]
		for _, body := range []string{"", " ", "{}"} {
			if response := f.do(verb, path, body); response.status != 200 {
				t.Errorf("%s with the body %q: status %d, want 200: %s", verb, body, response.status, response.body)
			}
		}
	}
}

func TestPatch_SendsUpdateMask(t *testing.T) {
	f := newFixture(t, nil)
	for body, want := range map[string]*affiliatev1.UpdateProgramRequest{
		"":   {ProgramId: "p", UpdateMask: &fieldmaskpb.FieldMask{}},
		"{}": {ProgramId: "p", UpdateMask: &fieldmaskpb.FieldMask{}},
		`{"name":"n","websiteUrl":null,"commissionRules":{"holdPeriodDays":3,"percentage":null},"allowedDomains":[]}`: {
			ProgramId: "p", Name: "n", CommissionRules: &affiliatev1.CommissionRules{HoldPeriodDays: ptr(int32(3))},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name", "website_url", "commission_rules.hold_period_days", "commission_rules.percentage", "allowed_domains"}},
		},
	} {
		if response := f.do("PATCH", "/api/v1/programs/p", body); response.status != 200 {
			t.Errorf("PATCH %s: status %d, want 200: %s", body, response.status, response.body)
			continue
		}
		call := requireOneCall(t, f.core, affiliatev1.ProgramService_UpdateProgram_FullMethodName)
		if !proto.Equal(call.request, want) {
			t.Errorf("PATCH %s: request of the core:\ngot  %v\nwant %v", body, call.request, want)
		}
	}
}

func TestQuery_IsDecodedOrRefused(t *testing.T) {
	f := newFixture(t, nil)
	const path = "/api/v1/commissions"
	valid := map[string]*affiliatev1.ListCommissionsRequest{
		"": {},
		"?page=2&pageSize=50&sortBy=amountCents&sortOrder=asc&status=pending&needsReview=false": {Page: ptr(int32(2)), PageSize: ptr(int32(50)), SortBy: ptr("amountCents"), SortOrder: affiliatev1.SortOrder_SORT_ORDER_ASC, Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING, NeedsReview: ptr(false)},
		"?limit=7":                    {PageSize: ptr(int32(7))},
		"?page_size=7&sort_by=status": {PageSize: ptr(int32(7)), SortBy: ptr("status")},
		"?partnerId=x":                {ParticipantId: ptr("x")},
		"?partner_id=x":               {ParticipantId: ptr("x")},
		"?search=a%20b+c%26d;e%C3%A9": {Search: ptr("a b c&d;eé")},
		"?page=&status=&search=&&":    {},
	}
	for query, want := range valid {
		if response := f.do("GET", path+query, ""); response.status != 200 {
			t.Errorf("%s: status %d, want 200: %s", query, response.status, response.body)
			continue
		}
		if call := requireOneCall(t, f.core, affiliatev1.CommissionService_ListCommissions_FullMethodName); !proto.Equal(call.request, want) {
			t.Errorf("%s: request of the core:\ngot  %v\nwant %v", query, call.request, want)
		}
	}
	for query, want := range map[string]string{
		"?foo=1":                       "foo=is not a parameter of this route",
		"?foo=":                        "foo=is not a parameter of this route",
		"?Page=5":                      "Page=is not a parameter of this route",
		"?page=1&page=1":               "page=" + givenTwice,
		"?page=&page=2":                "page=" + givenTwice,
		"?limit=1&pageSize=1":          "pageSize=must not be given together with limit, which is the same parameter",
		"?page_size=1&pageSize=1":      "pageSize=must not be given together with page_size, which is the same parameter",
		"?partnerId=x&participantId=y": "participantId=must not be given together with partnerId, which is the same parameter",
		"?pageSize=1&limit=":           "limit=must not be given together with pageSize, which is the same parameter",
		"?page=1.0":                    "page=" + mustBeInteger,
		"?page=1e1":                    "page=" + mustBeInteger,
		"?page=%2B1":                   "page=" + mustBeInteger,
		"?page=01":                     "page=" + mustBeInteger,
		"?page=+1":                     "page=" + mustBeInteger,
		"?page=0x10":                   "page=" + mustBeInteger,
		"?page=2147483648":             "page=must be from -2147483648 to 2147483647",
		"?needsReview=1":               "needsReview=" + mustBeBool,
		"?needsReview=TRUE":            "needsReview=" + mustBeBool,
		"?sortOrder=ASC":               "sortOrder=must be one of asc, desc",
		"?sortOrder=1":                 "sortOrder=must be one of asc, desc",
		"?search=%ff":                  "search=" + jsonscan.NotUTF8,
		"?search=%00":                  "search=" + jsonscan.ContainsNUL,
		"?search=%zz":                  "search=must be well-formed percent-encoding",
		"?%zz=1":                       "%zz=is not a well-formed parameter name",
		"?page=x&status=y&z=1":         "page=" + mustBeInteger + "\nstatus=must be one of pending, approved, rejected, paid, refunded\nz=is not a parameter of this route",
		"?=1":                          "=must not have a parameter without a name",
	} {
		e := f.do("GET", path+query, "").requireError(t, 400, "VALIDATION_ERROR")
		if e.fields() != want {
			t.Errorf("%s: details:\ngot  %s\nwant %s", query, e.fields(), want)
		}
		call := requireOneCall(t, f.core, affiliatev1.GateService_Admit_FullMethodName)
		if got := call.request.(*affiliatev1.AdmitRequest).GetMethod(); got != affiliatev1.CommissionService_ListCommissions_FullMethodName {
			t.Errorf("%s: Admit was called for %s, want ListCommissions", query, got)
		}
	}
	for _, path := range []string{"/api/v1/programs/p/commissions?programId=q", "/api/v1/programs/p/commissions?program_id=q", "/api/v1/programs/p?x=1", "/api/v1/health?x"} {
		f.do("GET", path, "").requireError(t, 400, "VALIDATION_ERROR")
	}
}

// No route has lists, timestamps or floating-point numbers in its query, so the test uses
// a message type of its own.
func TestQuery_SupportsListsAndNumbers(t *testing.T) {
	kinds := messageWithUnusedKinds(t)
	plan, err := planFor(kinds)
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	for query, want := range map[string]string{
		"colours=deep_red&colours=&colours=deep_red": "",
		"f64=1.5&i64=3&or=-1&either=":                "",
		"colours=red&f64=NaN&i64=9007199254740993":   "colours=must be one of deep_red,f64=" + mustBeNumber + ",i64=must be from -9007199254740992 to 9007199254740992",
	} {
		var faults violations
		parseQuery(query, plan.names, dynamicpb.NewMessage(kinds), &faults)
		var got []string
		for _, v := range faults.list {
			got = append(got, v.Field+"="+v.Message)
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s: faults %v, want %s", query, got, want)
		}
	}
	for name, want := range map[string]bool{"self": false, "byName": false, "colours": true} {
		if got := plan.names[name].inQuery(); got != want {
			t.Errorf("the field %s can be a parameter: %t, want %t", name, got, want)
		}
	}
}

func TestQuery_AcceptsBothSpellings(t *testing.T) {
	f := newFixture(t, nil)
	const program = "01a2054f-5d99-7814-8b20-58149f603a41"
	want := &affiliatev1.ListConversionsRequest{PageSize: ptr(int32(5)), DateFrom: ptr("2026-01-01"), ProgramId: ptr(program)}
	for _, query := range []string{
		"page_size=5&date_from=2026-01-01&program_id=" + program,
		"pageSize=5&dateFrom=2026-01-01&programId=" + program,
		"limit=5&dateFrom=2026-01-01&program_id=" + program,
	} {
		if response := f.do("GET", "/api/v1/conversions?"+query, ""); response.status != 200 {
			t.Errorf("%s: status %d, want 200: %s", query, response.status, response.body)
			continue
		}
		if call := requireOneCall(t, f.core, affiliatev1.ConversionService_ListConversions_FullMethodName); !proto.Equal(call.request, want) {
			t.Errorf("%s: the core got %v, want %v", query, call.request, want)
		}
	}
	for query, want := range map[string]string{
		"page_size=5&pageSize=5":                   "pageSize=must not be given together with page_size, which is the same parameter",
		"dateFrom=2026-01-01&date_from=2026-01-01": "date_from=must not be given together with dateFrom, which is the same parameter",
		"programId=a&program_id=":                  "program_id=must not be given together with programId, which is the same parameter",
		"PageSize=5&event_type=x&attributed=1": "PageSize=is not a parameter of this route\n" +
			"event_type=must be one of purchase, renewal, signup, lead, trial, custom\nattributed=" + mustBeBool,
	} {
		e := f.do("GET", "/api/v1/conversions?"+query, "").requireError(t, 400, "VALIDATION_ERROR")
		if e.fields() != want {
			t.Errorf("%s: details:\ngot  %s\nwant %s", query, e.fields(), want)
		}
		requireOneCall(t, f.core, affiliatev1.GateService_Admit_FullMethodName)
	}
	if response := f.do("GET", "/api/v1/analytics/breakdown?group_by=partner&partnerId="+program, ""); response.status != 200 {
		t.Fatalf("status %d, want 200: %s", response.status, response.body)
	}
	breakdown := requireOneCall(t, f.core, affiliatev1.AnalyticsService_GetAnalyticsBreakdown_FullMethodName).request.(*affiliatev1.AnalyticsRequest)
	if breakdown.GetGroupBy() != affiliatev1.AnalyticsDimension_ANALYTICS_DIMENSION_PARTICIPANT || breakdown.GetParticipantId() != program {
		t.Errorf("the core got %v, want the participant as dimension and as filter", breakdown)
	}
}

func TestBody_ConversionRoutesIgnoreUnknownKeys(t *testing.T) {
	f := newFixture(t, nil)
	for _, c := range []struct{ path, body, ignored string }{
		{"", `{"event_type":"lead","plan":{"a":[1]},"plan":2,"line_items":[{"product_id":"p","colour":null}]}`, "plan, line_items[0].colour"},
		{"/batch", `{"conversions":[{"event_type":"lead"},{"event_type":"lead","x y":1}],"é":1}`, "conversions[1].x%20y, %C3%A9"},
		{"/refunds", `{"externalRefundId":"r","eventType":"x"}`, "eventType"},
		{"", `{"event_type":"lead","metadata":{"any":1}}`, ""},
	} {
		response := f.do("POST", "/api/v1/conversions"+c.path, c.body)
		if response.status >= 300 || response.header.Get("Ignored-Fields") != c.ignored {
			t.Errorf("%s: status %d with Ignored-Fields %q, want a success with %q", c.body, response.status, response.header.Get("Ignored-Fields"), c.ignored)
		}
	}
	// Other faults of the body are still reported.
	e := f.do("POST", "/api/v1/conversions", `{"x":1,"amount_cents":"5","currency":"EUR","currency":"EUR"}`).requireError(t, 400, "VALIDATION_ERROR")
	if want := "amount_cents=" + mustBeInteger + "\ncurrency=" + givenTwice; e.fields() != want {
		t.Errorf("details %s, want %s", e.fields(), want)
	}
	long := f.do("POST", "/api/v1/conversions", `{"event_type":"lead","`+strings.Repeat("k", 3000)+`":1,"a":2}`)
	if got := long.header.Get("Ignored-Fields"); long.status != 201 || len(got) > 1100 || !strings.HasSuffix(got, "...") {
		t.Errorf("a long unknown key: status %d with Ignored-Fields of %d bytes, want 201 and at most 1100 bytes with ... at the end", long.status, len(got))
	}
	f.do("POST", "/api/v1/attribution/simulate", `{"x":1}`).requireError(t, 400, "VALIDATION_ERROR")
}

func TestBulkRequest_FaultsOfItemsAreSentToCore(t *testing.T) {
	f := newFixture(t, nil)
	response := f.do("POST", "/api/v1/conversions/batch", `{"conversions":[
		{"event_type":"lead","external_transaction_id":"a"},
		{"event_type":"sale","amount_cents":"5","external_transaction_id":"b","line_items":[{"quantity":1.5}]},
		{"event_type":"lead","external_transaction_id":"c"}]}`)
	if response.status >= 300 {
		t.Fatalf("status %d, want a success: %s", response.status, response.body)
	}
	request := requireOneCall(t, f.core, affiliatev1.ConversionService_ReportConversions_FullMethodName).request.(*affiliatev1.ReportConversionsRequest)
	var got []string
	for _, item := range request.GetConversions() {
		got = append(got, item.GetExternalTransactionId())
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("transaction ids of the items: %q, want %q", got, want)
	}
	got = nil
	for _, fault := range request.GetItemFaults() {
		got = append(got, fmt.Sprint(fault.GetIndex(), " ", fault.GetField()))
	}
	if want := []string{"1 event_type", "1 amount_cents", "1 line_items[0].quantity"}; !slices.Equal(got, want) || len(request.GetSpellings()) > 0 {
		t.Errorf("item faults %q and spellings %v, want %q and no spellings", got, request.GetSpellings(), want)
	}
	f.do("POST", "/api/v1/conversions/batch", `{"conversions":[{"eventType":"lead","lineItems":[{"product_id":5}]}]}`)
	request = requireOneCall(t, f.core, affiliatev1.ConversionService_ReportConversions_FullMethodName).request.(*affiliatev1.ReportConversionsRequest)
	if want := map[string]string{"event_type": "eventType", "line_items": "lineItems"}; !maps.Equal(request.GetSpellings(), want) || request.GetItemFaults()[0].GetField() != "lineItems[0].product_id" {
		t.Errorf("spellings %v and faults %v, want %v and a fault in lineItems[0].product_id", request.GetSpellings(), request.GetItemFaults(), want)
	}

	for _, body := range []string{
		`[]`, `{"conversions":{}}`, `{"conversions":[1]}`, `{"conversions":[null]}`, `{"conversions":[{"event_type":"lead"]}`,
	} {
		f.do("POST", "/api/v1/conversions/batch", body).requireError(t, 400, "VALIDATION_ERROR")
	}
	// Clients cannot set the field that the gateway fills.
	response = f.do("POST", "/api/v1/conversions/batch", `{"conversions":[{"event_type":"lead"}],"item_faults":[{"index":0}]}`)
	if response.header.Get("Ignored-Fields") != "item_faults" {
		t.Errorf("status %d with Ignored-Fields %q, want item_faults", response.status, response.header.Get("Ignored-Fields"))
	}
}

// An item with many faults does not affect the items after it.
func TestBulkRequest_ManyFaultsOfOneItemDoNotAffectOthers(t *testing.T) {
	f := newFixture(t, nil)
	bodyWithFaults := func(invalidJSON string) string {
		return `{"conversions":[{"line_items":[` + strings.Repeat(`{"quantity":1.5},`, 150) + invalidJSON + `{"quantity":1}]},{"external_transaction_id":"b"}]}`
	}
	if response := f.do("POST", "/api/v1/conversions/batch", bodyWithFaults("")); response.status >= 300 {
		t.Fatalf("status %d, want a success: %s", response.status, response.body)
	}
	request := requireOneCall(t, f.core, affiliatev1.ConversionService_ReportConversions_FullMethodName).request.(*affiliatev1.ReportConversionsRequest)
	if items := request.GetConversions(); len(items) != 2 || items[1].GetExternalTransactionId() != "b" {
		t.Errorf("the core got the items %v, want 2 items, the second with the transaction id b", items)
	}
	faults := request.GetItemFaults()
	if len(faults) != affiliate.MaxItemViolations+1 || faults[0].GetIndex() != 0 || faults[0].GetField() != "line_items[0].quantity" {
		t.Errorf("the core got %d item faults: %v; want %d, the first about line_items[0].quantity", len(faults), faults, affiliate.MaxItemViolations+1)
	}
	// A fault after which the decoder stops must be reported even after many other
	// faults.
	for _, invalidJSON := range []string{`}`, strings.Repeat("[", 40)} {
		response := f.do("POST", "/api/v1/conversions/batch", bodyWithFaults(invalidJSON))
		response.requireError(t, 400, "VALIDATION_ERROR")
		if !strings.Contains(response.body, "not valid JSON") && !strings.Contains(response.body, "nested deeper") {
			t.Errorf("response %s, want a fault about invalid JSON or nesting", response.body)
		}
	}
}

// admitWith returns a coreFunc that responds to Admit with violations. fields contains field
// names and messages in turn.
func admitWith(fields ...string) coreFunc {
	return func(_ context.Context, method string, _ proto.Message) (proto.Message, error) {
		if method != affiliatev1.GateService_Admit_FullMethodName {
			return nil, nil
		}
		response := &affiliatev1.AdmitResponse{}
		for i := 0; i+1 < len(fields); i += 2 {
			response.Violations = append(response.Violations, &affiliatev1.AdmitViolation{Field: fields[i], Message: fields[i+1]})
		}
		return response, nil
	}
}

func TestBody_FaultsOfGatewayAndCoreAreReported(t *testing.T) {
	f := newFixture(t, admitWith(
		"name", "is required", "website_url", "must be a URL", "allowed_domains[0]", "must be a host name", "allowed_domains[2]", "must be a host name",
		"commission_rules", "must have a rate", "payout_term_days", "must be larger than {attribution_window_days}", "slug", "must be shorter than {name}",
	))
	const body = `{"colour":1,"name":5,"websiteUrl":"x","allowedDomains":[null,"a.example","b"],"commissionRules":{"holdPeriodDays":2,"rate":5},"payoutTermDays":1}`
	e := f.do("PATCH", "/api/v1/programs/p", body).requireError(t, 400, "VALIDATION_ERROR")
	// The core cannot see the name and the first domain. So its violations that depend on them
	// say nothing new.
	requireFields(t, e, "colour="+unknownField+"\nname="+mustBeString+"\nallowedDomains[0]="+mustNotBeNull+"\ncommissionRules.rate="+unknownField+
		"\nwebsiteUrl=must be a URL\nallowedDomains[2]=must be a host name\ncommissionRules=must have a rate\npayoutTermDays=must be larger than attributionWindowDays")
	admit := requireOneCall(t, f.core, affiliatev1.GateService_Admit_FullMethodName).request.(*affiliatev1.AdmitRequest)
	var decoded affiliatev1.UpdateProgramRequest
	if err := admit.GetRequest().UnmarshalTo(&decoded); err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	want := &affiliatev1.UpdateProgramRequest{
		ProgramId: "p", WebsiteUrl: ptr("x"), AllowedDomains: []string{"", "a.example", "b"},
		CommissionRules: &affiliatev1.CommissionRules{HoldPeriodDays: ptr(int32(2))}, PayoutTermDays: ptr(int32(1)),
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name", "website_url", "allowed_domains", "commission_rules.hold_period_days", "payout_term_days"}},
	}
	if !proto.Equal(&decoded, want) {
		t.Errorf("the core validated\n%v, want\n%v", &decoded, want)
	}

	// The core does not validate a body that the gateway has not read to its end.
	f = newFixture(t, nil)
	for body, want := range map[string]string{
		`{"colour":1,"name":"`: "body=is not valid JSON at byte 20",
		`{"colour":1}}`:        "body=must not continue after the JSON object",
		`[]`:                   "body=must be a JSON object",
		`{"name":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`: "name=" + mustBeString + "\nname" + strings.Repeat("[0]", 31) + "=must not be nested deeper than 32 levels",
	} {
		requireFields(t, f.do("POST", "/api/v1/programs", body).requireError(t, 400, "VALIDATION_ERROR"), want)
		if admit := requireOneCall(t, f.core, affiliatev1.GateService_Admit_FullMethodName).request.(*affiliatev1.AdmitRequest); admit.GetRequest() != nil {
			t.Errorf("%s: the core validated %v, want nothing", body, admit.GetRequest())
		}
	}
}

func TestBody_FaultsOfGatewayAndCoreAreAtMostHundred(t *testing.T) {
	var fields []string
	for i := range 150 {
		fields = append(fields, fmt.Sprintf("allowed_domains[%d]", i), "must be a host name")
	}
	f := newFixture(t, admitWith(fields...))
	e := f.do("POST", "/api/v1/programs", `{"colour":1}`).requireError(t, 400, "VALIDATION_ERROR")
	if len(e.Details) != maxViolations || e.Details[0].Field != "colour" {
		t.Errorf("%d details that begin with %v, want %d that begin with colour", len(e.Details), e.Details[0], maxViolations)
	}
}

func TestQuery_FaultsOfGatewayAndCoreAreReported(t *testing.T) {
	f := newFixture(t, admitWith("page", "must be larger", "status", "must be known", "page_size", "must be smaller"))
	e := f.do("GET", "/api/v1/programs/p/commissions?page=0&status=x&limit=1000&colour=red", "").requireError(t, 400, "VALIDATION_ERROR")
	want := "status=must be one of pending, approved, rejected, paid, refunded\ncolour=is not a parameter of this route\npage=must be larger\nlimit=must be smaller"
	if e.fields() != want {
		t.Errorf("details:\ngot\n%s\nwant\n%s", e.fields(), want)
	}
	admit := requireOneCall(t, f.core, affiliatev1.GateService_Admit_FullMethodName).request.(*affiliatev1.AdmitRequest)
	var decoded affiliatev1.ListProgramCommissionsRequest
	if err := admit.GetRequest().UnmarshalTo(&decoded); err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	if want := (&affiliatev1.ListProgramCommissionsRequest{ProgramId: "p", Page: ptr(int32(0)), PageSize: ptr(int32(1000))}); !proto.Equal(&decoded, want) {
		t.Errorf("the core validated %v, want %v", &decoded, want)
	}
}
