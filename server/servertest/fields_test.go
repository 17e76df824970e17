package servertest_test

import (
	"fmt"
	"slices"
	"testing"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
)

// recorder records the errors that a test would report.
type recorder struct {
	testing.TB
	errors []string
}

func (*recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestWantFields_ReportsDifferences(t *testing.T) {
	type response = affiliatev1.ReportConversionResponse
	got := &response{
		Id: "1", EventType: affiliatev1.EventType_EVENT_TYPE_LEAD, Currency: new("EUR"),
		Attribution: &affiliatev1.ConversionAttribution{ReasonCode: "CLICK_MATCHED"},
	}
	for name, tc := range map[string]struct {
		want   *response
		errors []string
	}{
		"nothing is compared": {&response{}, nil},
		"equal fields":        {&response{Id: "1", Attribution: &affiliatev1.ConversionAttribution{ReasonCode: "CLICK_MATCHED"}}, nil},
		"text":                {&response{Id: "2"}, []string{"response.id is 1, want 2"}},
		"optional field":      {&response{Currency: new("")}, []string{"response.currency is EUR, want "}},
		"missing number":      {&response{AmountCents: 3}, []string{"response.amount_cents is not set, want 3"}},
		"enum": {
			&response{EventType: affiliatev1.EventType_EVENT_TYPE_TRIAL},
			[]string{"response.event_type is EVENT_TYPE_LEAD, want EVENT_TYPE_TRIAL"},
		},
		"field of a nested message": {
			&response{Attribution: &affiliatev1.ConversionAttribution{ReasonCode: "CLICK_EXPIRED"}},
			[]string{"response.attribution.reason_code is CLICK_MATCHED, want CLICK_EXPIRED"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			servertest.WantFields(r, "response", got, tc.want)
			if !slices.Equal(r.errors, tc.errors) {
				t.Errorf("WantFields reported %q, want %q", r.errors, tc.errors)
			}
		})
	}
}
