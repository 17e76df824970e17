package conversion_test

import (
	"fmt"
	"log/slog"
	"math"
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

func checker() *conversion.Service {
	return conversion.New(conversion.Config{
		Now: func() time.Time { return checkedAt }, Log: slog.New(slog.DiscardHandler),
	})
}

func TestCheck_ReturnsViolations(t *testing.T) {
	id := affiliate.NewID[affiliate.Click](checkedAt)
	type request = affiliatev1.ReportConversionRequest
	metadata := func(v map[string]*structpb.Value) func(*request) {
		return func(r *request) { r.Metadata = &structpb.Struct{Fields: v} }
	}
	manyKeys := func(n int) map[string]*structpb.Value {
		m := map[string]*structpb.Value{}
		for i := range n {
			m[strconv.Itoa(i)] = structpb.NewNumberValue(1)
		}
		return m
	}
	at := func(t time.Time) func(*request) {
		return func(r *request) { r.OccurredAt = timestamppb.New(t) }
	}
	longest := maxText(`{"k":""}`)
	for name, tc := range map[string]struct {
		change func(*request)
		fields []string
	}{
		"nothing":                     {func(*request) {}, nil},
		"no amount for a purchase":    {func(r *request) { r.AmountCents = nil }, []string{"amount_cents"}},
		"neither amount nor currency": {func(r *request) { r.AmountCents, r.Currency = nil, nil }, []string{"amount_cents", "currency"}},
		"no amount for a renewal": {func(r *request) {
			r.EventType, r.AmountCents = affiliatev1.EventType_EVENT_TYPE_RENEWAL, nil
		}, []string{"amount_cents"}},
		"neither for a lead": {func(r *request) {
			r.EventType, r.AmountCents, r.Currency = affiliatev1.EventType_EVENT_TYPE_LEAD, nil, nil
		}, nil},
		"amount without currency for a lead": {func(r *request) {
			r.EventType, r.Currency = affiliatev1.EventType_EVENT_TYPE_LEAD, nil
		}, []string{"currency"}},
		"amount of zero":              {func(r *request) { r.AmountCents = ptr(int64(0)) }, nil},
		"empty currency":              {func(r *request) { r.Currency = ptr("") }, []string{"currency"}},
		"unknown currency":            {func(r *request) { r.Currency = ptr("ABC") }, []string{"currency"}},
		"short currency":              {func(r *request) { r.Currency = ptr("EU") }, []string{"currency"}},
		"currency with a space":       {func(r *request) { r.Currency = ptr("EUR ") }, []string{"currency"}},
		"lower-case currency":         {func(r *request) { r.Currency = ptr("eur") }, nil},
		"click id is no UUID":         {func(r *request) { r.ClickId = ptr("abc") }, []string{"click_id"}},
		"click id in braces":          {func(r *request) { r.ClickId = ptr("{" + id.String() + "}") }, []string{"click_id"}},
		"click id with a space":       {func(r *request) { r.ClickId = ptr(" " + id.String()) }, []string{"click_id"}},
		"click id in upper case":      {func(r *request) { r.ClickId = ptr(strings.ToUpper(id.String())) }, nil},
		"empty click id":              {func(r *request) { r.ClickId = ptr("") }, nil},
		"90 days back":                {at(checkedAt.Add(-90 * 24 * time.Hour)), nil},
		"more than 90 days back":      {at(checkedAt.Add(-90*24*time.Hour - time.Millisecond)), []string{"occurred_at"}},
		"5 minutes ahead":             {at(checkedAt.Add(5 * time.Minute)), nil},
		"more than 5 minutes ahead":   {at(checkedAt.Add(5*time.Minute + time.Millisecond)), []string{"occurred_at"}},
		"invalid timestamp":           {func(r *request) { r.OccurredAt = &timestamppb.Timestamp{Seconds: math.MaxInt64} }, []string{"occurred_at"}},
		"tax above the amount":        {func(r *request) { r.TaxCents, r.ShippingCents = ptr(int64(1e12)), ptr(int64(1e12)) }, nil},
		"e-mail without a domain":     {func(r *request) { r.CustomerEmail = ptr("ann@") }, []string{"customer_email"}},
		"e-mail without a local part": {func(r *request) { r.CustomerEmail = ptr("@example.com") }, []string{"customer_email"}},
		"e-mail with a name":          {func(r *request) { r.CustomerEmail = ptr("Ann <ann@example.com>") }, []string{"customer_email"}},
		"two e-mails":                 {func(r *request) { r.CustomerEmail = ptr("ann@example.com, bob@example.com") }, []string{"customer_email"}},
		"e-mail":                      {func(r *request) { r.CustomerEmail = ptr("ann+shop@example.com") }, nil},
		"address is a name":           {func(r *request) { r.CustomerIp = ptr("localhost") }, []string{"customer_ip"}},
		"address with a port":         {func(r *request) { r.CustomerIp = ptr("203.0.113.7:80") }, []string{"customer_ip"}},
		"address with a zone":         {func(r *request) { r.CustomerIp = ptr("fe80::1%eth0") }, []string{"customer_ip"}},
		"IPv6":                        {func(r *request) { r.CustomerIp = ptr("2001:db8::1") }, nil},
		"50 keys":                     {metadata(manyKeys(50)), nil},
		"51 keys":                     {metadata(manyKeys(51)), []string{"metadata"}},
		"metadata at its bound":       {metadata(map[string]*structpb.Value{"k": structpb.NewStringValue(longest)}), nil},
		"metadata one byte longer":    {metadata(map[string]*structpb.Value{"k": structpb.NewStringValue(longest + "x")}), []string{"metadata"}},
		"metadata is not escaped":     {metadata(map[string]*structpb.Value{"k": structpb.NewStringValue(strings.Repeat("<", len(longest)))}), nil},
		"NUL in metadata":             {metadata(map[string]*structpb.Value{"k": structpb.NewStringValue("a\x00b")}), []string{"metadata"}},
		"NUL in a nested key":         {metadata(map[string]*structpb.Value{"k": structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"\x00": structpb.NewNullValue()}})}), []string{"metadata"}},
		"escaped NUL as text":         {metadata(map[string]*structpb.Value{"k": structpb.NewStringValue(`\u0000`)}), nil},
		"everything at once": {func(r *request) {
			r.AmountCents, r.Currency, r.ClickId = nil, ptr("XYZ"), ptr("1")
			r.CustomerEmail, r.CustomerIp = ptr("a"), ptr("b")
		}, []string{"amount_cents", "currency", "click_id", "customer_email", "customer_ip"}},
	} {
		t.Run(name, func(t *testing.T) {
			req := purchase("order-1", id)
			tc.change(req)
			var fields []string
			for _, v := range checker().Check(req) {
				fields = append(fields, v.Field)
				if v.Message == "" {
					t.Errorf("%s has no message", v.Field)
				}
			}
			if fmt.Sprint(fields) != fmt.Sprint(tc.fields) {
				t.Errorf("%v, want %v", fields, tc.fields)
			}
		})
	}
}

