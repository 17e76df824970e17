package partner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestListPartnerCommissions(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	alpha, beta := f.program(f.workspace("One"), "Alpha", nil), f.program(f.workspace("Two"), "Beta", nil)
	test := f.program(alpha.Scope.Workspace, "Test", map[string]any{"mode": "test"})
	inAlpha, inBeta, inTest := alpha.join(jane, nil), beta.join(jane, nil), test.join(jane, nil)
	day := func(n int) time.Time { return time.Date(2026, 2, n, 12, 0, 0, 0, time.UTC) }

	labels := map[string]string{}
	label := func(name string, id affiliate.CommissionID) { labels[id.String()] = name }
	label("a", alpha.addCommission(inAlpha, func(c *affiliate.Commission) { c.CreatedAt, c.AmountCents = day(1), 10 }))
	label("b", beta.addCommission(inBeta, func(c *affiliate.Commission) { c.CreatedAt, c.AmountCents, c.Status = day(2), 50, "approved" }))
	label("c", alpha.addCommission(inAlpha, func(c *affiliate.Commission) { c.CreatedAt, c.AmountCents, c.Status = day(3), 50, "rejected" }))
	label("d", alpha.addCommission(inAlpha, func(c *affiliate.Commission) { c.CreatedAt, c.AmountCents, c.Status = day(4), 20, "approved" }))
	label("t", test.addCommission(inTest, func(c *affiliate.Commission) { c.CreatedAt = day(4) }))
	label("x", alpha.addCommission(alpha.join(john, nil), func(c *affiliate.Commission) { c.CreatedAt = day(4) }))

	type req = affiliatev1.ListPartnerCommissionsRequest
	status := affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED
	asc := affiliatev1.SortOrder_SORT_ORDER_ASC
	text := proto.String
	for _, tc := range []struct {
		name  string
		user  affiliate.UserID
		mode  affiliate.Mode
		req   *req
		want  string
		total int64
	}{
		{"all", jane, "live", &req{}, "dcba", 4},
		{"a page", jane, "live", &req{Page: proto.Int32(2), PageSize: proto.Int32(2)}, "ba", 4},
		{"a full page", jane, "live", &req{PageSize: proto.Int32(3)}, "dcb", 4},
		{"beyond the end", jane, "live", &req{Page: proto.Int32(5)}, "", 4},
		{"oldest first", jane, "live", &req{SortOrder: asc}, "abcd", 4},
		{"by amount", jane, "live", &req{SortBy: text("amountCents")}, "cbda", 4},
		{"by amount, smallest first", jane, "live", &req{SortBy: text("amountCents"), SortOrder: asc}, "adcb", 4},
		{"by status", jane, "live", &req{SortBy: text("status"), SortOrder: asc}, "dbac", 4},
		{"one status", jane, "live", &req{Status: status}, "db", 2},
		{"one programme", jane, "live", &req{ProgramId: text(alpha.Program.String())}, "dca", 3},
		{"one programme and status", jane, "live", &req{ProgramId: text(alpha.Program.String()), Status: status}, "d", 1},
		{"dates", jane, "live", &req{DateFrom: text("2026-02-02"), DateTo: text("2026-02-03")}, "cb", 2},
		{"an hour", jane, "live", &req{DateFrom: text("2026-02-02T12:00:00Z"), DateTo: text("2026-02-02T12:00:00Z")}, "b", 1},
		{"a time zone", jane, "live", &req{DateTo: text("2026-02-02"), Timezone: text("Pacific/Kiritimati")}, "a", 1},
		{"the other mode", jane, "test", &req{}, "t", 1},
		{"a programme of the other mode", jane, "live", &req{ProgramId: text(test.Program.String())}, "", 0},
		{"another partner", john, "live", &req{}, "x", 1},
		{"a programme not joined", john, "live", &req{ProgramId: text(beta.Program.String())}, "", 0},
		{"unknown programme", jane, "live", &req{ProgramId: text(affiliate.NewID[affiliate.Program](f.Now()).String())}, "", 0},
	} {
		if err := f.check(tc.req); err != nil {
			t.Fatal(err)
		}
		list, err := f.service.ListPartnerCommissions(f.callContext(tc.user, tc.mode), tc.req)
		if tc.req.ProgramId != nil && len(tc.want) == 0 {
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		var found []string
		for _, c := range list.Data {
			found = append(found, labels[c.Id])
		}
		if got := strings.Join(found, ""); got != tc.want || list.Total != tc.total {
			t.Errorf("%s: %q of %d, want %q of %d", tc.name, got, list.Total, tc.want, tc.total)
		}
	}
	for _, invalid := range []*req{
		{DateFrom: text("yesterday")},
		{DateFrom: text("2026-02-03"), DateTo: text("2026-02-02")},
		{Timezone: text("Mars/Base")},
	} {
		if got := pgtest.ReasonOf(t, f.check(invalid)); got != affiliate.ReasonValidation {
			t.Errorf("%v: %q", invalid, got)
		}
	}
}

func TestListPartnerCommissions_ShowsPartnerFieldsOnly(t *testing.T) {
	f := newFixture(t)
	jane := f.user("Jane")
	p := f.program(f.workspace("Shop"), "Alpha", nil)
	mine := p.join(jane, nil)
	hold := f.Now().Add(time.Hour).Truncate(time.Millisecond)
	id := p.addCommission(mine, func(c *affiliate.Commission) {
		c.Status, c.RejectionCode, c.EventType, c.AmountCents = affiliate.CommissionRejected, new("duplicate"), affiliate.Renewal, 150
		c.SaleAmountCents, c.SaleCurrency, c.RecurringIndex, c.PromoCode = 1234, "USD", new(3), new("spring")
		c.HoldUntil, c.ApprovedAt, c.RejectedAt, c.PaidAt, c.RefundedAt = &hold, new(f.Now()), new(f.Now()), new(f.Now()), new(f.Now())
	})
	flat := p.addCommission(mine, func(c *affiliate.Commission) {
		c.Type, c.RateBps, c.FlatCents, c.CreatedAt = "flat", nil, new(int64(200)), f.Now().AddDate(-1, 0, 0)
	})
	list, err := f.service.ListPartnerCommissions(f.liveContext(jane), &affiliatev1.ListPartnerCommissionsRequest{})
	if err != nil || len(list.Data) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	c, text := list.Data[0], protojson.Format(list)
	if strings.Contains(text, "secret") {
		t.Errorf("the response shows fields that only the merchant may see: %s", text)
	}
	// All fields of the message are set, except flat_amount_cents.
	fields := c.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); !c.ProtoReflect().Has(f) && f.Name() != "flat_amount_cents" {
			t.Errorf("%s is empty", f.Name())
		}
	}
	for name, ok := range map[string]bool{
		"ids":     c.Id == id.String() && c.ProgramId == p.Program.String() && c.ProgramName == "Alpha" && c.ParticipantId == mine.ID.String(),
		"enums":   c.Mode == affiliatev1.Mode_MODE_LIVE && c.Status == affiliatev1.CommissionStatus_COMMISSION_STATUS_REJECTED && c.EventType == affiliatev1.EventType_EVENT_TYPE_RENEWAL && c.RejectionCode == affiliatev1.RejectionCode_REJECTION_CODE_DUPLICATE,
		"amounts": c.GetRateBps() == 2000 && c.AmountCents == 150 && c.OriginalAmountCents == 200 && c.ReversedAmountCents == 50 && c.Currency == "EUR",
		"sale":    c.SaleAmountCents == 1234 && c.SaleCurrency == "USD" && c.GetRecurringIndex() == 3 && c.GetPromoCode() == "spring",
		"hold":    c.HoldActive && c.HoldUntil.AsTime().Equal(hold),
		"flat":    list.Data[1].Id == flat.String() && list.Data[1].GetFlatAmountCents() == 200 && list.Data[1].RateBps == nil && !list.Data[1].HoldActive,
	} {
		if !ok {
			t.Errorf("%s: %s", name, text)
		}
	}
	f.clock.Set(hold)
	if list, err = f.service.ListPartnerCommissions(f.liveContext(jane), &affiliatev1.ListPartnerCommissionsRequest{}); err != nil || list.Data[0].HoldActive {
		t.Errorf("the hold is active at hold_until: %v", err)
	}
}

