package check_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/affiliate/program"
	checks "github.com/tributary-hq/tributary/storage/postgres/check"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	counters "github.com/tributary-hq/tributary/storage/postgres/stats"
)

// checkFixture is a workspace with at least one row for every check of Run:
//
//	approved      an approved commission in a draft payout
//	free          an approved commission that is in no payout
//	paid          a paid commission in a paid payout
//	rejected      a commission that was rejected after its approval
//	flagged       a commission in US dollars, which is pending because no exchange
//	              rate is known
//	unattributed  a conversion without a participant and without a commission
//	draftPayout   the draft payout that contains the commission approved
//	paidPayout    the paid payout that contains the commission paid
type checkFixture struct {
	*fixture
	participant pgtest.Participant
	click       affiliate.ClickID

	approved, free, paid, rejected, flagged commission.Commission
	unattributed                            affiliate.ConversionID
	draftPayout, paidPayout                 affiliate.PayoutID
}

func newCheckFixture(t *testing.T) *checkFixture {
	t.Helper()
	f := newFixture(t, pgtest.Row{
		"name": "Spring", "attribution_model": program.FirstClick, "rules_version": 4,
		"rules": `{"commission_type":"percentage","rate_bps":1000,"hold_period_days":0,"auto_approval":true,"net_basis":"gross"}`,
	})
	b := &checkFixture{fixture: f, participant: f.Join("Pat")}
	b.click = b.NewClick(b.participant).ID
	b.NewPromoCode(b.participant, "pat10")

	b.approved, b.free, b.paid = b.sale("approved", 1_000, "EUR"), b.sale("free", 2_000, "EUR"), b.sale("paid", 3_000, "EUR")
	b.rejected, b.flagged = b.sale("rejected", 4_000, "EUR"), b.sale("flagged", 5_000, "USD")
	b.unattributed = b.reportSale("unattributed", affiliate.NewID[affiliate.ClickID](pgtest.Noon), 6_000, "EUR").Conversion.ID

	b.draftPayout, b.paidPayout = b.payout("draft", b.approved, 0), b.payout("paid", b.paid, -50)
	b.MoveCommission(b.paid, commission.Transition{Move: commission.MovePay, PaidAt: pgtest.Noon, Payout: &b.paidPayout})
	b.MoveCommission(b.rejected, commission.Transition{Move: commission.MoveReject})
	b.entry(b.paidPayout, "payout", b.paid.AmountCents-50, -1)
	b.entry(affiliate.PayoutID{}, "bonus", 25, 1)

	b.Insert("refunds", pgtest.Row{
		"workspace_id": b.Scope.Workspace, "id": affiliate.NewID[conversion.RefundID](pgtest.Noon), "mode": b.Scope.Mode, "external_refund_id": "r",
		"external_transaction_id": "rejected", "conversion_id": b.rejected.Conversion, "amount_cents": 100, "created_at": pgtest.Noon, "expires_at": pgtest.Noon,
	})
	b.Exec(`update conversions set refunded_amount_cents = 100, status = 'partially_refunded' where id = $1`, b.rejected.Conversion)
	return b
}

// reportSale records a purchase.
func (b *checkFixture) reportSale(external string, click affiliate.ClickID, cents int64, currency string) conversions.Recorded {
	b.Helper()
	recorded, err := b.Record(b.Report(external, click, func(c *conversion.Conversion) {
		c.Money = affiliate.Money{Cents: cents, Currency: currency}
	}))
	if err != nil {
		b.Fatal(err)
	}
	return recorded
}

// sale records a purchase of the participant and returns its commission.
func (b *checkFixture) sale(external string, cents int64, currency string) commission.Commission {
	b.Helper()
	return *b.reportSale(external, b.click, cents, currency).Commission
}

