package partner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestListPartnerCommissions(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	alpha, beta := f.program(f.workspace("One"), "Alpha", nil), f.program(f.workspace("Two"), "Beta", nil)
	test := f.program(alpha.Scope.Workspace, "Test", pgtest.Row{"mode": "test"})
	inAlpha, inBeta, inTest := alpha.join(jane, nil), beta.join(jane, nil), test.join(jane, nil)
	day := func(n int) time.Time { return time.Date(2026, 2, n, 12, 0, 0, 0, time.UTC) }

	names := map[string]string{} // of commissions, by id
	add := func(name string, participant pgtest.Participant, p programme, created time.Time, cents int64, status commission.Status) {
		id := p.addCommission(participant, func(c *commission.Commission) { c.CreatedAt, c.AmountCents, c.Status = created, cents, status })
		names[id.String()] = name
	}
	add("a", inAlpha, alpha, day(1), 10, commission.Pending)
	add("b", inBeta, beta, day(2), 50, commission.Approved)
	add("c", inAlpha, alpha, day(3), 50, commission.Rejected)
	add("d", inAlpha, alpha, day(4), 20, commission.Approved)
	add("t", inTest, test, day(4), 200, commission.Pending)
	add("x", alpha.join(john, nil), alpha, day(4), 200, commission.Pending)

	type req = affiliatev1.ListPartnerCommissionsRequest
	approved := affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED
	asc := affiliatev1.SortOrder_SORT_ORDER_ASC
	for _, tc := range []struct {
		name  string
		user  affiliate.UserID
		mode  affiliate.Mode
		req   *req
		want  string // names of the commissions, in their order
		total int64
	}{
		{"all", jane, "live", &req{}, "dcba", 4},
		{"second page", jane, "live", &req{Page: proto.Int32(2), PageSize: proto.Int32(2)}, "ba", 4},
		{"first page", jane, "live", &req{PageSize: proto.Int32(3)}, "dcb", 4},
		{"after the last page", jane, "live", &req{Page: proto.Int32(5)}, "", 4},
		{"oldest first", jane, "live", &req{SortOrder: asc}, "abcd", 4},
		{"by amount", jane, "live", &req{SortBy: new("amountCents")}, "cbda", 4},
		{"by amount, smallest first", jane, "live", &req{SortBy: new("amountCents"), SortOrder: asc}, "adcb", 4},
		{"by status", jane, "live", &req{SortBy: new("status"), SortOrder: asc}, "dbac", 4},
		{"status", jane, "live", &req{Status: approved}, "db", 2},
		{"programme", jane, "live", &req{ProgramId: new(alpha.Program.String())}, "dca", 3},
		{"programme and status", jane, "live", &req{ProgramId: new(alpha.Program.String()), Status: approved}, "d", 1},
		{"dates", jane, "live", &req{DateFrom: new("2026-02-02"), DateTo: new("2026-02-03")}, "cb", 2},
		{"one instant", jane, "live", &req{DateFrom: new("2026-02-02T12:00:00Z"), DateTo: new("2026-02-02T12:00:00Z")}, "b", 1},
		{"time zone", jane, "live", &req{DateTo: new("2026-02-02"), Timezone: new("Pacific/Kiritimati")}, "a", 1},
		{"the other mode", jane, "test", &req{}, "t", 1},
		{"another partner", john, "live", &req{}, "x", 1},
	} {
		if err := servertest.Check(f.service, tc.req); err != nil {
			t.Fatal(err)
		}
		list, err := f.service.ListPartnerCommissions(f.asPartner(tc.user, tc.mode), tc.req)
		if err != nil {
			t.Errorf("%s: ListPartnerCommissions: %v", tc.name, err)
			continue
		}
		var got strings.Builder
		for _, c := range list.Data {
			got.WriteString(names[c.Id])
		}
		if got.String() != tc.want || list.Total != tc.total {
			t.Errorf("%s: ListPartnerCommissions returned %q and the total %d, want %q and %d", tc.name, &got, list.Total, tc.want, tc.total)
		}
	}

	for name, tc := range map[string]struct {
		user    affiliate.UserID
		program affiliate.ProgramID
	}{
		"programme of the other mode": {jane, test.Program},
		"programme not joined":        {john, beta.Program},
		"unknown programme":           {jane, affiliate.NewID[affiliate.ProgramID](f.Now())},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.ListPartnerCommissions(f.asLivePartner(tc.user), &req{ProgramId: new(tc.program.String())})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
}

func TestListPartnerCommissions_RejectsInvalidDates(t *testing.T) {
	f := newFixture(t)
	for name, req := range map[string]*affiliatev1.ListPartnerCommissionsRequest{
		"not a date":              {DateFrom: new("yesterday")},
		"end before the start":    {DateFrom: new("2026-02-03"), DateTo: new("2026-02-02")},
		"unknown time zone":       {Timezone: new("Mars/Base")},
		"day that does not exist": {DateTo: new("2026-02-30")},
	} {
		t.Run(name, func(t *testing.T) {
			pgtest.RequireRefusal(t, servertest.Check(f.service, req), affiliate.ReasonValidation)
		})
	}
}

func TestListPartnerCommissions_ShowsPartnerFieldsOnly(t *testing.T) {
	f := newFixture(t)
	jane := f.user("Jane")
	p := f.program(f.workspace("Shop"), "Alpha", nil)
	mine := p.join(jane, nil)
	at := f.Now().Truncate(time.Millisecond)
	hold := at.Add(time.Hour)
	paidBy := affiliate.NewID[affiliate.PayoutID](at)
	id := p.addCommission(mine, func(c *commission.Commission) {
		c.Status, c.RejectionCode, c.EventType, c.AmountCents = commission.Rejected, new("duplicate"), affiliate.Renewal, 150
		c.BaseAmountCents = 1000
		c.SaleAmountCents, c.SaleCurrency, c.RecurringIndex, c.PromoCode = 1234, "USD", new(3), new("spring")
		c.HoldUntil, c.ApprovedAt, c.RejectedAt, c.PaidAt, c.RefundedAt = &hold, &at, &at, &at, &at
		c.Payout = &paidBy
	})
	click := f.NewClick(mine, func(c *click.Click) { c.SubID = "post-12" })
	flat := p.addCommission(mine, func(c *commission.Commission) {
		c.Click, c.Type, c.RateBps, c.FlatCents, c.CreatedAt = &click.ID, "flat", nil, new(int64(200)), f.Now().AddDate(-1, 0, 0)
		c.Payout = &paidBy // it has not paid this commission
	})
	link := f.Texts(`select id::text from links where participant_id = $1`, mine.ID)[0]
	code := f.Texts(`select code from links where participant_id = $1`, mine.ID)[0]
	f.Exec(`update conversions set link_id = $2, sub_id = 'report' where id = (select conversion_id from commissions where id = $1)`, id, link)
	list := func() *affiliatev1.ListPartnerCommissionsResponse {
		t.Helper()
		list, err := f.service.ListPartnerCommissions(f.asLivePartner(jane), &affiliatev1.ListPartnerCommissionsRequest{})
		if err != nil || len(list.Data) != 2 {
			t.Fatalf("ListPartnerCommissions returned %v, error %v, want two commissions", list, err)
		}
		return list
	}
	got := list()
	if text := protojson.Format(got); strings.Contains(text, "secret") {
		t.Errorf("ListPartnerCommissions shows fields that only the merchant may see: %s", text)
	}
	want := &affiliatev1.PartnerCommission{
		Id: id.String(), ProgramId: p.Program.String(), ProgramName: "Alpha", ParticipantId: mine.ID.String(),
		Mode: affiliatev1.Mode_MODE_LIVE, Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_REJECTED,
		CommissionType: affiliatev1.CommissionType_COMMISSION_TYPE_PERCENTAGE, EventType: affiliatev1.EventType_EVENT_TYPE_RENEWAL,
		RateBps: new(int32(2000)), AmountCents: 150, OriginalAmountCents: 200, ReversedAmountCents: 50, Currency: "EUR",
		SaleAmountCents: 1234, BaseAmountCents: 1000, SaleCurrency: "USD", LinkId: &link, LinkCode: &code, SubId: new("report"), Explanation: "A click.", RecurringIndex: new(int32(3)), PromoCode: new("spring"),
		HoldUntil: server.Timestamp(hold), HoldActive: true, RejectionCode: affiliatev1.RejectionCode_REJECTION_CODE_DUPLICATE,
		ApprovedAt: server.Timestamp(at), RejectedAt: server.Timestamp(at), PaidAt: server.Timestamp(at), RefundedAt: server.Timestamp(at),
		PayoutId: new(paidBy.String()), CreatedAt: got.Data[0].CreatedAt,
	}
	servertest.WantMessage(t, "ListPartnerCommissions", got.Data[0], want)
	one, err := f.service.GetPartnerCommission(f.asLivePartner(jane), &affiliatev1.GetPartnerCommissionRequest{CommissionId: flat.String()})
	if err != nil {
		t.Fatal(err)
	}
	servertest.WantMessage(t, "GetPartnerCommission", one, got.Data[1])
	// The test fails if the message gets a field that want does not set.
	fields := want.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if field := fields.Get(i); !want.ProtoReflect().Has(field) && field.Name() != "flat_amount_cents" {
			t.Errorf("the test does not set the field %s", field.Name())
		}
	}
	servertest.WantFields(t, "the flat commission", got.Data[1], &affiliatev1.PartnerCommission{
		Id: flat.String(), FlatAmountCents: new(int64(200)), SubId: new("post-12"),
	})
	if c := got.Data[1]; c.RateBps != nil || c.HoldActive || c.PayoutId != nil {
		t.Errorf("the flat commission has the rate %d, hold_active = %t and the payout %q, want none of them", c.GetRateBps(), c.HoldActive, c.GetPayoutId())
	}
	f.clock.Set(hold)
	if list().Data[0].HoldActive {
		t.Error("the hold is active at hold_until, want it to have ended")
	}
}

