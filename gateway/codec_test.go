package gateway

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge/jsonscan"
)

// encode returns the JSON of a message and checks that the JSON is valid.
func encode(t testing.TB, m proto.Message) string {
	t.Helper()
	b, err := appendJSON(nil, m.ProtoReflect())
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	if !json.Valid(b) {
		t.Fatalf("appendJSON returns %s, which is not valid JSON", b)
	}
	return string(b)
}

// decode decodes a body into m and accepts every key of the message. It returns the
// violations as field=message lines.
func decode(t testing.TB, body string, m proto.Message) string {
	t.Helper()
	plan, err := planFor(m.ProtoReflect().Descriptor())
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	var faults violations
	decodeBody([]byte(body), plan.names, m.ProtoReflect(), &faults)
	var lines []string
	for _, v := range faults.list {
		lines = append(lines, v.Field+"="+v.Message)
	}
	return strings.Join(lines, "\n")
}

func ptr[T any](v T) *T { return &v }

func TestEncode_WritesDialect(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 6_999_999, time.UTC))
	cases := []struct {
		name    string
		message proto.Message
		want    string
	}{
		{
			"zero values, and null for absent values",
			&affiliatev1.ApiKey{},
			`{"id":"","name":"","prefix":"","last4":"","createdAt":null,"lastUsedAt":null,"expiresAt":null}`,
		},
		{
			"an empty list, and null for an unspecified enum",
			&affiliatev1.ApiKeys{}, `{"mode":null,"publicKey":"","secretKeys":[],"publicKeyId":""}`,
		},
		{
			"the name of an enum value",
			&affiliatev1.ApiKeys{Mode: affiliatev1.Mode_MODE_LIVE}, `{"mode":"live","publicKey":"","secretKeys":[],"publicKeyId":""}`,
		},
		{
			"an enum value of a newer core is null",
			&affiliatev1.ApiKeys{Mode: 99}, `{"mode":null,"publicKey":"","secretKeys":[],"publicKeyId":""}`,
		},
		{
			"an enum name of several words, and optional scalars that are zero",
			&affiliatev1.CommissionRules{CommissionType: affiliatev1.CommissionType_COMMISSION_TYPE_FLAT, Percentage: ptr(12.5), FlatAmountCents: ptr(int64(0)), AutoApproval: ptr(false), NetBasis: affiliatev1.NetBasis_NET_BASIS_NET_OF_TAX_SHIPPING},
			`{"commissionType":"flat","percentage":12.5,"flatAmountCents":0,"holdPeriodDays":null,"autoApproval":false,"netBasis":"net_of_tax_shipping","recurring":null,"laterPercentage":null,"minOrderCents":null,"capCents":null,"tiers":[],"products":[],"events":[]}`,
		},
		{
			"a timestamp truncated to milliseconds",
			&affiliatev1.Workspace{CreatedAt: at}, `{"id":"","name":"","currency":"","timezone":"","createdAt":"2026-01-02T03:04:05.006Z","allowedOrigins":[],"originPolicy":null,"testMailRedirect":null,"updatedAt":null,"requireSecondFactor":false,"payoutApproval":null,"booksClosedUntil":null,"retainPayeeYears":0}`,
		},
		{
			"snake_case from json_name, and an exact 64-bit number",
			&affiliatev1.ConversionCommission{AmountCents: math.MaxInt64, Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING},
			`{"id":"","status":"pending","amount_cents":9223372036854775807,"currency":"","hold_until":null,"needs_review":false}`,
		},
		{
			"lists of messages",
			&affiliatev1.FraudVerdict{Flagged: true, Signals: []*affiliatev1.FraudSignal{{Rule: "a", Score: -3}, {Evidence: "b"}}},
			`{"flagged":true,"signals":[{"rule":"a","score":-3,"evidence":""},{"rule":"","score":0,"evidence":"b"}]}`,
		},
		{
			"a string with characters that need an escape",
			&affiliatev1.HealthStatus{Status: "\"\\\n\t\r\x01\x7f<é😀\u2028"}, `{"status":"\"\\\n\t\r\u0001` + "\x7f<é😀\u2028" + `"}`,
		},
		{"invalid UTF-8 is replaced", &affiliatev1.HealthStatus{Status: "a\xffb"}, `{"status":"a` + "\ufffd" + `b"}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := encode(t, c.message); got != c.want {
				t.Errorf("encoded:\ngot  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestEncode_SortsMapKeys(t *testing.T) {
	m := &affiliatev1.Participant{ApplicationAnswers: map[string]string{"b": "2", "a": "1", "c": "3"}}
	if got, want := encode(t, m), `"applicationAnswers":{"a":"1","b":"2","c":"3"}`; !strings.Contains(got, want) {
		t.Errorf("encoded as %s, want it to contain %s", got, want)
	}
	if got, want := encode(t, &affiliatev1.Participant{}), `"applicationAnswers":{}`; !strings.Contains(got, want) {
		t.Errorf("encoded as %s, want it to contain %s", got, want)
	}
}

func TestEncode_StructIsObject(t *testing.T) {
	s, err := structpb.NewStruct(map[string]any{"n": 1.5, "i": 7, "s": "x", "b": true, "z": nil, "l": []any{1, "a", map[string]any{}}, "o": map[string]any{"k": -1}})
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	got := encode(t, &affiliatev1.ReportConversionRequest{Metadata: s})
	if want := `"metadata":{"b":true,"i":7,"l":[1,"a",{}],"n":1.5,"o":{"k":-1},"s":"x","z":null}`; !strings.Contains(got, want) {
		t.Errorf("encoded as %s, want it to contain %s", got, want)
	}
}

func TestEncode_RejectsValuesWithoutJSONForm(t *testing.T) {
	for name, m := range map[string]proto.Message{
		"NaN":                      &affiliatev1.CommissionRules{Percentage: ptr(math.NaN())},
		"infinity":                 &affiliatev1.CommissionRules{Percentage: ptr(math.Inf(1))},
		"a year beyond 9999":       &affiliatev1.Workspace{CreatedAt: &timestamppb.Timestamp{Seconds: 1 << 40}},
		"an update mask":           &affiliatev1.UpdateProgramRequest{UpdateMask: &fieldmaskpb.FieldMask{}},
		"an unsupported type":      structpb.NewNullValue(),
		"another unsupported type": dynamicpb.NewMessage((&descriptorpb.FieldOptions{}).ProtoReflect().Descriptor()),
	} {
		if b, err := appendJSON(nil, m.ProtoReflect()); err == nil {
			t.Errorf("%s was encoded as %s, want an error", name, b)
		}
	}
}

func TestDecode_AcceptsDialect(t *testing.T) {
	body := ` { "event_type" : "purchase", "external_transaction_id":"a\u00e9\ud83d\ude00\n\/", "amount_cents":9007199254740992,
		"currency":null, "occurred_at":"2026-01-02T03:04:05.006+01:00", "tax_cents":-0, "product_ids":["a","b"],
		"line_items":[{"product_id":"p","quantity":2,"amount_cents":5},{}], "is_recurring":false,
		"metadata":{"a":1.5e3,"b":[true,null,"x",{"c":{}}],"d":null} } `
	var got affiliatev1.ReportConversionRequest
	if faults := decode(t, body, &got); faults != "" {
		t.Fatalf("decode reports %s, want no faults", faults)
	}
	metadata, _ := structpb.NewStruct(map[string]any{"a": 1500, "b": []any{true, nil, "x", map[string]any{"c": map[string]any{}}}, "d": nil})
	want := &affiliatev1.ReportConversionRequest{
		EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, ExternalTransactionId: "aé😀\n/", AmountCents: ptr(int64(1 << 53)),
		OccurredAt: timestamppb.New(time.Date(2026, 1, 2, 2, 4, 5, 6e6, time.UTC)), TaxCents: ptr(int64(0)), ProductIds: []string{"a", "b"},
		LineItems:   []*affiliatev1.LineItem{{ProductId: "p", Quantity: ptr(int64(2)), AmountCents: 5}, {}},
		IsRecurring: ptr(false), Metadata: metadata,
	}
	if !proto.Equal(&got, want) {
		t.Errorf("decoded:\ngot  %v\nwant %v", &got, want)
	}
	for _, empty := range []string{"", " \n", "{}", `{"metadata":null,"line_items":null,"product_ids":null,"event_type":null}`} {
		var m affiliatev1.ReportConversionRequest
		if faults := decode(t, empty, &m); faults != "" || !proto.Equal(&m, &affiliatev1.ReportConversionRequest{}) {
			t.Errorf("decode(%q): message %v with the faults %q, want an empty message and no faults", empty, &m, faults)
		}
	}
}

// Every key may have the other spelling, also in nested objects. The keys of free objects and
// of maps are data.
func TestDecode_AcceptsBothSpellingsOfKeys(t *testing.T) {
	var sale affiliatev1.ReportConversionRequest
	faults := decode(t, `{"eventType":"lead","amount_cents":5,"lineItems":[{"productId":"p"},{"product_id":"q"}],"metadata":{"someKey":1,"some_key":2}}`, &sale)
	if faults != "" || sale.GetEventType() != affiliatev1.EventType_EVENT_TYPE_LEAD || sale.GetAmountCents() != 5 || sale.GetLineItems()[0].GetProductId() != "p" ||
		sale.GetLineItems()[1].GetProductId() != "q" || len(sale.GetMetadata().GetFields()) != 2 {
		t.Errorf("decoded as %v with the faults %q, want all fields and no faults", &sale, faults)
	}
	var program affiliatev1.UpdateProgramRequest
	faults = decode(t, `{"website_url":"x","commission_rules":{"hold_period_days":3,"autoApproval":true}}`, &program)
	if faults != "" || program.GetWebsiteUrl() != "x" || program.GetCommissionRules().GetHoldPeriodDays() != 3 || !program.GetCommissionRules().GetAutoApproval() {
		t.Errorf("decoded as %v with the faults %q, want all fields and no faults", &program, faults)
	}
}

func TestDecode_RejectsInvalidBodies(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	const notInteger, range53 = "amount_cents=" + mustBeInteger, "amount_cents=must be from -9007199254740992 to 9007199254740992"
	cases := []struct{ name, body, want string }{
		{"string for integer", `{"amount_cents":"5"}`, notInteger},
		{"fraction", `{"amount_cents":1.0}`, notInteger},
		{"exponent", `{"amount_cents":1e3}`, notInteger},
		{"bool for integer", `{"amount_cents":true}`, notInteger},
		{"object for integer", `{"amount_cents":{"a":[1]}}`, notInteger},
		{"beyond 2^53", `{"amount_cents":9007199254740993}`, range53},
		{"beyond -2^53", `{"amount_cents":-9007199254740993}`, range53},
		{"beyond 2^64", `{"amount_cents":99999999999999999999999999}`, range53},
		{"path inside a list", `{"line_items":[{},{"amount_cents":"5"}]}`, "line_items[1].amount_cents=" + mustBeInteger},
		{"null in a list", `{"product_ids":["a",null]}`, "product_ids[1]=" + mustNotBeNull},
		{"number for string", `{"currency":5}`, "currency=" + mustBeString},
		{"string for bool", `{"is_recurring":"true"}`, "is_recurring=" + mustBeBool},
		{"object for list", `{"product_ids":{}}`, "product_ids=" + mustBeArray},
		{"string for list element", `{"line_items":["x"]}`, "line_items[0]=" + mustBeObject},
		{"list for struct", `{"metadata":[]}`, "metadata=" + mustBeObject},
		{"unknown enum name", `{"event_type":"refund"}`, "event_type=must be one of purchase, renewal, signup, lead, trial, custom"},
		{"enum by its proto name", `{"event_type":"EVENT_TYPE_PURCHASE"}`, "event_type=must be one of purchase, renewal, signup, lead, trial, custom"},
		{"enum by number", `{"event_type":1}`, "event_type=" + mustBeString},
		{"the unspecified enum value", `{"event_type":"unspecified"}`, "event_type=must be one of purchase, renewal, signup, lead, trial, custom"},
		{"timestamp without zone", `{"occurred_at":"2026-01-02T03:04:05"}`, "occurred_at=" + mustBeTimestamp},
		{"timestamp with one-digit hour", `{"occurred_at":"2026-01-02T3:04:05Z"}`, "occurred_at=" + mustBeTimestamp},
		{"date only", `{"occurred_at":"2026-01-02"}`, "occurred_at=" + mustBeTimestamp},
		{"30 February", `{"occurred_at":"2026-02-30T00:00:00Z"}`, "occurred_at=" + mustBeTimestamp},
		{"year 0", `{"occurred_at":"0000-01-01T00:00:00Z"}`, "occurred_at=must be a timestamp of the years 1 to 9999"},
		{"timestamp as number", `{"occurred_at":5}`, "occurred_at=" + mustBeTimestamp},
		{"unknown field", `{"x":1}`, "x=" + unknownField},
		{"wrong type under the camelCase name", `{"taxCents":"5","lineItems":[{"productId":5}]}`, "taxCents=" + mustBeInteger + "\nlineItems[0].productId=" + mustBeString},
		{"both spellings", `{"tax_cents":5,"taxCents":5}`, "taxCents=" + mustNotBeWith + "tax_cents, which is the same field"},
		{"both spellings, camelCase first", `{"taxCents":5,"tax_cents":5,"taxCents":6}`, "tax_cents=" + mustNotBeWith + "taxCents, which is the same field\ntaxCents=" + givenTwice},
		{
			"both spellings in a list element", `{"lineItems":[{"productId":"a"},{"product_id":"b","productId":"c"}]}`,
			"lineItems[1].productId=" + mustNotBeWith + "lineItems[1].product_id, which is the same field",
		},
		{"wrong case", `{"Currency":"EUR"}`, "Currency=" + unknownField},
		{"duplicate", `{"currency":"EUR","currency":"EUR"}`, "currency=" + givenTwice},
		{"duplicate with null", `{"currency":null,"currency":"EUR"}`, "currency=" + givenTwice},
		{"duplicate by escape", `{"currency":"EUR","c\u0075rrency":"EUR"}`, "currency=" + givenTwice},
		{"duplicate in a list element", `{"line_items":[{"quantity":1,"quantity":1}]}`, "line_items[0].quantity=" + givenTwice},
		{"duplicate in a struct", `{"metadata":{"a":{"b":1,"b":2}}}`, "metadata.a.b=" + givenTwice},
		{"unknown twice", `{"x":1,"x":2}`, "x=" + unknownField + "\nx=" + givenTwice},
		{"NUL", `{"currency":"a\u0000"}`, "currency=" + jsonscan.ContainsNUL},
		{"NUL in a struct", `{"metadata":{"a":["\u0000"]}}`, "metadata.a[0]=" + jsonscan.ContainsNUL},
		{"lone surrogate", `{"currency":"\ud800"}`, "currency=" + jsonscan.LoneSurrogate},
		{"lone low surrogate", `{"currency":"\udc00x"}`, "currency=" + jsonscan.LoneSurrogate},
		{"two high surrogates", `{"currency":"\ud800\ud800"}`, "currency=" + jsonscan.LoneSurrogate},
		{"invalid UTF-8", "{\"currency\":\"\xff\"}", "currency=" + jsonscan.NotUTF8},
		{"overlong UTF-8", "{\"currency\":\"\xc0\x80\"}", "currency=" + jsonscan.NotUTF8},
		{"surrogate as UTF-8", "{\"currency\":\"\xed\xa0\x80\"}", "currency=" + jsonscan.NotUTF8},
		{"key with invalid UTF-8", "{\"\xff\":1}", "\ufffd=must be valid UTF-8 in its name"},
		{"number that a struct cannot contain", `{"metadata":{"a":9007199254740993,"b":1e999}}`, "metadata.a=must be from -9007199254740992 to 9007199254740992\nmetadata.b=must fit in a 64-bit floating-point number"},
		{"not an object", `[1,2]`, "body=must be a JSON object"},
		{"null", `null`, "body=must be a JSON object"},
		{"trailing data", `{} {}`, "body=must not continue after the JSON object"},
		{"trailing brace", `{}}`, "body=must not continue after the JSON object"},
		{"no JSON", `hello`, "body=is not valid JSON at byte 0"},
		{"cut off", `{"currency":"EU`, "body=is not valid JSON at byte 15"},
		{"trailing comma", `{"currency":"EUR",}`, "body=is not valid JSON at byte 18"},
		{"leading zero", `{"tax_cents":05}`, "body=is not valid JSON at byte 14"},
		{"plus sign", `{"tax_cents":+5}`, "body=is not valid JSON at byte 13"},
		{"NaN", `{"tax_cents":NaN}`, "body=is not valid JSON at byte 13"},
		{"raw control character", "{\"currency\":\"a\nb\"}", "body=is not valid JSON at byte 14"},
		{"raw NUL", "{\"currency\":\"\x00\"}", "body=is not valid JSON at byte 13"},
		{"bad escape", `{"currency":"\x"}`, "body=is not valid JSON at byte 13"},
		{"byte order mark", "\ufeff{}", "body=is not valid JSON at byte 0"},
		{"cut off after other faults", `{"x":1,"amount_cents":"5","line_items":[{"y":1}`, "body=is not valid JSON at byte 47"},
		{"trailing data after other faults", `{"x":1}{`, "body=must not continue after the JSON object"},
		{"trailing data after a value that is not an object", `5 5`, "body=must not continue after the JSON object"},
		{"comment", `{/**/}`, "body=is not valid JSON at byte 1"},
		{"too deep", `{"metadata":{"a":` + deep(31) + `}}`, "metadata.a" + strings.Repeat("[0]", 30) + "=must not be nested deeper than 32 levels"},
		{"too deep in an unknown field", `{"x":` + deep(40) + `}`, "x=" + unknownField + "\nx" + strings.Repeat("[0]", 31) + "=must not be nested deeper than 32 levels"},
		{
			"several faults", `{"event_type":7,"amount_cents":"5","line_items":[{"quantity":1.5,"y":0}],"x":[],"currency":"EUR"}`,
			"event_type=" + mustBeString + "\namount_cents=" + mustBeInteger + "\nline_items[0].quantity=" + mustBeInteger +
				"\nline_items[0].y=" + unknownField + "\nx=" + unknownField,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := decode(t, c.body, &affiliatev1.ReportConversionRequest{}); got != c.want {
				t.Errorf("faults:\ngot  %q\nwant %q", got, c.want)
			}
		})
	}
	if got := decode(t, `{"metadata":{"a":`+deep(30)+`}}`, &affiliatev1.ReportConversionRequest{}); got != "" {
		t.Errorf("a body with 32 levels has the faults %s, want none", got)
	}
}