// payout stores a payout of a single commission.
func (b *checkFixture) payout(status string, c commission.Commission, adjustment int64) affiliate.PayoutID {
	b.Helper()
	now := b.Now()
	batch, id := affiliate.NewID[payout.BatchID](now), affiliate.NewID[affiliate.PayoutID](now)
	b.Insert("payout_batches", pgtest.Row{
		"workspace_id": c.Workspace, "id": batch, "mode": c.Mode, "status": "draft", "program_ids": []string{}, "cutoff": now,
		"created_by": c.Partner, "created_at": now,
	})
	b.Insert("payouts", pgtest.Row{
		"workspace_id": c.Workspace, "id": id, "batch_id": batch, "mode": c.Mode, "program_id": c.Program, "participant_id": c.Participant,
		"partner_id": c.Partner, "amount_cents": c.AmountCents + adjustment, "currency": c.Currency, "commission_count": 1,
		"adjustment_cents": adjustment, "status": status, "method": "manual", "created_at": now, "updated_at": now,
	})
	b.Insert("payout_commissions", pgtest.Row{
		"workspace_id": c.Workspace, "payout_id": id, "commission_id": c.ID, "amount_cents": c.AmountCents,
	})
	b.Exec(`update commissions set payout_id = $1 where id = $2`, id, c.ID)
	return id
}

// entry adds a ledger entry of sign*cents and updates the balance.
func (b *checkFixture) entry(payout affiliate.PayoutID, kind string, cents, sign int64) {
	b.Helper()
	row := pgtest.Row{
		"workspace_id": b.Scope.Workspace, "id": affiliate.NewID[ledger.EntryID](b.Now()), "mode": b.Scope.Mode, "program_id": b.Program,
		"participant_id": b.participant.ID, "partner_id": b.participant.Partner, "type": kind, "amount_cents": sign * cents, "currency": "EUR",
		"created_by": "system", "created_at": b.Now(),
	}
	if !payout.IsZero() {
		row["payout_id"] = payout
	}
	b.Insert("ledger_entries", row)
	b.Insert("ledger_balances", pgtest.Row{
		"workspace_id": b.Scope.Workspace, "participant_id": b.participant.ID, "currency": "EUR", "slot": 20 + sign, "balance_cents": sign * cents,
	})
}

// check calls Run and returns the results by the name of the check.
func (b *checkFixture) check(now func() time.Time) map[string]affiliate.CheckResult {
	b.Helper()
	results, err := checks.Run(b.Context(), b.DB, now)
	if err != nil {
		b.Fatal(err)
	}
	return byName(results)
}

func byName(results []affiliate.CheckResult) map[string]affiliate.CheckResult {
	named := map[string]affiliate.CheckResult{}
	for _, r := range results {
		named[r.Name] = r
	}
	return named
}

func TestCheckAccounts_AcceptsConsistentData(t *testing.T) {
	b := newCheckFixture(t)
	for _, folded := range []bool{false, true} {
		if folded {
			if n, err := counters.Fold(t.Context(), b.DB, 1_000); err != nil || n == 0 {
				t.Fatalf("FoldStats folded %d rows, %v, want more than 0", n, err)
			}
		}
		for name, r := range b.check(time.Now) {
			if r.Violated > 0 || len(r.Violations) > 0 {
				t.Errorf("check %s reports %+v, want no violations", name, r)
			}
			// The log of the analytics contains everything until a job of package
			// server/analytics, which has its own tests of these checks, empties it.
			if r.Compared == 0 && !strings.HasPrefix(name, "analytics_") {
				t.Errorf("check %s compared no items", name)
			}
		}
	}
}

