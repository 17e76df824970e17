package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) balances(req *affiliatev1.ListLedgerBalancesRequest) *affiliatev1.ListLedgerBalancesResponse {
	f.Helper()
	if err := servertest.Check(f.service, req); err != nil {
		f.Fatal(err)
	}
	got, err := f.service.ListLedgerBalances(f.asOwner(), req)
	if err != nil {
		f.Fatalf("ListLedgerBalances with %v: %v", req, err)
	}
	return got
}

// stated returns the balances and totals of a statement in one line.
func stated(s *affiliatev1.ListLedgerBalancesResponse) string {
	var words []string
	for _, b := range s.Data {
		words = append(words, fmt.Sprint(b.PartnerName, " ", b.Currency, b.BalanceCents))
	}
	words = append(words, fmt.Sprint("| total ", s.Total, " |"))
	for _, t := range s.Totals {
		words = append(words, fmt.Sprintf("%s+%d-%d=%d of %d", t.Currency, t.OwedToPartnersCents, t.OwedByPartnersCents, t.BalanceCents, t.ParticipantCount))
	}
	return strings.Join(words, " ")
}

// addBonuses gives Anna 30 EUR and 7 USD cents on 31 October, takes 50 cents from Berta in the
// last millisecond of October in Berlin, and gives Anna 5 cents in the first millisecond of
// November there.
func (f *fixture) addBonuses(anna, berta pgtest.Participant) {
	f.Helper()
	november := time.Date(2026, 10, 31, 23, 0, 0, 0, time.UTC)
	add := func(at time.Time, p pgtest.Participant, kind affiliatev1.LedgerEntryType, cents int64, currency string) {
		f.Helper()
		f.clock.Set(at.Add(-time.Second)) // addEntry advances the clock
		f.addEntry(p, kind, cents, currency)
	}
	add(november.Add(-6*time.Hour), anna, bonus, 30, "")
	add(november.Add(-5*time.Hour), anna, bonus, 7, "USD")
	add(november.Add(-time.Millisecond), berta, adjustment, -50, "")
	add(november, anna, bonus, 5, "")
}