func TestDecode_AcceptsMapOfStrings(t *testing.T) {
	var m affiliatev1.ApplyRequest
	if got := decode(t, `{"answers":{"a":"1","b":""}}`, &m); got != "" || len(m.GetAnswers()) != 2 || m.GetAnswers()["a"] != "1" {
		t.Errorf("decoded as %v with the faults %q, want two answers and no faults", &m, got)
	}
	want := "answers.a=" + givenTwice + "\nanswers.n=" + mustBeString + "\nanswers.z=" + mustNotBeNull
	if got := decode(t, `{"answers":{"a":"1","a":"1","n":5,"z":null}}`, &affiliatev1.ApplyRequest{}); got != want {
		t.Errorf("faults:\ngot  %q\nwant %q", got, want)
	}
}

func TestDecode_ReportsAtMostHundredFaults(t *testing.T) {
	body := `{"product_ids":[` + strings.Repeat("1,", 5000) + `1],"` + strings.Repeat("k", 5000) + `":1}`
	var faults violations
	m := &affiliatev1.ReportConversionRequest{}
	plan, err := planFor(m.ProtoReflect().Descriptor())
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	decodeBody([]byte(body), plan.names, m.ProtoReflect(), &faults)
	if len(faults.list) != maxViolations {
		t.Errorf("decodeBody reports %d faults, want %d", len(faults.list), maxViolations)
	}
	if got := decode(t, `{"`+strings.Repeat("k", 5000)+`":1}`, m); len(got) > 300 {
		t.Errorf("the fault of a long key has %d bytes, want at most 300", len(got))
	}
}