func TestGetPartnerBalances(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	alpha, beta := f.program(f.workspace("One"), "Alpha", nil), f.program(f.workspace("Two"), "Beta", nil)
	test := f.program(alpha.Scope.Workspace, "Test", map[string]any{"mode": "test"})
	balances := func(user affiliate.UserID, mode affiliate.Mode) string {
		t.Helper()
		got, err := f.service.GetPartnerBalances(f.callContext(user, mode), &affiliatev1.GetPartnerBalancesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, b := range got.Balances {
			all = append(all, fmt.Sprint(b.Currency, " ", b.BalanceCents, " ", b.PendingCents, " ", b.PaidCents))
		}
		return strings.Join(all, ", ")
	}
	if got := balances(jane, "live"); got != "" {
		t.Errorf("balances without a participation: %s", got)
	}
	inAlpha, inBeta, inTest := alpha.join(jane, nil), beta.join(jane, nil), test.join(jane, nil)
	for i, status := range []affiliate.CommissionStatus{"pending", "approved", "paid", "rejected", "refunded"} {
		amount := int64(1) << i
		alpha.addCommission(inAlpha, func(c *affiliate.Commission) { c.Status, c.AmountCents = status, amount })
		beta.addCommission(inBeta, func(c *affiliate.Commission) { c.Status, c.AmountCents, c.Currency = status, amount, "EUR" })
		beta.addCommission(inBeta, func(c *affiliate.Commission) { c.Status, c.AmountCents, c.Currency = status, amount+100, "CHF" })
		test.addCommission(inTest, func(c *affiliate.Commission) { c.Status, c.AmountCents, c.Currency = status, 200, "USD" })
	}
	beta.addCommission(inBeta, func(c *affiliate.Commission) { c.Status, c.Currency = "rejected", "GBP" })
	alpha.addEntry(inAlpha, "EUR", 7)
	alpha.addEntry(inAlpha, "EUR", -2)
	beta.addEntry(inBeta, "EUR", 20)
	beta.addEntry(inBeta, "SEK", -9)
	test.addEntry(inTest, "USD", 11)
	alpha.addEntry(alpha.join(john, nil), "EUR", 1)
	for _, tc := range []struct {
		user affiliate.UserID
		mode affiliate.Mode
		want string
	}{
		{jane, "live", "CHF 206 101 104, EUR 37 2 8, SEK -9 0 0"},
		{jane, "test", "USD 411 200 200"},
		{john, "live", "EUR 1 0 0"},
		{john, "test", ""},
	} {
		if got := balances(tc.user, tc.mode); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.mode, got, tc.want)
		}
	}
}