func TestListLedgerBalances(t *testing.T) {
	f := newFixture(t)
	anna, berta := f.Join("Anna"), f.Join("Berta")
	f.addBonuses(anna, berta)
	second := f.in(&pgtest.Shop{Fixture: f.Fixture, Scope: f.Scope, Owner: f.Owner, Program: f.NewProgram(f.Scope)})
	second.addEntry(second.Join("Carla"), bonus, 100, "")
	for _, other := range []*pgtest.Shop{f.InOtherMode(), f.NewShop(f.Scope.Mode)} {
		f.in(other).addEntry(other.Join("Other"), bonus, 1, "")
	}
	f.clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	berlin, program := "Europe/Berlin", f.Program.String()
	for name, tc := range map[string]struct {
		req  *affiliatev1.ListLedgerBalancesRequest
		want string
		asOf string
	}{
		"now": {
			&affiliatev1.ListLedgerBalancesRequest{},
			"Carla EUR100 Anna EUR35 Berta EUR-50 Anna USD7 | total 4 | EUR+135-50=85 of 3 USD+7-0=7 of 1", "2026-11-20T12:00:00.000Z",
		},
		"the future means now": {
			&affiliatev1.ListLedgerBalancesRequest{AsOf: new("2031-01-01")},
			"Carla EUR100 Anna EUR35 Berta EUR-50 Anna USD7 | total 4 | EUR+135-50=85 of 3 USD+7-0=7 of 1", "2026-11-20T12:00:00.000Z",
		},
		"a date in a time zone": {
			&affiliatev1.ListLedgerBalancesRequest{AsOf: new("2026-10-31"), Timezone: &berlin},
			"Anna EUR30 Berta EUR-50 Anna USD7 | total 3 | EUR+30-50=-20 of 2 USD+7-0=7 of 1", "2026-10-31T22:59:59.999Z",
		},
		"a date in UTC": {
			&affiliatev1.ListLedgerBalancesRequest{AsOf: new("2026-10-31"), ProgramId: &program},
			"Anna EUR35 Berta EUR-50 Anna USD7 | total 3 | EUR+35-50=-15 of 2 USD+7-0=7 of 1", "2026-10-31T23:59:59.999Z",
		},
		"an instant includes its millisecond": {
			&affiliatev1.ListLedgerBalancesRequest{AsOf: new("2026-10-31T23:59:59.999+01:00")},
			"Anna EUR30 Berta EUR-50 Anna USD7 | total 3 | EUR+30-50=-20 of 2 USD+7-0=7 of 1", "2026-10-31T22:59:59.999Z",
		},
		"before the first entry": {
			&affiliatev1.ListLedgerBalancesRequest{AsOf: new("2026-10-30")}, "| total 0 |", "2026-10-30T23:59:59.999Z",
		},
		"one programme, second page": {
			&affiliatev1.ListLedgerBalancesRequest{ProgramId: &program, Page: new(int32(2)), PageSize: new(int32(2))},
			"Anna USD7 | total 3 | EUR+35-50=-15 of 2 USD+7-0=7 of 1", "2026-11-20T12:00:00.000Z",
		},
		"after the last page": {
			&affiliatev1.ListLedgerBalancesRequest{Page: new(int32(9))},
			"| total 4 | EUR+135-50=85 of 3 USD+7-0=7 of 1", "2026-11-20T12:00:00.000Z",
		},
	} {
		got := f.balances(tc.req)
		if stated(got) != tc.want || affiliate.FormatTime(got.AsOf.AsTime()) != tc.asOf {
			t.Errorf("%s: the statement is %s as of %v\nwant %s as of %s", name, stated(got), got.AsOf.AsTime(), tc.want, tc.asOf)
		}
	}
	first := f.balances(&affiliatev1.ListLedgerBalancesRequest{ProgramId: &program}).Data[0]
	if first.ParticipantId != anna.ID.String() || first.ProgramId != program || first.ProgramName != "P" {
		t.Errorf("the first balance is %v, want it to name the participant and the programme", first)
	}
	for _, unknown := range []string{f.in(f.NewShop(f.Scope.Mode)).Program.String(), affiliate.NewID[affiliate.ProgramID](f.Now()).String()} {
		_, err := f.service.ListLedgerBalances(f.asOwner(), &affiliatev1.ListLedgerBalancesRequest{ProgramId: &unknown})
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
}

func (f *fixture) exportLedger(req *affiliatev1.ExportLedgerRequest) *servertest.Download {
	f.Helper()
	if err := servertest.Check(f.service, req); err != nil {
		f.Fatal(err)
	}
	d := servertest.NewDownload(f.asOwner())
	if err := f.service.ExportLedger(req, d); err != nil {
		f.Fatalf("ExportLedger with %v: %v", req, err)
	}
	return d
}

func TestExportLedger(t *testing.T) {
	f := newFixture(t)
	anna, berta := f.Join(`=SUM(A1) "Anna"`), f.Join("Berta")
	f.addBonuses(anna, berta)
	f.Exec(`update participants set partner_name = 'erased-0123abcd', erased_at = $2 where id = $1`, berta.ID, f.Now())
	f.Exec(`select erase_texts('ledger_entries', $1, array(select id from ledger_entries where participant_id = $2), 'erased-0123abcd')`, f.Scope.Workspace, berta.ID)
	f.clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	berlin := "Europe/Berlin"
	req := &affiliatev1.ExportLedgerRequest{DateFrom: new("2026-10-31T17:30:00Z"), DateTo: new("2026-10-31"), Timezone: &berlin}
	d := f.exportLedger(req)

	ids := f.Texts(`select id::text from ledger_entries order by created_at`)
	named := func(p pgtest.Participant, name string) string {
		return fmt.Sprintf(`"%s","P","%s",%s`, f.Program, p.ID, name)
	}
	annaCells := named(anna, `"'=SUM(A1) ""Anna"""`)
	want := "id,createdAt,programId,programName,participantId,partnerName,type,amountCents,currency,runningTotalCents,commissionId,payoutId,reason,occurredAt\r\n" +
		`"","2026-10-31T17:30:00.000Z",,,,,"opening_balance",,"EUR",30,,,,` + "\r\n" +
		`"","2026-10-31T17:30:00.000Z",,,,,"opening_balance",,"USD",0,,,,` + "\r\n" +
		`"` + ids[1] + `","2026-10-31T18:00:00.000Z",` + annaCells + `,"bonus",7,"USD",7,,,"Reason 7",` + "\r\n" +
		`"` + ids[2] + `","2026-10-31T22:59:59.999Z",` + named(berta, `"erased-0123abcd"`) + `,"adjustment",-50,"EUR",-20,,,,` + "\r\n" +
		`"","2026-10-31T22:59:59.999Z",,,,,"closing_balance",,"EUR",-20,,,,` + "\r\n" +
		`"","2026-10-31T22:59:59.999Z",,,,,"closing_balance",,"USD",7,,,,` + "\r\n"
	if got := d.Text(); got != want {
		t.Errorf("the export is\n%s\nwant\n%s", got, want)
	}
	if got, want := d.Header.Get("content-disposition"), `attachment; filename="ledger-live-2026-11-20.csv"`; len(got) != 1 || got[0] != want {
		t.Errorf("the file name is %q, want %q", got, want)
	}
	if got := f.AuditActions("workspace", f.Scope.Workspace.String()); !slices.Equal(got, []string{"ledger.export"}) {
		t.Errorf("the audit log has %q, want one export", got)
	}
	if got, want := f.Texts(`select after->>'date_from' || ' ' || (after->>'date_to') || ' ' || (after->>'timezone') from audit_log where action = 'ledger.export'`)[0],
		"2026-10-31T17:30:00Z 2026-10-31 Europe/Berlin"; got != want {
		t.Errorf("the audit record names the period %s, want %s", got, want)
	}

	// The closing balances are the totals of the statement at the end of the period.
	for _, to := range []*string{new("2026-10-31"), new("2026-10-31T22:59:59.998Z"), nil} {
		statement := f.balances(&affiliatev1.ListLedgerBalancesRequest{AsOf: to, Timezone: &berlin})
		var closing, totals []string
		for _, row := range f.exportLedger(&affiliatev1.ExportLedgerRequest{DateTo: to, Timezone: &berlin}).Rows(t) {
			if row[6] == "opening_balance" && (row[9] != "0" || row[1] != "") {
				t.Errorf("an export from the first entry has the opening balance %q, want 0 without a date", row)
			}
			if row[6] == "closing_balance" {
				closing = append(closing, row[8]+row[9])
			}
		}
		for _, total := range statement.Totals {
			totals = append(totals, fmt.Sprint(total.Currency, total.BalanceCents))
		}
		if !slices.Equal(closing, totals) || len(totals) != 2 {
			t.Errorf("the export ends with %q, and the statement has %q", closing, totals)
		}
	}
}

func TestExportLedger_ShowsCommissionsAndPayouts(t *testing.T) {
	f := newFixture(t)
	p := f.Join("Jane")
	commission, payout := affiliate.NewID[affiliate.CommissionID](f.Now()), affiliate.NewID[affiliate.PayoutID](f.Now())
	paidAt := f.Now().Add(-time.Hour)
	row := func(kind ledger.EntryType, changes pgtest.Row) {
		f.clock.Advance(time.Second)
		f.Insert("ledger_entries", pgtest.Row{
			"workspace_id": p.Scope.Workspace, "id": affiliate.NewID[ledger.EntryID](f.Now()), "mode": p.Scope.Mode, "program_id": p.Program,
			"participant_id": p.ID, "partner_id": p.Partner, "type": kind, "currency": "EUR", "created_by": "system", "created_at": f.Now(),
		}, changes)
	}
	row(ledger.EntryCommissionApproved, pgtest.Row{"amount_cents": 10, "commission_id": commission})
	row(ledger.EntryPayout, pgtest.Row{"amount_cents": -10, "payout_id": payout, "occurred_at": paidAt})
	f.Exec(`insert into ledger_balances select workspace_id, participant_id, currency, 0, 0 from ledger_entries limit 1`)
	var got []string
	for _, row := range f.exportLedger(&affiliatev1.ExportLedgerRequest{}).Rows(t) {
		got = append(got, strings.Join(row[6:], " "))
	}
	want := []string{
		"type amountCents currency runningTotalCents commissionId payoutId reason occurredAt",
		"opening_balance  EUR 0    ",
		"commission_approved 10 EUR 10 " + commission.String() + "   ",
		"payout -10 EUR 0  " + payout.String() + "  " + affiliate.FormatTime(paidAt),
		"closing_balance  EUR 0    ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the export is\n%q\nwant\n%q", got, want)
	}
}