// maxText returns the longest text with which the JSON text frame stays within the bound.
func maxText(frame string) string { return strings.Repeat("x", 10_000-len(frame)) }

// Check does not repeat the rules of the annotations in the proto files. This test makes
// sure that the annotations have them.
func TestAnnotations_RejectInvalidReports(t *testing.T) {
	type request = affiliatev1.ReportConversionRequest
	id := affiliate.NewID[affiliate.Click](checkedAt)
	for name, change := range map[string]func(*request){
		"no event type":          func(r *request) { r.EventType = 0 },
		"no external id":         func(r *request) { r.ExternalTransactionId = "" },
		"long external id":       func(r *request) { r.ExternalTransactionId = strings.Repeat("x", 256) },
		"negative amount":        func(r *request) { r.AmountCents = ptr(int64(-1)) },
		"amount above the bound": func(r *request) { r.AmountCents = ptr(int64(1e12 + 1)) },
		"negative tax":           func(r *request) { r.TaxCents = ptr(int64(-1)) },
		"long promo code":        func(r *request) { r.PromoCode = ptr(strings.Repeat("x", 101)) },
		"51 products":            func(r *request) { r.ProductIds = strings.Split(strings.Repeat("x ", 50)+"x", " ") },
		"line without a product": func(r *request) { r.LineItems = []*affiliatev1.LineItem{{}} },
	} {
		t.Run(name, func(t *testing.T) {
			req := purchase("order-1", id)
			change(req)
			if req.ValidateAll() == nil {
				t.Error("the request is valid")
			}
		})
	}
}
