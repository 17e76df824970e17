package conversion_test

import (
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/conversion"
)

var checkedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newChecker returns a service without a database, which is enough for Check.
func newChecker() *conversion.Service {
	return conversion.New(conversion.Config{
		Now: func() time.Time { return checkedAt }, Log: slog.New(slog.DiscardHandler),
	})
}

func TestCheck_ReturnsViolations(t *testing.T) {
	id := affiliate.NewID[affiliate.ClickID](checkedAt)
	metadata := func(v map[string]*structpb.Value) func(*reportRequest) {
		return func(r *reportRequest) { r.Metadata = &structpb.Struct{Fields: v} }
	}
	keys := func(n int) map[string]*structpb.Value {
		m := map[string]*structpb.Value{}
		for i := range n {
			m[strconv.Itoa(i)] = structpb.NewNumberValue(1)
		}
		return m
	}
	occurredAt := func(t time.Time) func(*reportRequest) {
		return func(r *reportRequest) { r.OccurredAt = timestamppb.New(t) }
	}
	longest := strings.Repeat("x", 10_000-len(`{"k":""}`))
	for name, tc := range map[string]struct {
		change func(*reportRequest)
		fields []string
	}{
		"no change":                            {func(*reportRequest) {}, nil},
		"purchase without an amount":           {func(r *reportRequest) { r.AmountCents = nil }, []string{"amount_cents"}},
		"purchase without amount and currency": {func(r *reportRequest) { r.AmountCents, r.Currency = nil, nil }, []string{"amount_cents", "currency"}},
		"renewal without an amount": {func(r *reportRequest) {
			r.EventType, r.AmountCents = affiliatev1.EventType_EVENT_TYPE_RENEWAL, nil
		}, []string{"amount_cents"}},
		"lead without amount and currency": {func(r *reportRequest) {
			r.EventType, r.AmountCents, r.Currency = affiliatev1.EventType_EVENT_TYPE_LEAD, nil, nil
		}, nil},
		"lead with an amount and without a currency": {func(r *reportRequest) {
			r.EventType, r.Currency = affiliatev1.EventType_EVENT_TYPE_LEAD, nil
		}, []string{"currency"}},
		"amount of zero":                            {func(r *reportRequest) { r.AmountCents = new(int64(0)) }, nil},
		"empty currency":                            {func(r *reportRequest) { r.Currency = new("") }, []string{"currency"}},
		"unknown currency":                          {func(r *reportRequest) { r.Currency = new("ABC") }, []string{"currency"}},
		"short currency":                            {func(r *reportRequest) { r.Currency = new("EU") }, []string{"currency"}},
		"currency with a space":                     {func(r *reportRequest) { r.Currency = new("EUR ") }, []string{"currency"}},
		"lower-case currency":                       {func(r *reportRequest) { r.Currency = new("eur") }, nil},
		"click id is no UUID":                       {func(r *reportRequest) { r.ClickId = new("abc") }, []string{"click_id"}},
		"click id in braces":                        {func(r *reportRequest) { r.ClickId = new("{" + id.String() + "}") }, []string{"click_id"}},
		"click id with a space":                     {func(r *reportRequest) { r.ClickId = new(" " + id.String()) }, []string{"click_id"}},
		"click id in upper case":                    {func(r *reportRequest) { r.ClickId = new(strings.ToUpper(id.String())) }, nil},
		"empty click id":                            {func(r *reportRequest) { r.ClickId = new("") }, nil},
		"occurred 90 days ago":                      {occurredAt(checkedAt.Add(-90 * 24 * time.Hour)), nil},
		"occurred more than 90 days ago":            {occurredAt(checkedAt.Add(-90*24*time.Hour - time.Millisecond)), []string{"occurred_at"}},
		"occurs in 5 minutes":                       {occurredAt(checkedAt.Add(5 * time.Minute)), nil},
		"occurs in more than 5 minutes":             {occurredAt(checkedAt.Add(5*time.Minute + time.Millisecond)), []string{"occurred_at"}},
		"timestamp out of range":                    {func(r *reportRequest) { r.OccurredAt = &timestamppb.Timestamp{Seconds: math.MaxInt64} }, []string{"occurred_at"}},
		"tax above the amount":                      {func(r *reportRequest) { r.TaxCents, r.ShippingCents = new(int64(1e12)), new(int64(1e12)) }, nil},
		"e-mail without a domain":                   {func(r *reportRequest) { r.CustomerEmail = new("ann@") }, []string{"customer_email"}},
		"e-mail without a local part":               {func(r *reportRequest) { r.CustomerEmail = new("@example.com") }, []string{"customer_email"}},
		"e-mail with a name":                        {func(r *reportRequest) { r.CustomerEmail = new("Ann <ann@example.com>") }, []string{"customer_email"}},
		"two e-mails":                               {func(r *reportRequest) { r.CustomerEmail = new("ann@example.com, bob@example.com") }, []string{"customer_email"}},
		"e-mail with a plus sign":                   {func(r *reportRequest) { r.CustomerEmail = new("ann+shop@example.com") }, nil},
		"IP address is a host name":                 {func(r *reportRequest) { r.CustomerIp = new("localhost") }, []string{"customer_ip"}},
		"IP address with a port":                    {func(r *reportRequest) { r.CustomerIp = new("203.0.113.7:80") }, []string{"customer_ip"}},
		"IP address with a zone":                    {func(r *reportRequest) { r.CustomerIp = new("fe80::1%eth0") }, []string{"customer_ip"}},
		"IPv6 address":                              {func(r *reportRequest) { r.CustomerIp = new("2001:db8::1") }, nil},
		"metadata with 50 keys":                     {metadata(keys(50)), nil},
		"metadata with 51 keys":                     {metadata(keys(51)), []string{"metadata"}},
		"metadata of the maximum length":            {metadata(map[string]*structpb.Value{"k": structpb.NewStringValue(longest)}), nil},
		"metadata one byte too long":                {metadata(map[string]*structpb.Value{"k": structpb.NewStringValue(longest + "x")}), []string{"metadata"}},
		"metadata is measured without HTML escapes": {metadata(map[string]*structpb.Value{"k": structpb.NewStringValue(strings.Repeat("<", len(longest)))}), nil},
		"NUL in metadata":                           {metadata(map[string]*structpb.Value{"k": structpb.NewStringValue("a\x00b")}), []string{"metadata"}},
		"NUL in a nested key of metadata": {metadata(map[string]*structpb.Value{"k": structpb.NewStructValue(&structpb.Struct{
			Fields: map[string]*structpb.Value{"\x00": structpb.NewNullValue()},
		})}), []string{"metadata"}},
		"escape sequence of NUL as text in metadata": {metadata(map[string]*structpb.Value{"k": structpb.NewStringValue(`\u0000`)}), nil},
		"several invalid fields": {func(r *reportRequest) {
			r.AmountCents, r.Currency, r.ClickId = nil, new("XYZ"), new("1")
			r.CustomerEmail, r.CustomerIp = new("a"), new("b")
		}, []string{"amount_cents", "currency", "click_id", "customer_email", "customer_ip"}},
	} {
		t.Run(name, func(t *testing.T) {
			req := purchase("order-1", id)
			tc.change(req)
			var fields []string
			for _, v := range newChecker().Check(req) {
				fields = append(fields, v.Field)
				if v.Message == "" {
					t.Errorf("the violation of %s has no message", v.Field)
				}
			}
			if !slices.Equal(fields, tc.fields) {
				t.Errorf("Check found violations of %q, want %q", fields, tc.fields)
			}
		})
	}
}