// messageWithUnusedKinds returns a message type with combinations of fields that the
// messages of the API do not have.
func messageWithUnusedKinds(t testing.TB) protoreflect.MessageDescriptor {
	t.Helper()
	field := func(number int32, name string, kind descriptorpb.FieldDescriptorProto_Type, change ...func(*descriptorpb.FieldDescriptorProto)) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		for _, c := range change {
			c(f)
		}
		return f
	}
	named := func(name string) func(*descriptorpb.FieldDescriptorProto) {
		return func(f *descriptorpb.FieldDescriptorProto) { f.TypeName = &name }
	}
	list := func(f *descriptorpb.FieldDescriptorProto) {
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	choice := func(f *descriptorpb.FieldDescriptorProto) { f.OneofIndex = ptr(int32(0)) }
	file := &descriptorpb.FileDescriptorProto{
		Name: ptr("every.proto"), Package: ptr("every"), Syntax: ptr("proto3"),
		EnumType: []*descriptorpb.EnumDescriptorProto{{Name: ptr("Colour"), Value: []*descriptorpb.EnumValueDescriptorProto{
			{Name: ptr("COLOUR_UNSPECIFIED"), Number: ptr(int32(0))}, {Name: ptr("COLOUR_DEEP_RED"), Number: ptr(int32(1))},
		}}},
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: ptr("Kinds"),
			Field: []*descriptorpb.FieldDescriptorProto{
				field(1, "i32", descriptorpb.FieldDescriptorProto_TYPE_INT32),
				field(2, "i64", descriptorpb.FieldDescriptorProto_TYPE_INT64),
				field(3, "j32", descriptorpb.FieldDescriptorProto_TYPE_INT32),
				field(4, "f64", descriptorpb.FieldDescriptorProto_TYPE_DOUBLE),
				field(5, "colours", descriptorpb.FieldDescriptorProto_TYPE_ENUM, named(".every.Colour"), list),
				field(7, "self", descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, named(".every.Kinds")),
				field(8, "by_name", descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, named(".every.Kinds.ByNameEntry"), list),
				field(9, "either", descriptorpb.FieldDescriptorProto_TYPE_STRING, choice),
				field(10, "or", descriptorpb.FieldDescriptorProto_TYPE_INT64, choice),
			},
			OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: ptr("choice")}},
			NestedType: []*descriptorpb.DescriptorProto{{
				Name: ptr("ByNameEntry"), Options: &descriptorpb.MessageOptions{MapEntry: ptr(true)},
				Field: []*descriptorpb.FieldDescriptorProto{
					field(1, "key", descriptorpb.FieldDescriptorProto_TYPE_STRING),
					field(2, "value", descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, named(".every.Kinds")),
				},
			}},
		}},
	}
	fd, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	return fd.Messages().ByName("Kinds")
}

