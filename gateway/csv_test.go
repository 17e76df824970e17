package gateway

import (
	"context"
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

const breakdownPath = "/api/v1/analytics/breakdown?groupBy=sub_id"

// A response with rows is a CSV table if the query asks for it. Texts that a spreadsheet would
// run as formulas are neutralized, and numbers are not.
func TestCSV_TableOfRows(t *testing.T) {
	f := newFixture(t, func(context.Context, string, proto.Message) (proto.Message, error) {
		return &affiliatev1.AnalyticsBreakdown{Rows: []*affiliatev1.AnalyticsRow{
			{Value: new("=1+1"), Label: "=1+1", Clicks: 3, RefundedCents: 5, NetRevenueCents: new(int64(-5)), ConversionRate: new(0.3333)},
			{Label: "(none), \"quoted\""},
		}}, nil
	})
	const want = "value,label,clicks,uniqueClicks,signups,conversions,newCustomers,revenueCents,refundedCents,commissionCents,netRevenueCents," +
		"conversionRate,eventsPerClick,epcCents,aovCents,returnOnCommission\r\n" +
		"\"'=1+1\",\"'=1+1\",3,0,0,0,0,0,5,0,-5,0.3333,,,,\r\n" +
		"\"\",\"(none), \"\"quoted\"\"\",0,0,0,0,0,0,0,0,,,,,,\r\n"
	for _, format := range []string{"format=csv", "format=csv&page=2"} {
		response := f.do(http.MethodGet, breakdownPath+"&"+format, "")
		if response.status != http.StatusOK || response.body != want {
			t.Errorf("%s: status %d with the body\n%s\nwant\n%s", format, response.status, response.body, want)
		}
		if got := response.header.Get("Content-Type"); got != "text/csv; charset=utf-8" {
			t.Errorf("%s: the Content-Type is %q, want text/csv", format, got)
		}
	}
	for _, query := range []string{"", "&format=json", "&format="} {
		// The header Accept does not select the format.
		if response := f.do(http.MethodGet, breakdownPath+query, "", "Accept", "text/csv"); response.header.Get("Content-Type") != "application/json" {
			t.Errorf("%q: the Content-Type is %q, want application/json", query, response.header.Get("Content-Type"))
		}
	}
}

func TestCSV_Timestamps(t *testing.T) {
	f := newFixture(t, func(context.Context, string, proto.Message) (proto.Message, error) {
		return &affiliatev1.AnalyticsTimeseries{Points: []*affiliatev1.AnalyticsPoint{{Start: &timestamppb.Timestamp{Seconds: 1_772_443_800}}}}, nil
	})
	response := f.do(http.MethodGet, "/api/v1/partner/analytics/timeseries?format=csv", "")
	const want = "start,clicks,uniqueClicks,signups,conversions,newCustomers,revenueCents,refundedCents,commissionCents,netRevenueCents," +
		"conversionRate,eventsPerClick,epcCents,aovCents,returnOnCommission\r\n" +
		"\"2026-03-02T09:30:00.000Z\",0,0,0,0,0,0,0,0,,,,,,\r\n"
	if response.body != want {
		t.Errorf("the body is\n%s\nwant\n%s", response.body, want)
	}
}

// An error is JSON, whatever the format.
func TestCSV_ErrorsAreJSON(t *testing.T) {
	f := newFixture(t, respondToAdmit(nil))
	f.core.failure = coreError(codes.PermissionDenied, "FORBIDDEN", "No.", nil)
	f.do(http.MethodGet, "/api/v1/analytics/timeseries?format=xml", "").requireError(t, http.StatusBadRequest, "VALIDATION_ERROR")
	f.do(http.MethodGet, "/api/v1/analytics/summary?format=csv&nonsense=1", "").requireError(t, http.StatusBadRequest, "VALIDATION_ERROR")
}