// addEntry adds an entry in a currency to a participant's ledger.
func (p program) addEntry(to pgtest.Participant, currency string, cents int64) {
	p.Helper()
	p.NewLedgerEntry(to, cents, func(e *affiliate.ManualEntry) { e.Currency = currency })
}

func TestGetPartnerSummary(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	alpha, beta := f.program(f.workspace("One"), "Alpha", nil), f.program(f.workspace("Two"), "Beta", nil)
	test := f.program(alpha.Scope.Workspace, "Test", map[string]any{"mode": "test"})
	inAlpha, inBeta, inTest, johns := alpha.join(jane, nil), beta.join(jane, nil), test.join(jane, nil), alpha.join(john, nil)
	hour := func(day, n int) time.Time { return time.Date(2026, 2, day, n, 0, 0, 0, time.UTC) }
	eur := map[string]any{"conversions": 1, "revenue_cents": 1000, "commission_cents": 200, "currency": "EUR"}

	alpha.addDelta(inAlpha, hour(1, 10), map[string]any{"clicks": 3})
	alpha.addDelta(inAlpha, hour(1, 10), eur)
	beta.addDelta(inBeta, hour(2, 10), map[string]any{"clicks": 4, "signups": 2, "conversions": 2})
	f.foldStats()
	beta.addDelta(inBeta, hour(2, 11), map[string]any{"conversions": 1, "revenue_cents": 50, "commission_cents": 5, "currency": "CHF"})
	alpha.addDelta(inAlpha, hour(2, 23), map[string]any{"revenue_cents": -400, "commission_cents": -80, "currency": "EUR"})
	test.addDelta(inTest, hour(1, 10), map[string]any{"clicks": 1000})
	alpha.addDelta(johns, hour(1, 10), map[string]any{"clicks": 500})

	type req = affiliatev1.GetPartnerSummaryRequest
	text := proto.String
	cases := []struct {
		name string
		user affiliate.UserID
		mode affiliate.Mode
		req  *req
		want string
	}{
		{"all", jane, "live", &req{}, "7 2 4 0.571429 CHF 50 5 EUR 600 120"},
		{"one programme", jane, "live", &req{ProgramId: text(alpha.Program.String())}, "3 0 1 0.333333 EUR 600 120"},
		{"a day", jane, "live", &req{DateFrom: text("2026-02-01"), DateTo: text("2026-02-01")}, "3 0 1 0.333333 EUR 1000 200"},
		{"no clicks", jane, "live", &req{DateFrom: text("2026-02-02T11:59:59Z")}, "0 0 1 - CHF 50 5 EUR -400 -80"},
		{"a time selects its hour", jane, "live", &req{DateFrom: text("2026-02-02T10:30:00Z"), DateTo: text("2026-02-02T10:30:00Z")}, "4 2 2 0.5"},
		{"a time zone", jane, "live", &req{DateFrom: text("2026-02-03"), Timezone: text("Asia/Tokyo")}, "0 0 0 - EUR -400 -80"},
		{"nothing", jane, "live", &req{DateFrom: text("2027-01-01")}, "0 0 0 -"},
		{"the other mode", jane, "test", &req{}, "1000 0 0 0"},
		{"a programme of the other mode", jane, "live", &req{ProgramId: text(test.Program.String())}, "0 0 0 -"},
		{"another partner", john, "live", &req{}, "500 0 0 0"},
		{"a programme not joined", john, "live", &req{ProgramId: text(beta.Program.String())}, "0 0 0 -"},
	}
	for range 2 { // before and after the remaining deltas are added to the totals
		for _, tc := range cases {
			if err := f.check(tc.req); err != nil {
				t.Fatal(err)
			}
			got, err := f.service.GetPartnerSummary(f.callContext(tc.user, tc.mode), tc.req)
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
				continue
			}
			all := []any{got.Clicks, got.Signups, got.Conversions, "-"}
			if got.ConversionRate != nil {
				all[3] = got.GetConversionRate()
			}
			for _, c := range got.ByCurrency {
				all = append(all, c.Currency, c.RevenueCents, c.CommissionCents)
			}
			if text := strings.TrimSpace(fmt.Sprintln(all...)); text != tc.want {
				t.Errorf("%s: %q, want %q", tc.name, text, tc.want)
			}
		}
		f.foldStats()
	}
	if got := pgtest.ReasonOf(t, f.check(&req{DateTo: text("2026-02-30")})); got != affiliate.ReasonValidation {
		t.Errorf("a day that does not exist: %q", got)
	}
}