func TestExportLedger_RefusesUnknownProgramme(t *testing.T) {
	f := newFixture(t)
	unknown := f.NewShop(f.Scope.Mode).Program.String()
	d := servertest.NewDownload(f.asOwner())
	err := f.service.ExportLedger(&affiliatev1.ExportLedgerRequest{ProgramId: &unknown}, d)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if n := f.Count(`select count(*) from audit_log`); n != 0 || len(d.Chunks) != 0 || len(d.Header) != 0 {
		t.Errorf("the refused export has %d audit records, %d chunks and the header %v, want none", n, len(d.Chunks), d.Header)
	}
}

func TestCheck_ReportsInvalidDates(t *testing.T) {
	f := newFixture(t)
	for _, tc := range []struct {
		asOf, timezone, from, to string
		want                     string
	}{
		{asOf: "31.12.2026", want: "as_of"},
		{timezone: "Mars/Olympus", want: "timezone"},
		{from: "2026-02-02", to: "2026-02-01", want: "date_to"},
	} {
		found := append(
			f.service.Check(&affiliatev1.ListLedgerBalancesRequest{AsOf: &tc.asOf, Timezone: &tc.timezone}),
			f.service.Check(&affiliatev1.ExportLedgerRequest{DateFrom: &tc.from, DateTo: &tc.to, Timezone: &tc.timezone})...)
		if len(found) == 0 || found[0].Field != tc.want {
			t.Errorf("%+v: the violations are %v, want %s", tc, found, tc.want)
		}
	}
}

