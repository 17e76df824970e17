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
	w := newWorld(t)
	jane, john := w.user("Jane"), w.user("John")
	alpha, beta := w.program(w.workspace("One"), "Alpha", nil), w.program(w.workspace("Two"), "Beta", nil)
	test := w.program(alpha.scope.Workspace, "Test", map[string]any{"mode": "test"})
	inAlpha, inBeta, inTest := alpha.join(jane, nil), beta.join(jane, nil), test.join(jane, nil)
	day := func(n int) time.Time { return time.Date(2026, 2, n, 12, 0, 0, 0, time.UTC) }

	labels := map[string]string{}
	label := func(name string, id affiliate.CommissionID) { labels[id.String()] = name }
	label("a", alpha.addCommission(inAlpha, jane, map[string]any{"created_at": day(1), "amount_cents": 10}))
	label("b", beta.addCommission(inBeta, jane, map[string]any{"created_at": day(2), "amount_cents": 50, "status": "approved"}))
	label("c", alpha.addCommission(inAlpha, jane, map[string]any{"created_at": day(3), "amount_cents": 50, "status": "rejected"}))
	label("d", alpha.addCommission(inAlpha, jane, map[string]any{"created_at": day(4), "amount_cents": 20, "status": "approved"}))
	label("t", test.addCommission(inTest, jane, map[string]any{"created_at": day(4)}))
	label("x", alpha.addCommission(alpha.join(john, nil), john, map[string]any{"created_at": day(4)}))

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
		{"one programme", jane, "live", &req{ProgramId: text(alpha.id.String())}, "dca", 3},
		{"one programme and status", jane, "live", &req{ProgramId: text(alpha.id.String()), Status: status}, "d", 1},
		{"dates", jane, "live", &req{DateFrom: text("2026-02-02"), DateTo: text("2026-02-03")}, "cb", 2},
		{"an hour", jane, "live", &req{DateFrom: text("2026-02-02T12:00:00Z"), DateTo: text("2026-02-02T12:00:00Z")}, "b", 1},
		{"a time zone", jane, "live", &req{DateTo: text("2026-02-02"), Timezone: text("Pacific/Kiritimati")}, "a", 1},
		{"the other mode", jane, "test", &req{}, "t", 1},
		{"a programme of the other mode", jane, "live", &req{ProgramId: text(test.id.String())}, "", 0},
		{"another partner", john, "live", &req{}, "x", 1},
		{"a programme not joined", john, "live", &req{ProgramId: text(beta.id.String())}, "", 0},
		{"unknown programme", jane, "live", &req{ProgramId: text(affiliate.NewID[affiliate.Program](w.now).String())}, "", 0},
	} {
		if err := w.check(tc.req); err != nil {
			t.Fatal(err)
		}
		list, err := w.service.ListPartnerCommissions(w.callContext(tc.user, tc.mode), tc.req)
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
		if got := pgtest.ReasonOf(t, w.check(invalid)); got != affiliate.ReasonValidation {
			t.Errorf("%v: %q", invalid, got)
		}
	}
}

func TestListPartnerCommissions_ShowsPartnerFieldsOnly(t *testing.T) {
	w := newWorld(t)
	jane := w.user("Jane")
	p := w.program(w.workspace("Shop"), "Alpha", nil)
	mine := p.join(jane, nil)
	hold := w.now.Add(time.Hour).Truncate(time.Millisecond)
	id := p.addCommission(mine, jane, map[string]any{
		"status": "rejected", "event_type": "renewal", "amount_cents": 150, "sale_amount_cents": 1234, "sale_currency": "USD",
		"recurring_index": 3, "promo_code": "spring", "hold_until": hold, "rejection_code": "duplicate",
		"approved_at": w.now, "rejected_at": w.now, "paid_at": w.now, "refunded_at": w.now,
	})
	flat := p.addCommission(mine, jane, map[string]any{
		"commission_type": "flat", "rate_bps": nil, "flat_amount_cents": 200, "created_at": w.now.AddDate(-1, 0, 0),
	})
	list, err := w.service.ListPartnerCommissions(w.liveContext(jane), &affiliatev1.ListPartnerCommissionsRequest{})
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
		"ids":     c.Id == id.String() && c.ProgramId == p.id.String() && c.ProgramName == "Alpha" && c.ParticipantId == mine.String(),
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
	w.now = hold
	if list, err = w.service.ListPartnerCommissions(w.liveContext(jane), &affiliatev1.ListPartnerCommissionsRequest{}); err != nil || list.Data[0].HoldActive {
		t.Errorf("the hold is active at hold_until: %v", err)
	}
}