// The proto files contain validation rules (annotations), which Check does not repeat.
// This test makes sure that the proto files contain these rules.
func TestAnnotations_RejectInvalidReports(t *testing.T) {
	id := affiliate.NewID[affiliate.ClickID](checkedAt)
	if err := purchase("order-1", id).ValidateAll(); err != nil {
		t.Fatalf("ValidateAll rejects a valid report: %v", err)
	}
	for name, change := range map[string]func(*reportRequest){
		"without an event type":       func(r *reportRequest) { r.EventType = 0 },
		"without an external id":      func(r *reportRequest) { r.ExternalTransactionId = "" },
		"external id too long":        func(r *reportRequest) { r.ExternalTransactionId = strings.Repeat("x", 256) },
		"negative amount":             func(r *reportRequest) { r.AmountCents = new(int64(-1)) },
		"amount too large":            func(r *reportRequest) { r.AmountCents = new(int64(1e12 + 1)) },
		"negative tax":                func(r *reportRequest) { r.TaxCents = new(int64(-1)) },
		"promo code too long":         func(r *reportRequest) { r.PromoCode = new(strings.Repeat("x", 101)) },
		"51 product ids":              func(r *reportRequest) { r.ProductIds = strings.Split(strings.Repeat("x ", 50)+"x", " ") },
		"line item without a product": func(r *reportRequest) { r.LineItems = []*affiliatev1.LineItem{{}} },
	} {
		t.Run(name, func(t *testing.T) {
			req := purchase("order-1", id)
			change(req)
			if req.ValidateAll() == nil {
				t.Error("ValidateAll accepts the report")
			}
		})
	}
}
