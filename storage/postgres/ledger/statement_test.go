package ledger_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/storage/postgres"
	ledgers "github.com/tributary-hq/tributary/storage/postgres/ledger"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

var entryTypes = []ledger.EntryType{
	ledger.EntryCommissionApproved, ledger.EntryCommissionReversed, ledger.EntryClawback, ledger.EntryBonus,
	ledger.EntryAdjustment, ledger.EntryPayout, ledger.EntryPayoutReturned,
}

// randomEntry returns an entry of a participant. Many entries have the same instant.
func randomEntry(random *rand.Rand, p pgtest.Participant) ledger.Entry {
	at := pgtest.Noon.Add(-time.Duration(random.IntN(3000)) * time.Minute).Add(time.Duration(random.IntN(3)) * time.Millisecond)
	kind := entryTypes[random.IntN(len(entryTypes))]
	cents := 1 + random.Int64N(50)
	if negative := []ledger.EntryType{ledger.EntryCommissionReversed, ledger.EntryClawback, ledger.EntryPayout}; slices.Contains(negative, kind) {
		cents = -cents
	} else if kind == ledger.EntryAdjustment {
		cents -= 25
	}
	reason := "Private reason"
	return ledger.Entry{
		ID: affiliate.NewID[ledger.EntryID](at), Scope: p.Scope, Program: p.Program, Participant: p.ID, Partner: p.Partner,
		Type: kind, AmountCents: cents, Currency: []string{"EUR", "JPY", "USD"}[random.IntN(3)], Reason: &reason, CreatedBy: "system", CreatedAt: at,
	}
}

func (f *fixture) addToLedger(entries ...ledger.Entry) {
	f.Helper()
	if err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error { return ledgers.Insert(f.Context(), tx, entries...) }); err != nil {
		f.Fatal(err)
	}
}

// statement returns all pages of a statement. The balances are lines without names.
func (f *fixture) statement(filter ledger.BalanceFilter) (balances []string, totals []ledger.Total) {
	f.Helper()
	for number := 1; ; number++ {
		s, err := ledgers.Statement(f.Context(), f.DB, f.Scope, filter, affiliate.Page{Number: number, Size: 7})
		if err != nil {
			f.Fatal(err)
		}
		for _, b := range s.Balances {
			balances = append(balances, fmt.Sprint(b.Program, b.Participant, b.Currency, b.BalanceCents))
		}
		if len(s.Balances) < 7 {
			if s.Count != int64(len(balances)) {
				f.Errorf("the statement counts %d balances and has %d", s.Count, len(balances))
			}
			return balances, s.Totals
		}
	}
}

// sumEntries returns what statement must return. It adds the entries one by one.
func sumEntries(entries []ledger.Entry, filter ledger.BalanceFilter) (balances []string, totals []ledger.Total) {
	type key struct {
		program     affiliate.ProgramID
		participant affiliate.ParticipantID
		currency    string
	}
	sums := map[key]int64{}
	for _, e := range entries {
		if e.CreatedAt.Before(filter.Before) && (filter.Program == nil || *filter.Program == e.Program) {
			sums[key{e.Program, e.Participant, e.Currency}] += e.AmountCents
		}
	}
	maps.DeleteFunc(sums, func(_ key, cents int64) bool { return cents == 0 })
	sorted := slices.SortedFunc(maps.Keys(sums), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.currency, b.currency), cmp.Compare(sums[b], sums[a]), cmp.Compare(a.participant.String(), b.participant.String()))
	})
	for _, k := range sorted {
		balances = append(balances, fmt.Sprint(k.program, k.participant, k.currency, sums[k]))
		if len(totals) == 0 || totals[len(totals)-1].Currency != k.currency {
			totals = append(totals, ledger.Total{Currency: k.currency})
		}
		total := &totals[len(totals)-1]
		total.ParticipantCount++
		if sums[k] > 0 {
			total.OwedToPartners += sums[k]
		} else {
			total.OwedByPartners -= sums[k]
		}
	}
	return balances, totals
}