func TestCreateLedgerEntry_RefusesAClosedPeriod(t *testing.T) {
	f := newFixture(t)
	p := f.Join("Jane")
	closed := f.Now().Add(time.Minute).Truncate(time.Millisecond)
	f.Exec(`update workspaces set books_closed_until = $2 where id = $1`, f.Scope.Workspace, closed)
	req := &affiliatev1.CreateLedgerEntryRequest{
		ProgramId: f.Program.String(), ParticipantId: p.ID.String(), Type: adjustment, AmountCents: -1, Reason: "R",
	}
	_, err := f.service.CreateLedgerEntry(f.asOwner(), req)
	if metadata := pgtest.RequireRefusal(t, err, affiliate.ReasonPeriodClosed); metadata["books_closed_until"] != affiliate.FormatTime(closed) {
		t.Errorf("the error has the metadata %v, want the end of the closed periods", metadata)
	}
	f.WantCount(0, "entries", `select count(*) from ledger_entries`)
	f.clock.Advance(time.Minute)
	entry, err := f.service.CreateLedgerEntry(f.asOwner(), req)
	if err != nil || !entry.CreatedAt.AsTime().Equal(timestamppb.New(f.Now().Truncate(time.Millisecond)).AsTime()) {
		t.Errorf("in the open period CreateLedgerEntry returned %v, %v", entry, err)
	}
}