func TestGetPartnerBalances(t *testing.T) {
	w := newWorld(t)
	jane, john := w.user("Jane"), w.user("John")
	alpha, beta := w.program(w.workspace("One"), "Alpha", nil), w.program(w.workspace("Two"), "Beta", nil)
	test := w.program(alpha.scope.Workspace, "Test", map[string]any{"mode": "test"})
	balances := func(user affiliate.UserID, mode affiliate.Mode) string {
		t.Helper()
		got, err := w.service.GetPartnerBalances(w.callContext(user, mode), &affiliatev1.GetPartnerBalancesRequest{})
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
	for i, status := range []string{"pending", "approved", "paid", "rejected", "refunded"} {
		amount := 1 << i
		alpha.addCommission(inAlpha, jane, map[string]any{"status": status, "amount_cents": amount})
		beta.addCommission(inBeta, jane, map[string]any{"status": status, "amount_cents": amount, "currency": "EUR"})
		beta.addCommission(inBeta, jane, map[string]any{"status": status, "amount_cents": amount + 100, "currency": "CHF"})
		test.addCommission(inTest, jane, map[string]any{"status": status, "amount_cents": 200, "currency": "USD"})
	}
	beta.addCommission(inBeta, jane, map[string]any{"status": "rejected", "currency": "GBP"})
	alpha.addBalance(inAlpha, "EUR", 0, 7)
	alpha.addBalance(inAlpha, "EUR", 3, -2)
	beta.addBalance(inBeta, "EUR", 0, 20)
	beta.addBalance(inBeta, "SEK", 0, -9)
	test.addBalance(inTest, "USD", 0, 11)
	alpha.addBalance(alpha.join(john, nil), "EUR", 0, 1)
	for _, tc := range []struct {
		user affiliate.UserID
		mode affiliate.Mode
		want string
	}{
		{jane, "live", "CHF 0 101 104, EUR 25 2 8, SEK -9 0 0"},
		{jane, "test", "USD 11 200 200"},
		{john, "live", "EUR 1 0 0"},
		{john, "test", ""},
	} {
		if got := balances(tc.user, tc.mode); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.mode, got, tc.want)
		}
	}
}

// addBalance stores one part of a participant's balance. A balance is the sum of its
// slots.
func (p program) addBalance(participant affiliate.ParticipantID, currency string, slot, cents int) {
	p.w.t.Helper()
	p.w.Insert("ledger_balances", pgtest.Row{
		"workspace_id": p.scope.Workspace, "participant_id": participant, "currency": currency, "slot": slot, "balance_cents": cents,
	})
}

func TestGetPartnerSummary(t *testing.T) {
	w := newWorld(t)
	jane, john := w.user("Jane"), w.user("John")
	alpha, beta := w.program(w.workspace("One"), "Alpha", nil), w.program(w.workspace("Two"), "Beta", nil)
	test := w.program(alpha.scope.Workspace, "Test", map[string]any{"mode": "test"})
	inAlpha, inBeta, inTest, johns := alpha.join(jane, nil), beta.join(jane, nil), test.join(jane, nil), alpha.join(john, nil)
	hour := func(day, n int) time.Time { return time.Date(2026, 2, day, n, 0, 0, 0, time.UTC) }
	eur := map[string]any{"conversions": 1, "revenue_cents": 1000, "commission_cents": 200, "currency": "EUR"}

	alpha.addDelta(inAlpha, hour(1, 10), map[string]any{"clicks": 3})
	alpha.addDelta(inAlpha, hour(1, 10), eur)
	beta.addDelta(inBeta, hour(2, 10), map[string]any{"clicks": 4, "signups": 2, "conversions": 2})
	w.foldStats()
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
		{"one programme", jane, "live", &req{ProgramId: text(alpha.id.String())}, "3 0 1 0.333333 EUR 600 120"},
		{"a day", jane, "live", &req{DateFrom: text("2026-02-01"), DateTo: text("2026-02-01")}, "3 0 1 0.333333 EUR 1000 200"},
		{"no clicks", jane, "live", &req{DateFrom: text("2026-02-02T11:59:59Z")}, "0 0 1 - CHF 50 5 EUR -400 -80"},
		{"a time selects its hour", jane, "live", &req{DateFrom: text("2026-02-02T10:30:00Z"), DateTo: text("2026-02-02T10:30:00Z")}, "4 2 2 0.5"},
		{"a time zone", jane, "live", &req{DateFrom: text("2026-02-03"), Timezone: text("Asia/Tokyo")}, "0 0 0 - EUR -400 -80"},
		{"nothing", jane, "live", &req{DateFrom: text("2027-01-01")}, "0 0 0 -"},
		{"the other mode", jane, "test", &req{}, "1000 0 0 0"},
		{"a programme of the other mode", jane, "live", &req{ProgramId: text(test.id.String())}, "0 0 0 -"},
		{"another partner", john, "live", &req{}, "500 0 0 0"},
		{"a programme not joined", john, "live", &req{ProgramId: text(beta.id.String())}, "0 0 0 -"},
	}
	for range 2 { // before and after the remaining deltas are added to the totals
		for _, tc := range cases {
			if err := w.check(tc.req); err != nil {
				t.Fatal(err)
			}
			got, err := w.service.GetPartnerSummary(w.callContext(tc.user, tc.mode), tc.req)
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
		w.foldStats()
	}
	if got := pgtest.ReasonOf(t, w.check(&req{DateTo: text("2026-02-30")})); got != affiliate.ReasonValidation {
		t.Errorf("a day that does not exist: %q", got)
	}
}