// For every past instant, the statement is the sum of the entries up to this instant. The
// lines of an export lead from the statement of its start to the statement of its end. An
// erasure changes neither.
func TestLedgerStatement_IsTheSumOfTheEntries(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the test repeats the same entries
	second := *f.Shop
	second.Program = f.NewProgram(f.Scope)
	var participants []pgtest.Participant
	for i := range 12 {
		participants = append(participants, []*pgtest.Shop{f.Shop, &second}[i%2].Join(fmt.Sprint("Partner ", i)))
	}
	var entries []ledger.Entry
	for range 150 {
		var block []ledger.Entry
		for range 1 + random.IntN(4) {
			block = append(block, randomEntry(random, participants[random.IntN(len(participants))]))
		}
		f.addToLedger(block...)
		entries = append(entries, block...)
	}
	for _, other := range []*pgtest.Shop{f.InOtherMode(), f.NewShop(f.Scope.Mode)} {
		f.addToLedger(randomEntry(random, other.Join("Other")), randomEntry(random, other.Join("Another")))
	}
	check := func(when string) {
		t.Helper()
		instants := []time.Time{{}, pgtest.Noon.AddDate(-1, 0, 0), pgtest.Noon.AddDate(1, 0, 0)}
		for range 15 {
			at := entries[random.IntN(len(entries))].CreatedAt
			instants = append(instants, at, at.Add(time.Millisecond), at.Add(time.Duration(random.IntN(9000))*time.Second))
		}
		for i, before := range instants {
			for _, program := range []*affiliate.ProgramID{nil, &second.Program} {
				filter := ledger.BalanceFilter{Program: program, Before: before}
				balances, totals := f.statement(filter)
				wantBalances, wantTotals := sumEntries(entries, filter)
				if !slices.Equal(balances, wantBalances) || !slices.Equal(totals, wantTotals) {
					t.Fatalf("%s: before %v the statement is\n%v %v\nwant\n%v %v", when, before, balances, totals, wantBalances, wantTotals)
				}
				from := instants[random.IntN(i+1)]
				f.checkLedgerExport(when, entries, program, from, before)
			}
		}
	}
	check("after the entries")

	erased := participants[3]
	f.Exec(`select erase_texts('ledger_entries', $1, array(select id from ledger_entries where participant_id = $2), 'erased-0123abcd')`, f.Scope.Workspace, erased.ID)
	f.Exec(`update participants set partner_name = 'erased-0123abcd', erased_at = $2 where id = $1`, erased.ID, pgtest.Noon)
	if n := f.Count(`select count(*) from ledger_entries where participant_id = $1 and reason is not null`, erased.ID); n != 0 {
		t.Fatalf("%d entries have a reason after the erasure", n)
	}
	check("after an erasure")
}

// checkLedgerExport checks the lines of an export: the opening balances equal the statement at
// from, the entries of the period follow in the order of time, and the sum of both is the
// statement at before.
func (f *fixture) checkLedgerExport(when string, entries []ledger.Entry, program *affiliate.ProgramID, from, before time.Time) {
	f.Helper()
	if before.Before(from) {
		from, before = before, from
	}
	totals := ledger.RunningTotals{}
	var got []ledger.Entry
	for line, err := range ledgers.Export(f.Context(), f.DB, f.Scope, program, affiliate.Period{From: &from, Before: &before}) {
		if err != nil {
			f.Fatal(err)
		}
		totals.Add(line.Entry)
		if line.Type != ledger.OpeningBalance {
			got = append(got, line.Entry)
			continue
		}
		_, opening := sumEntries(entries, ledger.BalanceFilter{Program: program, Before: from})
		i := slices.IndexFunc(opening, func(t ledger.Total) bool { return t.Currency == line.Currency })
		if len(got) > 0 || i < 0 && line.AmountCents != 0 || i >= 0 && line.AmountCents != opening[i].OwedToPartners-opening[i].OwedByPartners {
			f.Fatalf("%s: the export from %v has the opening balance %d %s after %d entries, want it to be of %v", when, from, line.AmountCents, line.Currency, len(got), opening)
		}
	}
	_, closing := sumEntries(entries, ledger.BalanceFilter{Program: program, Before: before})
	for _, total := range closing {
		if totals[total.Currency] != total.OwedToPartners-total.OwedByPartners {
			f.Fatalf("%s: the export from %v until %v ends with %v, want %v", when, from, before, totals, closing)
		}
	}
	want := slices.DeleteFunc(slices.Clone(entries), func(e ledger.Entry) bool {
		return e.CreatedAt.Before(from) || !e.CreatedAt.Before(before) || program != nil && e.Program != *program
	})
	slices.SortFunc(want, func(a, b ledger.Entry) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID.String(), b.ID.String()))
	})
	same := func(a, b ledger.Entry) bool {
		return a.ID == b.ID && a.AmountCents == b.AmountCents && a.Type == b.Type
	}
	if !slices.EqualFunc(got, want, same) {
		f.Fatalf("%s: the export from %v until %v has %d entries, want %d in the order of time", when, from, before, len(got), len(want))
	}
}