// Each case makes the data inconsistent, in a transaction that is rolled back. Exactly one
// of the checks must report the inconsistency.
func TestCheckAccounts_ReportsEachInconsistency(t *testing.T) {
	t.Parallel()
	b := newCheckFixture(t)
	ids := strings.NewReplacer(
		"{approved}", b.approved.ID.String(), "{free}", b.free.ID.String(), "{paid}", b.paid.ID.String(), "{flagged}", b.flagged.ID.String(),
		"{unattributed}", b.unattributed.String(), "{draftPayout}", b.draftPayout.String(), "{paidPayout}", b.paidPayout.String(), "{workspace}", b.Scope.Workspace.String(),
		"{participant}", b.participant.ID.String(), "{program}", b.Program.String(), "{month}", b.Now().Format("2006-01"))
	for name, tc := range map[string]struct {
		check   string   // the check that must report the inconsistency
		corrupt []string // statements; {name} is replaced by an id of the checkNoonFixture
		want    []string // texts that the violations must contain
	}{
		"entries of commissions": {
			"commission_ledger",
			[]string{
				`update ledger_entries set amount_cents = amount_cents + 1 where commission_id = '{approved}'`,
				`update ledger_entries set amount_cents = amount_cents - 1 where commission_id = '{free}'`,
			},
			[]string{"commission {approved}: the ledger has 101 EUR for participant {participant}, expected 100", "commission {free}: the ledger has 199 EUR"},
		},
		"an entry of an unknown commission": {
			"commission_ledger",
			[]string{`update ledger_entries set commission_id = '{unattributed}' where type = 'bonus'`},
			[]string{"commission {unattributed}: the ledger has 25 EUR for participant {participant}, which has no such commission"},
		},
		"entries of a pending commission": {
			"commission_ledger",
			[]string{
				`update ledger_entries set commission_id = '{flagged}', currency = 'USD' where type = 'bonus'`,
				`update ledger_balances set currency = 'USD' where slot = 21`,
			},
			[]string{"commission {flagged}: the ledger has 25 USD for participant {participant}, expected 0"},
		},
		"a balance": {
			"balances",
			[]string{`update ledger_balances set balance_cents = balance_cents + 7 where slot = 21`},
			[]string{"workspace {workspace}, live: participant {participant}: the balance is 382 EUR, the entries sum to 375"},
		},
		"a balance without entries": {
			"balances",
			[]string{`insert into ledger_balances values ('{workspace}', '{participant}', 'JPY', 0, 5)`},
			[]string{"participant {participant}: the balance is 5 JPY, the entries sum to 0"},
		},
		"entries of a payout": {
			"payout_ledger",
			[]string{
				`update ledger_entries set amount_cents = amount_cents - 1 where type = 'payout'`,
				`update ledger_entries set amount_cents = amount_cents + 1 where type = 'bonus'`,
			},
			[]string{"payout {paidPayout}: the ledger has -251 EUR for participant {participant}, expected -250"},
		},
		"an entry of a draft payout": {
			"payout_ledger",
			[]string{`update ledger_entries set payout_id = '{draftPayout}' where type = 'bonus'`},
			[]string{"payout {draftPayout}: the ledger has 25 EUR for participant {participant}, expected 0"},
		},
		"a pending commission in a payout": {
			"commission_payout",
			[]string{`update commissions set payout_id = '{draftPayout}' where id = '{flagged}'`},
			[]string{"commission {flagged} refers to payout {draftPayout}, which is not a payout of its participant in its currency"},
		},
		"a paid commission without a payout": {
			"commission_payout",
			[]string{`update commissions set payout_id = null where id = '{paid}'`},
			[]string{"commission {paid} is paid but refers to no payout"},
		},
		"an approved commission in a paid payout": {
			"commission_payout",
			[]string{`update commissions set payout_id = '{paidPayout}' where id = '{free}'`},
			[]string{"commission {free} is approved and refers to payout {paidPayout}, which is paid"},
		},
		"an approved commission in a canceled payout": {
			"commission_payout",
			[]string{`update payouts set status = 'canceled' where id = '{draftPayout}'`},
			[]string{"commission {approved} is approved and refers to payout {draftPayout}, which is canceled"},
		},
		"a commission in a payout that does not list it": {
			"commission_payout",
			[]string{`update commissions set payout_id = '{draftPayout}' where id = '{free}'`},
			[]string{"commission {free} refers to payout {draftPayout}, which does not list it"},
		},
		"a listed commission without a payout": {
			"payout_commission",
			[]string{`update commissions set payout_id = null where id = '{approved}'`},
			[]string{"payout {draftPayout} is draft and lists the approved commission {approved}, which refers to no payout"},
		},
		"a payout's amount": {
			"payout_amount",
			[]string{`update payouts set adjustment_cents = 1 where id = '{draftPayout}'`},
			[]string{"payout {draftPayout} has the amount 100 EUR for 1 commissions; it lists 1 commissions with a sum of 100 and an adjustment of 1"},
		},
		"a payout's number of commissions": {
			"payout_amount",
			[]string{`update payouts set commission_count = 2 where id = '{paidPayout}'`},
			[]string{"payout {paidPayout} has the amount 250 EUR for 2 commissions; it lists 1 commissions with a sum of 300 and an adjustment of -50"},
		},
		"a counter": {
			"commission_counts",
			[]string{`update commission_counts set n = n + 1 where ctid = (select ctid from commission_counts where grain = 'month' and status = 'paid')`},
			[]string{"programme {program}, month from {month}-01, paid: the counters have 2 commissions with 300 EUR, the tables have 1 with 300"},
		},
		"the amount of a counter": {
			"commission_counts",
			[]string{`update commission_counts set amount_cents = amount_cents + 1 where ctid = (select ctid from commission_counts where grain = 'day' and needs_review)`},
			[]string{"pending in review: the counters have 1 commissions with 501 USD, the tables have 1 with 500"},
		},
		"a missing counter": {
			"commission_counts",
			[]string{`delete from commission_counts where grain = 'ever' and status = 'paid'`},
			[]string{"programme {program}, ever from 0001-01-01, paid: the counters have 0 commissions with 0 EUR, the tables have 1 with 300"},
		},
		"the last entry of a history": {
			"commission_history",
			[]string{`update commission_history set amount_cents = 299 where commission_id = '{paid}' and seq = 2`},
			[]string{"commission {paid} is paid with 300 EUR in version 2, but its history ends with paid and 299 in version 2"},
		},
		"a version without a history entry": {
			"commission_history",
			[]string{`update commissions set version = 3 where id = '{paid}'`},
			[]string{"commission {paid} is paid with 300 EUR in version 3, but its history ends with paid and 300 in version 2"},
		},
		"a commission without a history": {
			"commission_history",
			[]string{`delete from commission_history where commission_id = '{free}'`},
			[]string{"commission {free} is approved with 200 EUR in version 1, but has no history"},
		},
		"a commission of an old decision": {
			"commission_decision",
			[]string{`update commissions set decision_id = gen_random_uuid() where id = '{free}'`},
			[]string{"commission {free} is approved and refers to decision "},
		},
		"a conversion without its decision": {
			"conversion_decision",
			[]string{`update conversions set decision_id = gen_random_uuid() where id = '{unattributed}'`},
			[]string{"conversion {unattributed} refers to decision ", "which is not one of its decisions"},
		},
		"a superseded decision": {
			"conversion_decision",
			[]string{`
				insert into attribution_decisions (workspace_id, id, conversion_id, mode, attributed, reason_code, explanation, engine_version, trace, supersedes, decided_at)
				select workspace_id, gen_random_uuid(), id, mode, false, 'CLICK_UNKNOWN', '', '2', '{}', decision_id, created_at from conversions where id = '{unattributed}'`},
			[]string{"conversion {unattributed} refers to decision ", "which was superseded"},
		},
		"a reason code that differs from the decision's": {
			"conversion_decision",
			[]string{`update conversions set reason_code = 'CLICK_EXPIRED' where id = '{unattributed}'`},
			[]string{"conversion {unattributed} has CLICK_EXPIRED and no participant, its decision ", " has CLICK_UNKNOWN and no participant"},
		},
		"a sum of refunds": {
			"refunds",
			[]string{`update refunds set amount_cents = 101`},
			[]string{": the refunded amount is 100, its refunds sum to 101"},
		},
		"more refunded than was paid": {
			"refunds",
			[]string{`update refunds set amount_cents = 4001`, `update conversions set refunded_amount_cents = 4001 where refunded_amount_cents > 0`},
			[]string{": the refunded amount is 4001, which is not between 0 and 4000"},
		},
		"a total of conversions": {
			"participant_totals",
			[]string{`update participant_totals set conversions = conversions + 1`},
			[]string{"participant {participant}: the totals are 6 conversions and 600 EUR, expected 5 and 600"},
		},
		"a total of commissions": {
			"participant_totals",
			[]string{`update stats_deltas set commission_cents = commission_cents + 3 where id = (select id from stats_deltas where currency = 'EUR' limit 1)`},
			[]string{"participant {participant}: the totals are 5 conversions and 603 EUR, expected 5 and 600"},
		},
		"a counter of a list": {
			"list_counts",
			[]string{`update list_counts set n = n + 1 where what = 'promo_codes'`},
			[]string{"workspace {workspace}, live: programme {program}: the counters have 2 promo_codes, the tables have 1"},
		},
		"a list without a counter": {
			"list_counts",
			[]string{`update participants set status = 'suspended'`},
			[]string{"the counters have 1 participants.approved, the tables have 0", "the counters have 0 participants.suspended, the tables have 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tx, err := b.SQL.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(t.Context()) }()
			for _, sql := range tc.corrupt {
				if _, err := tx.Exec(t.Context(), ids.Replace(sql)); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			results, err := checks.ChecksIn(t.Context(), tx, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			for name, r := range byName(results) {
				if (r.Violated > 0) != (name == tc.check) || int(r.Violated) != len(r.Violations) {
					t.Errorf("check %s reports %+v, want violations only from check %s", name, r, tc.check)
				}
				if name != tc.check {
					continue
				}
				for _, want := range tc.want {
					if !strings.Contains(strings.Join(r.Violations, "\n"), ids.Replace(want)) {
						t.Errorf("the violations %q do not contain %q", r.Violations, ids.Replace(want))
					}
				}
			}
		})
	}
}

// A worker stores the state of a charge first and applies it afterwards.
func TestCheckAccounts_WaitsForChargeThatIsBeingApplied(t *testing.T) {
	b := newCheckFixture(t)
	charge := pgtest.Row{
		"workspace_id": b.Scope.Workspace, "mode": b.Scope.Mode, "id": "ch_1", "currency": "EUR", "amount_cents": 4_000, "refunded_cents": 50,
		"conversion_id": b.rejected.Conversion, "read_number": 1, "updated_at": time.Now(),
	}
	b.Insert("processor_charges", charge)
	if r := b.check(time.Now)["refunds"]; r.Violated != 0 {
		t.Errorf("the check reports %+v while the charge is being applied", r)
	}
	for when, change := range map[string]string{
		"the state is applied":     `update processor_charges set applied_number = 1`,
		"nothing has been applied": `update processor_charges set updated_at = now() - interval '11 minutes', applied_number = 0`,
	} {
		b.Exec(change)
		if r := b.check(time.Now)["refunds"]; r.Violated != 1 {
			t.Errorf("%s: the check reports %+v, want one violation", when, r)
		}
	}
}

func TestCheckAccounts_ReportsClockSkew(t *testing.T) {
	b := newCheckFixture(t)
	for name, skew := range map[string]time.Duration{"behind": -2 * time.Second, "ahead": 2 * time.Second} {
		for check, r := range b.check(func() time.Time { return time.Now().Add(skew) }) {
			if (r.Violated > 0) != (check == "clock") {
				t.Errorf("with a clock that is %s, check %s reports %+v, want violations only from check clock", name, check, r)
			}
		}
	}
}

func TestCheckAccounts_ListsTwentyViolationsAndCountsAll(t *testing.T) {
	b := newCheckFixture(t)
	for range 25 {
		b.Insert("list_counts", pgtest.Row{
			"workspace_id": b.Scope.Workspace, "program_id": affiliate.NewID[affiliate.ProgramID](b.Now()), "what": "links", "slot": 0, "n": 1,
		})
	}
	if r := b.check(time.Now)["list_counts"]; r.Violated != 25 || len(r.Violations) != 20 {
		t.Errorf("check list_counts counts %d violations and lists %d, want 25 and 20", r.Violated, len(r.Violations))
	}
}

// The checks must not wait for writers and must not see uncommitted changes.
func TestCheckAccounts_DoesNotWaitForWriters(t *testing.T) {
	b := newCheckFixture(t)
	tx, err := b.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, sql := range []string{
		`update commissions set amount_cents = 0`, `update ledger_balances set balance_cents = 0`, `delete from commission_counts`, `lock payouts in exclusive mode`,
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for name, r := range b.check(time.Now) {
		if r.Violated > 0 {
			t.Errorf("check %s reports the uncommitted changes: %+v", name, r)
		}
	}
}

// The checks must read one snapshot: they see either all or none of the rows of a
// transaction that commits while they run. A writer must be able to commit while the
// checks read the snapshot.
func TestCheckAccounts_ReadsOneSnapshot(t *testing.T) {
	b := newCheckFixture(t)
	done, sales := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { sales <- n }()
		for {
			select {
			case <-done:
				return
			default:
				c := b.sale(fmt.Sprint("order ", n), 1_000, "EUR")
				b.MoveCommission(c, commission.Transition{Move: commission.MoveReject})
				n++
			}
		}
	}()
	clockReads := 0
	// Run calls now while its snapshot is open. The sale that now records shows
	// that a writer can commit at this time.
	now := func() time.Time {
		if clockReads++; clockReads == 1 {
			b.sale("during the snapshot", 1_000, "EUR")
		}
		return time.Now()
	}
	for range 5 {
		for name, r := range b.check(now) {
			if r.Violated > 0 {
				t.Errorf("check %s reports %+v, want no violations", name, r)
			}
		}
	}
	close(done)
	if n := <-sales; n == 0 || clockReads == 0 {
		t.Errorf("%d sales were recorded and the clock was read %d times during the checks, want more than 0", n, clockReads)
	}
}