func TestCodec_UnusedKindsRoundTrip(t *testing.T) {
	kinds := messageWithUnusedKinds(t)
	body := `{"i32":2147483647,"i64":9007199254740992,"j32":-2147483648,"f64":0.1,"colours":["deep_red"],` +
		`"self":{"i32":0,"i64":0,"j32":0,"f64":1e-7,"colours":[],"self":null,"byName":{},"either":null,"or":0},` +
		`"byName":{"x":{"i32":1,"i64":0,"j32":0,"f64":0,"colours":[],"self":null,"byName":{},"either":null,"or":null}},"either":"","or":null}`
	m := dynamicpb.NewMessage(kinds)
	if faults := decode(t, body, m); faults != "" {
		t.Fatalf("decode reports %s, want no faults", faults)
	}
	if got, want := encode(t, m), strings.Replace(body, "1e-7", "1e-07", 1); got != want {
		t.Errorf("encoded:\ngot  %s\nwant %s", got, want)
	}

	want := strings.Join([]string{
		"i32=must be from -2147483648 to 2147483647", "j32=must be from -2147483648 to 2147483647",
		"i64=must be from -9007199254740992 to 9007199254740992", "f64=must fit in a 64-bit floating-point number",
		"colours[0]=must be one of deep_red", "byName.x.i32=" + mustBeInteger,
		"or=must not be given together with either",
	}, "\n")
	got := decode(t, `{"i32":-2147483649,"j32":2147483648,"i64":-9007199254740993,"f64":1e309,"colours":["red"],"byName":{"x":{"i32":""}},"either":"a","or":1}`, dynamicpb.NewMessage(kinds))
	if got != want {
		t.Errorf("faults:\ngot\n%s\nwant\n%s", got, want)
	}
}