func TestLedgerStatements_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	fill := func(s *pgtest.Shop) {
		s.JoinMany(200)
		f.ExecWithoutForeignKeys(`
			insert into ledger_entries (workspace_id, id, mode, program_id, participant_id, partner_id, type, amount_cents, currency, created_by, created_at)
			select t.workspace_id, gen_random_uuid(), t.mode, t.program_id, t.id, t.partner_id, 'bonus', n, 'EUR', 'system', $2::timestamptz - n * interval '1 day'
			from participants t, generate_series(1, 100) n where t.program_id = $1`, s.Program, s.Now())
		f.Exec(`
			insert into ledger_balances (workspace_id, participant_id, currency, slot, balance_cents)
			select workspace_id, participant_id, currency, 0, sum(amount_cents) from ledger_entries where program_id = $1 group by 1, 2, 3`, s.Program)
	}
	fill(f.Shop)
	fill(f.InOtherMode())
	for range 4 {
		fill(f.NewShop(f.Scope.Mode))
	}
	// Balances of many other workspaces, so that a scan of the table costs more than its index.
	f.Exec(`insert into ledger_balances select gen_random_uuid(), gen_random_uuid(), 'EUR', 0, n from generate_series(1, 20000) n`)
	f.VacuumAnalyze()
	scans := pgtest.ScansOf("ledger_entries", "ledger_balances")
	lastMonth, now := f.Now().AddDate(0, 0, -10), f.Now()
	// The entries of a period are read from the index alone. The heap is read only for an
	// export, which needs all columns.
	pgtest.CheckPlan(t, "statement", f.Plan(ledgers.LedgerStatementSQL, f.Scope.Workspace, f.Scope.Mode, nil, lastMonth, 20, 0),
		[]string{"Index Only Scan using ledger_entries_by_time"}, scans)
	pgtest.CheckPlan(t, "statement of a programme", f.Plan(ledgers.LedgerStatementSQL, f.Scope.Workspace, f.Scope.Mode, f.Program, lastMonth, 20, 0),
		[]string{"Index Only Scan using ledger_entries_by_time"}, scans)
	pgtest.CheckPlan(t, "opening balances", f.Plan(ledgers.LedgerOpeningSQL, f.Scope.Workspace, f.Scope.Mode, nil, lastMonth, now),
		[]string{"Index Only Scan using ledger_entries_by_time"}, scans)
	export := f.PlanWith(ledgers.ExportPlanSQL, ledgers.LedgerExportSQL, f.Scope.Workspace, f.Scope.Mode, nil, lastMonth, now)
	pgtest.CheckPlan(t, "export", export, []string{"Index Scan using ledger_entries_by_time"}, append(scans, "Bitmap"))

	p, page := f.AnyParticipant(), affiliate.Page{Number: 1, Size: 20}
	list := f.PlansOf(func(db *postgres.DB) error {
		_, _, _, err := ledgers.List(t.Context(), db, f.Scope, f.Program, p.ID, ledger.Filter{}, page)
		return err
	})
	pgtest.CheckPlan(t, "entries of a participant", strings.Join(list, "\n"),
		[]string{"Limit -> Index Scan using ledger_entries_by_participant", "Limit -> Index Only Scan using ledger_entries_by_participant", "ledger_balances_pkey"}, scans)
	list = f.PlansOf(func(db *postgres.DB) error {
		_, _, _, err := ledgers.ListOfPartner(t.Context(), db, p.Partner, f.Scope.Mode, ledger.Filter{}, page)
		return err
	})
	pgtest.CheckPlan(t, "entries of a partner", strings.Join(list, "\n"),
		[]string{"Limit -> Index Scan using ledger_entries_by_partner", "Limit -> Index Only Scan using ledger_entries_by_partner", "participants_by_partner", "ledger_balances_pkey"}, scans)
}