func TestGetPartnerBalances(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	alpha, beta := f.program(f.workspace("One"), "Alpha", nil), f.program(f.workspace("Two"), "Beta", nil)
	test := f.program(alpha.Scope.Workspace, "Test", pgtest.Row{"mode": "test"})
	// balances returns for each currency the balance, the pending and the paid amount, and, if they are not 0, the
	// amounts on hold, in payouts and payable.
	balances := func(user affiliate.UserID, mode affiliate.Mode) string {
		t.Helper()
		got, err := f.service.GetPartnerBalances(f.asPartner(user, mode), &affiliatev1.GetPartnerBalancesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, b := range got.Balances {
			text := fmt.Sprint(b.Currency, " ", b.BalanceCents, " ", b.PendingCents, " ", b.PaidCents)
			if b.HoldCents != 0 || b.InPayoutCents != 0 {
				text += fmt.Sprintf(" (hold %d, in payouts %d, payable %d)", b.HoldCents, b.InPayoutCents, b.PayableCents)
			}
			all = append(all, text)
			if b.HoldCents+b.ReviewCents != b.PendingCents {
				t.Errorf("GetPartnerBalances returned %v, want the parts of the pending commissions to add up", b)
			}
		}
		return strings.Join(all, ", ")
	}
	if got := balances(jane, "live"); got != "" {
		t.Errorf("GetPartnerBalances without a participation returned %q, want none", got)
	}
	inAlpha, inBeta, inTest := alpha.join(jane, nil), beta.join(jane, nil), test.join(jane, nil)
	for i, status := range []commission.Status{"pending", "approved", "paid", "rejected", "refunded"} {
		amount := int64(1) << i
		alpha.addCommission(inAlpha, func(c *commission.Commission) { c.Status, c.AmountCents = status, amount })
		beta.addCommission(inBeta, func(c *commission.Commission) { c.Status, c.AmountCents, c.Currency = status, amount, "EUR" })
		beta.addCommission(inBeta, func(c *commission.Commission) { c.Status, c.AmountCents, c.Currency = status, amount+100, "CHF" })
		test.addCommission(inTest, func(c *commission.Commission) { c.Status, c.AmountCents, c.Currency = status, 200, "USD" })
	}
	beta.addCommission(inBeta, func(c *commission.Commission) { c.Status, c.Currency = "rejected", "GBP" })
	alpha.addEntry(inAlpha, "EUR", 7)
	alpha.addEntry(inAlpha, "EUR", -2)
	beta.addEntry(inBeta, "EUR", 20)
	beta.addEntry(inBeta, "SEK", -9)
	test.addEntry(inTest, "USD", 11)
	alpha.addEntry(alpha.join(john, nil), "EUR", 1)
	for _, hold := range []time.Time{f.Now().Add(time.Hour), f.Now()} { // the second one has ended
		alpha.addCommission(inAlpha, func(c *commission.Commission) { c.Status, c.AmountCents, c.HoldUntil = "pending", 50, &hold })
	}
	f.ExecWithoutForeignKeys(`
		insert into payouts (workspace_id, id, batch_id, mode, program_id, participant_id, partner_id, amount_cents, currency, commission_count,
			adjustment_cents, status, method, created_at, updated_at)
		select $1, gen_random_uuid(), gen_random_uuid(), 'live', $2, $3, $4, 2 ^ n, 'EUR', 0, 0, status, 'manual', now(), now()
		from unnest(array['draft', 'pending', 'processing', 'paid', 'failed', 'canceled']) with ordinality as s (status, n)`,
		alpha.Scope.Workspace, alpha.Program, inAlpha.ID, jane)
	for name, tc := range map[string]struct {
		user affiliate.UserID
		mode affiliate.Mode
		want string
	}{
		"live mode":                       {jane, "live", "CHF 206 101 104, EUR 37 102 8 (hold 50, in payouts 12, payable 33), SEK -9 0 0"},
		"test mode":                       {jane, "test", "USD 411 200 200"},
		"another partner":                 {john, "live", "EUR 1 0 0"},
		"another partner, the other mode": {john, "test", ""},
	} {
		if got := balances(tc.user, tc.mode); got != tc.want {
			t.Errorf("%s: GetPartnerBalances returned %q, want %q", name, got, tc.want)
		}
	}
}

// addEntry adds an entry in a currency to a participant's ledger.
func (p programme) addEntry(participant pgtest.Participant, currency string, cents int64) {
	p.Helper()
	p.NewLedgerEntry(participant, cents, func(e *ledger.ManualEntry) { e.Currency = currency })
}

func TestExportPartnerCommissions_HasOwnRowsAndPartnerColumns(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	alpha, beta := f.program(f.workspace("One"), "=Alpha", nil), f.program(f.workspace("Two"), "Beta", nil)
	inAlpha, inBeta := alpha.join(jane, nil), beta.join(jane, nil)
	click := f.NewClick(inAlpha, func(c *click.Click) { c.SubID = "post-12" })
	at := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	first := alpha.addCommission(inAlpha, func(c *commission.Commission) { c.CreatedAt, c.Click, c.PromoCode = at, &click.ID, new("spring") })
	second := beta.addCommission(inBeta, func(c *commission.Commission) {
		c.CreatedAt, c.Status, c.ApprovedAt = at.Add(time.Hour), commission.Approved, &at
	})
	alpha.addCommission(alpha.join(john, nil))
	const header = "id,createdAt,status,commissionType,eventType,programName,amountCents,currency,saleAmountCents,saleCurrency," +
		"linkCode,subId,promoCode,holdUntil,approvedAt,rejectedAt,paidAt,refundedAt\r\n"
	firstRow := `"` + first.String() + `","2026-02-01T12:00:00.000Z","pending","percentage","purchase","'=Alpha",200,"EUR",1000,"EUR",,"post-12","spring",,,,,` + "\r\n"
	secondRow := `"` + second.String() + `","2026-02-01T13:00:00.000Z","approved","percentage","purchase","Beta",200,"EUR",1000,"EUR",,,,,"2026-02-01T12:00:00.000Z",,,` + "\r\n"
	for name, tc := range map[string]struct {
		mode affiliate.Mode
		req  *affiliatev1.ExportPartnerCommissionsRequest
		want string
	}{
		"all":            {"live", &affiliatev1.ExportPartnerCommissionsRequest{}, header + secondRow + firstRow},
		"oldest first":   {"live", &affiliatev1.ExportPartnerCommissionsRequest{SortOrder: affiliatev1.SortOrder_SORT_ORDER_ASC}, header + firstRow + secondRow},
		"programme":      {"live", &affiliatev1.ExportPartnerCommissionsRequest{ProgramId: new(alpha.Program.String())}, header + firstRow},
		"the other mode": {"test", &affiliatev1.ExportPartnerCommissionsRequest{}, header},
	} {
		d := servertest.NewDownload(f.asPartner(jane, tc.mode))
		if err := f.service.ExportPartnerCommissions(tc.req, d); err != nil {
			t.Fatal(err)
		}
		if got := d.Text(); got != tc.want {
			t.Errorf("%s: the export is\n%s, want\n%s", name, got, tc.want)
		}
	}
	err := f.service.ExportPartnerCommissions(&affiliatev1.ExportPartnerCommissionsRequest{ProgramId: new(beta.Program.String())}, servertest.NewDownload(f.asLivePartner(john)))
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}