func TestUpdateMask_ContainsKeysOfBody(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                                   "",
		`{"name":"x"}`:                         "name",
		`{"websiteUrl":null,"isPublic":false}`: "website_url,is_public",
		`{"allowedDomains":["a","b"]}`:         "allowed_domains",
		`{"commissionRules":{"percentage":5,"holdPeriodDays":null}}`:       "commission_rules.percentage,commission_rules.hold_period_days",
		`{"commission_rules":{"hold_period_days":null},"website_url":"x"}`: "commission_rules.hold_period_days,website_url",
		`{"commissionRules":null}`:                                         "commission_rules",
		`{"commissionRules":{}}`:                                           "",
	} {
		m := &affiliatev1.UpdateProgramRequest{}
		plan, err := planFor(m.ProtoReflect().Descriptor())
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		var faults violations
		var mask []string
		(&decoder{faults: &faults, mask: &mask}).body([]byte(body), plan.names, m.ProtoReflect())
		if got := strings.Join(mask, ","); got != want || len(faults.list) > 0 {
			t.Errorf("%s: update mask %s with the faults %v, want %s and no faults", body, got, faults.list, want)
		}
	}
}

// FuzzDecode checks that no body causes a panic. If a body is accepted and its message is
// encoded, the result must be accepted too and must not change when it is decoded and
// encoded again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"event_type":"purchase","external_transaction_id":"x","amount_cents":100,"currency":"EUR","metadata":{"a":[1,null,{"b":"c"}]}}`,
		`{"line_items":[{"product_id":"p","quantity":1,"amount_cents":2}],"occurred_at":"2026-01-02T03:04:05.678+02:00"}`,
		`{"currency":"\ud83d\ude00\u0000\ud800"}`, "{\"currency\":\"\xff\"}", `{"a":{"b":[[[[{"c":1e999}]]]]}}`, `{} x`, ``, `[`, `{"metadata":{"a":-0.0}}`,
	} {
		f.Add([]byte(seed))
	}
	plan, err := planFor((&affiliatev1.ReportConversionRequest{}).ProtoReflect().Descriptor())
	if err != nil {
		f.Fatalf("unexpected error: %v", err)
	}
	read := func(body []byte) (*affiliatev1.ReportConversionRequest, []string) {
		m := &affiliatev1.ReportConversionRequest{}
		var faults violations
		var mask []string
		(&decoder{faults: &faults, mask: &mask}).body(body, plan.names, m.ProtoReflect())
		var lines []string
		for _, v := range faults.list {
			lines = append(lines, v.Field+v.Message)
		}
		return m, lines
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, faults := read(body)
		if len(faults) > maxViolations {
			t.Fatalf("%d faults, want at most %d", len(faults), maxViolations)
		}
		if faults != nil {
			return
		}
		if len(strings.TrimSpace(string(body))) > 0 && !json.Valid(body) {
			t.Fatalf("the body %q is accepted but is not valid JSON", body)
		}
		encoded := encode(t, m)
		decoded, faults := read([]byte(encoded))
		if faults != nil {
			t.Fatalf("the body %q is decoded and encoded as\n%s\nwhich has the faults %v", body, encoded, faults)
		}
		if reencoded := encode(t, decoded); reencoded != encoded {
			t.Fatalf("the JSON changes when it is decoded and encoded again:\nbefore %s\nafter  %s", encoded, reencoded)
		}
	})
}

// The number of items on a page has the name of its parameter beside the name limit.
func TestEncode_ListsHavePageSizeBesideLimit(t *testing.T) {
	for _, c := range []struct {
		list proto.Message
		want string
	}{
		{&affiliatev1.ListLinksResponse{Total: 1, Page: 2, Limit: 20}, `{"data":[],"total":1,"page":2,"limit":20,"pageSize":20}`},
		{&affiliatev1.ListConversionsResponse{Total: 1, Page: 2, Limit: 20}, `{"data":[],"total":1,"page":2,"limit":20,"page_size":20}`},
	} {
		got, err := appendJSON(nil, c.list.ProtoReflect())
		if err != nil || string(got) != c.want {
			t.Errorf("%T is %s (error: %v), want %s", c.list, got, err, c.want)
		}
	}
}
