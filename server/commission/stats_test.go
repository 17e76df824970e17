package commission_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func (m *merchant) stats(t *testing.T, req *affiliatev1.GetCommissionStatsRequest) *affiliatev1.CommissionStats {
	t.Helper()
	got, err := m.w.service.GetCommissionStats(m.call(), req)
	if err != nil {
		t.Fatalf("%v: %v", req, err)
	}
	return got
}

func sumOf(n, cents int64) *affiliatev1.CommissionStatusStats {
	return &affiliatev1.CommissionStatusStats{Count: n, AmountCents: cents}
}

func TestStats_SumOneCurrency(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	nothing := &affiliatev1.CommissionStats{
		Currency: "EUR",
		ByStatus: &affiliatev1.CommissionStatsByStatus{Pending: sumOf(0, 0), Approved: sumOf(0, 0), Rejected: sumOf(0, 0), Paid: sumOf(0, 0), Refunded: sumOf(0, 0)},
	}
	if got := m.stats(t, &affiliatev1.GetCommissionStatsRequest{}); !proto.Equal(got, nothing) {
		t.Errorf("nothing: %v", got)
	}
	dollars := m.newProgram("In dollars")
	w.Exec(`update programs set currency = 'USD' where id = $1`, dollars)
	p, q := m.somePartner(), m.partner(dollars, "Quentin", "q@example.com")
	m.commission(p, map[string]any{"amount_cents": 101})
	id := m.commission(p, map[string]any{"amount_cents": 100, "needs_review": true})
	m.commission(p, map[string]any{"amount_cents": 7, "currency": "USD", "status": "approved", "needs_review": true})
	m.commission(q, map[string]any{"amount_cents": 50, "currency": "USD", "status": "paid"})
	elsewhere := w.merchant(affiliate.ModeLive)
	elsewhere.commission(elsewhere.somePartner(), nil)
	test := m.other()
	test.commission(test.somePartner(), nil)

	want := &affiliatev1.CommissionStats{
		TotalCount: 4, TotalAmountCents: 201, Currency: "EUR", AverageAmountCents: 101, NeedsReviewCount: 2,
		ByStatus: &affiliatev1.CommissionStatsByStatus{
			Pending: sumOf(2, 201), Approved: sumOf(1, 0), Rejected: sumOf(0, 0), Paid: sumOf(1, 0), Refunded: sumOf(0, 0),
		},
		ByCurrency: []*affiliatev1.CommissionCurrencyStats{{Currency: "EUR", Count: 2, AmountCents: 201}, {Currency: "USD", Count: 2, AmountCents: 57}},
	}
	if got := m.stats(t, &affiliatev1.GetCommissionStatsRequest{}); !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	want = &affiliatev1.CommissionStats{
		TotalCount: 1, TotalAmountCents: 50, Currency: "USD", AverageAmountCents: 50,
		ByStatus: &affiliatev1.CommissionStatsByStatus{
			Pending: sumOf(0, 0), Approved: sumOf(0, 0), Rejected: sumOf(0, 0), Paid: sumOf(1, 50), Refunded: sumOf(0, 0),
		},
		ByCurrency: []*affiliatev1.CommissionCurrencyStats{{Currency: "USD", Count: 1, AmountCents: 50}},
	}
	got, err := w.service.GetProgramCommissionStats(m.call(), &affiliatev1.GetProgramCommissionStatsRequest{ProgramId: dollars.String()})
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("of a programme: %v, %v, want %v", got, err, want)
	}
	if got := m.stats(t, &affiliatev1.GetCommissionStatsRequest{ProgramId: proto.String(dollars.String())}); !proto.Equal(got, want) {
		t.Errorf("narrowed to it: %v", got)
	}

	// The statistics change together with a status.
	if _, err := m.reject(m.program, id); err != nil {
		t.Fatal(err)
	}
	rejected := affiliatev1.CommissionStatus_COMMISSION_STATUS_REJECTED
	if got := m.stats(t, &affiliatev1.GetCommissionStatsRequest{Status: rejected}); got.TotalCount != 1 || got.TotalAmountCents != 100 || got.NeedsReviewCount != 0 {
		t.Errorf("after a rejection: %v", got)
	}
}

// The statistics agree with the list of the same filter.
func TestStats_AgreeWithList(t *testing.T) {
	m, second := stocked(t)
	from, to, zone := "2026-02-20", "2026-02-27", "Asia/Tokyo"
	for name, c := range map[string]struct {
		list  *affiliatev1.ListCommissionsRequest
		stats *affiliatev1.GetCommissionStatsRequest
	}{
		"all":     {&affiliatev1.ListCommissionsRequest{}, &affiliatev1.GetCommissionStatsRequest{}},
		"dates":   {&affiliatev1.ListCommissionsRequest{DateFrom: &from, DateTo: &to}, &affiliatev1.GetCommissionStatsRequest{DateFrom: &from, DateTo: &to}},
		"a zone":  {&affiliatev1.ListCommissionsRequest{DateFrom: &from, Timezone: &zone}, &affiliatev1.GetCommissionStatsRequest{DateFrom: &from, Timezone: &zone}},
		"search":  {&affiliatev1.ListCommissionsRequest{Search: proto.String("anna")}, &affiliatev1.GetCommissionStatsRequest{Search: proto.String("anna")}},
		"status":  {&affiliatev1.ListCommissionsRequest{Status: 1}, &affiliatev1.GetCommissionStatsRequest{Status: 1}},
		"flagged": {&affiliatev1.ListCommissionsRequest{NeedsReview: proto.Bool(true)}, &affiliatev1.GetCommissionStatsRequest{NeedsReview: proto.Bool(true)}},
		"together": {
			&affiliatev1.ListCommissionsRequest{ProgramId: proto.String(second.String()), NeedsReview: proto.Bool(false), DateTo: &to, Search: proto.String("bert")},
			&affiliatev1.GetCommissionStatsRequest{ProgramId: proto.String(second.String()), NeedsReview: proto.Bool(false), DateTo: &to, Search: proto.String("bert")},
		},
	} {
		c.list.PageSize = proto.Int32(100)
		var cents, flagged int64
		list := m.list(t, c.list)
		for _, item := range list.GetData() {
			cents += item.GetAmountCents()
			if item.GetNeedsReview() {
				flagged++
			}
		}
		got := m.stats(t, c.stats)
		if n := list.GetTotal(); n == 0 || got.TotalCount != n || got.TotalAmountCents != cents || got.NeedsReviewCount != flagged {
			t.Errorf("%s: %v, the list has %d with %d cents", name, got, n, cents)
		}
	}
	viewer, err := m.w.service.GetCommissionStats(m.as(affiliate.RoleViewer), &affiliatev1.GetCommissionStatsRequest{Search: proto.String("anna0@")})
	if err != nil || viewer.TotalCount != 0 {
		t.Errorf("a viewer can search the statistics by e-mail address: %v, %v", viewer, err)
	}
	if got := m.stats(t, &affiliatev1.GetCommissionStatsRequest{Search: proto.String("anna0@")}); got.TotalCount == 0 {
		t.Error("a manager cannot search the statistics by e-mail address")
	}
}
