package commission_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// stats returns the statistics. It ends the test if the call fails.
func (f *fixture) stats(req *affiliatev1.GetCommissionStatsRequest) *affiliatev1.CommissionStats {
	f.Helper()
	got, err := f.service.GetCommissionStats(f.asOwner(), req)
	if err != nil {
		f.Fatalf("GetCommissionStats with %v: %v", req, err)
	}
	return got
}

func sumOf(n, cents int64) *affiliatev1.CommissionStatusStats {
	return &affiliatev1.CommissionStatusStats{Count: n, AmountCents: cents}
}

func TestStats_OfWorkspaceWithoutCommissions(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	want := &affiliatev1.CommissionStats{
		Currency: "EUR",
		ByStatus: &affiliatev1.CommissionStatsByStatus{Pending: sumOf(0, 0), Approved: sumOf(0, 0), Rejected: sumOf(0, 0), Paid: sumOf(0, 0), Refunded: sumOf(0, 0)},
	}
	if got := f.stats(&affiliatev1.GetCommissionStatsRequest{}); !proto.Equal(got, want) {
		t.Errorf("GetCommissionStats returned %v\nwant %v", got, want)
	}
}

func TestStats_SumOneCurrency(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	dollars := f.NewProgram(f.Scope, pgtest.Row{"currency": "USD"})
	p, inDollars := f.Join("Pat"), f.NewParticipant(f.Scope, dollars, f.NewPartner("Quentin"))
	add := func(p pgtest.Participant, status commission.Status, cents int64, currency string, needsReview bool) commission.Commission {
		return f.NewCommission(p, func(c *commission.Commission) {
			c.Status, c.AmountCents, c.OriginalAmountCents, c.Currency, c.NeedsReview = status, cents, cents, currency, needsReview
		})
	}
	add(p, commission.Pending, 101, "EUR", false)
	rejectedLater := add(p, commission.Pending, 100, "EUR", true)
	add(p, commission.Approved, 7, "USD", true)
	add(inDollars, commission.Paid, 50, "USD", false)
	for _, other := range []*pgtest.Shop{f.NewShop(affiliate.ModeLive), f.InOtherMode()} {
		f.NewCommission(other.Join("Other"))
	}

	want := &affiliatev1.CommissionStats{
		TotalCount: 4, TotalAmountCents: 201, Currency: "EUR", AverageAmountCents: 101, NeedsReviewCount: 2, ReadyCount: 1,
		ByStatus: &affiliatev1.CommissionStatsByStatus{
			Pending: sumOf(2, 201), Approved: sumOf(1, 0), Rejected: sumOf(0, 0), Paid: sumOf(1, 0), Refunded: sumOf(0, 0),
		},
		ByCurrency: []*affiliatev1.CommissionCurrencyStats{{Currency: "EUR", Count: 2, AmountCents: 201}, {Currency: "USD", Count: 2, AmountCents: 57}},
	}
	if got := f.stats(&affiliatev1.GetCommissionStatsRequest{}); !proto.Equal(got, want) {
		t.Errorf("GetCommissionStats returned %v\nwant %v", got, want)
	}
	want = &affiliatev1.CommissionStats{
		TotalCount: 1, TotalAmountCents: 50, Currency: "USD", AverageAmountCents: 50,
		ByStatus: &affiliatev1.CommissionStatsByStatus{
			Pending: sumOf(0, 0), Approved: sumOf(0, 0), Rejected: sumOf(0, 0), Paid: sumOf(1, 50), Refunded: sumOf(0, 0),
		},
		ByCurrency: []*affiliatev1.CommissionCurrencyStats{{Currency: "USD", Count: 1, AmountCents: 50}},
	}
	got, err := f.service.GetProgramCommissionStats(f.asOwner(), &affiliatev1.GetProgramCommissionStatsRequest{ProgramId: dollars.String()})
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("GetProgramCommissionStats returned %v, error %v\nwant %v", got, err, want)
	}
	if got := f.stats(&affiliatev1.GetCommissionStatsRequest{ProgramId: new(dollars.String())}); !proto.Equal(got, want) {
		t.Errorf("GetCommissionStats of one programme returned %v\nwant %v", got, want)
	}

	// A change of a status also changes the statistics.
	if _, err := f.on(rejectedLater).reject(); err != nil {
		t.Fatal(err)
	}
	got = f.stats(&affiliatev1.GetCommissionStatsRequest{Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_REJECTED})
	if got.TotalCount != 1 || got.TotalAmountCents != 100 || got.NeedsReviewCount != 0 {
		t.Errorf("after a rejection the statistics of rejected commissions are %v, want 1 commission of 100 cents that needs no review", got)
	}
}

// The statistics are the sums over all commissions of the list with the same filter.
func TestStats_AgreeWithList(t *testing.T) {
	f, second := newFixtureWithCommissions(t)
	from, to, zone := "2026-02-20", "2026-02-27", "Asia/Tokyo"
	for name, tc := range map[string]struct {
		list  *affiliatev1.ListCommissionsRequest
		stats *affiliatev1.GetCommissionStatsRequest
	}{
		"all":          {&affiliatev1.ListCommissionsRequest{}, &affiliatev1.GetCommissionStatsRequest{}},
		"days":         {&affiliatev1.ListCommissionsRequest{DateFrom: &from, DateTo: &to}, &affiliatev1.GetCommissionStatsRequest{DateFrom: &from, DateTo: &to}},
		"time zone":    {&affiliatev1.ListCommissionsRequest{DateFrom: &from, Timezone: &zone}, &affiliatev1.GetCommissionStatsRequest{DateFrom: &from, Timezone: &zone}},
		"search":       {&affiliatev1.ListCommissionsRequest{Search: new("anna")}, &affiliatev1.GetCommissionStatsRequest{Search: new("anna")}},
		"status":       {&affiliatev1.ListCommissionsRequest{Status: 1}, &affiliatev1.GetCommissionStatsRequest{Status: 1}},
		"needs review": {&affiliatev1.ListCommissionsRequest{NeedsReview: new(true)}, &affiliatev1.GetCommissionStatsRequest{NeedsReview: new(true)}},
		"several filters": {
			&affiliatev1.ListCommissionsRequest{ProgramId: new(second.String()), NeedsReview: new(false), DateTo: &to, Search: new("bert")},
			&affiliatev1.GetCommissionStatsRequest{ProgramId: new(second.String()), NeedsReview: new(false), DateTo: &to, Search: new("bert")},
		},
	} {
		tc.list.PageSize = new(int32(100))
		list := f.list(tc.list)
		if list.GetTotal() == 0 {
			t.Fatalf("%s: the list is empty", name)
		}
		var cents, needReview int64
		for _, item := range list.GetData() {
			cents += item.GetAmountCents()
			if item.GetNeedsReview() {
				needReview++
			}
		}
		got := f.stats(tc.stats)
		if got.TotalCount != list.GetTotal() || got.TotalAmountCents != cents || got.NeedsReviewCount != needReview {
			t.Errorf("%s: GetCommissionStats returned %v, want the sums of the list: %d commissions, %d cents, %d that need review",
				name, got, list.GetTotal(), cents, needReview)
		}
	}
}

func TestHoldActive_SeparatesPendingCommissions(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	p, other := f.Join("Pat"), f.Join("Quentin")
	add := func(p pgtest.Participant, status commission.Status, hold *time.Duration, flagged bool) string {
		return f.NewCommission(p, func(c *commission.Commission) {
			if c.Status, c.NeedsReview = status, flagged; hold != nil {
				c.HoldUntil = new(c.CreatedAt.Add(*hold))
			}
		}).ID.String()
	}
	running, over := new(time.Millisecond), new(time.Duration(0))
	onHold, ready, flagged := add(p, commission.Pending, running, false), add(p, commission.Pending, over, false), add(p, commission.Pending, running, true)
	withoutHold := add(other, commission.Pending, nil, false)
	add(other, commission.Approved, running, false)
	for _, foreign := range []*pgtest.Shop{f.NewShop(affiliate.ModeLive), f.InOtherMode()} {
		f.NewCommission(foreign.Join("Other"))
	}
	type request = affiliatev1.ListCommissionsRequest
	for name, tc := range map[string]struct {
		req           *request
		want          []string
		onHold, ready int64
	}{
		"all pending":                    {&request{Status: 1}, []string{onHold, ready, flagged, withoutHold}, 1, 2},
		"hold running":                   {&request{HoldActive: new(true)}, []string{onHold, flagged}, 1, 0},
		"on hold":                        {&request{HoldActive: new(true), NeedsReview: new(false)}, []string{onHold}, 1, 0},
		"ready":                          {&request{HoldActive: new(false), NeedsReview: new(false), Status: 1}, []string{ready, withoutHold}, 0, 2},
		"ready, of a partner":            {&request{HoldActive: new(false), ParticipantId: new(p.ID.String())}, []string{ready}, 0, 1},
		"ready, of a programme":          {&request{HoldActive: new(false), ProgramId: new(f.Program.String()), SortBy: new("partnerName")}, []string{ready, withoutHold}, 0, 2},
		"ready, with a search":           {&request{HoldActive: new(false), Search: new("quen")}, []string{withoutHold}, 0, 1},
		"needs review, hold running":     {&request{HoldActive: new(true), NeedsReview: new(true)}, []string{flagged}, 0, 0},
		"approved with a running period": {&request{HoldActive: new(true), Status: 2}, nil, 0, 0},
	} {
		list := f.list(tc.req)
		got := idsOf(list.GetData())
		slices.Sort(got)
		slices.Sort(tc.want)
		if !slices.Equal(got, tc.want) || list.GetTotal() != int64(len(tc.want)) {
			t.Errorf("%s: the list has %v and the total %d, want %v", name, got, list.GetTotal(), tc.want)
		}
		stats := f.stats(&affiliatev1.GetCommissionStatsRequest{
			Status: tc.req.Status, HoldActive: tc.req.HoldActive, NeedsReview: tc.req.NeedsReview, Search: tc.req.Search, ParticipantId: tc.req.ParticipantId, ProgramId: tc.req.ProgramId,
		})
		if stats.TotalCount != int64(len(tc.want)) || stats.OnHoldCount != tc.onHold || stats.ReadyCount != tc.ready {
			t.Errorf("%s: the statistics are %v, want %d commissions, %d on hold, %d ready", name, stats, len(tc.want), tc.onHold, tc.ready)
		}
	}
	export := servertest.NewDownload(f.asOwner())
	if err := f.service.ExportCommissions(&affiliatev1.ExportCommissionsRequest{HoldActive: new(true)}, export); err != nil || strings.Count(export.Text(), "\n") != 3 {
		t.Errorf("the export is %q, %v, want two commissions", export.Text(), err)
	}
}

func TestStats_ViewerCannotSearchByEmailAddress(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	f.NewCommission(f.joinWithEmail("Anna", "secret@example.com"))
	for role, want := range map[affiliate.Role]int64{affiliate.RoleOwner: 1, affiliate.RoleViewer: 0} {
		got, err := f.service.GetCommissionStats(f.as(role), &affiliatev1.GetCommissionStatsRequest{Search: new("secret@")})
		if err != nil || got.TotalCount != want {
			t.Errorf("GetCommissionStats for a member with the role %s returned %v, error %v, want %d commissions", role, got, err, want)
		}
	}
}
