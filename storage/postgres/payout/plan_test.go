package payout_test

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
	partners "github.com/tributary-hq/tributary/storage/postgres/partner"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// batch creates a payout batch with all amounts that are due.
func (f *fixture) batch() payout.Batch {
	f.Helper()
	selection := payout.Selection{Scope: f.Scope, Cutoff: f.Now(), At: f.Now()}
	var b payout.Batch
	err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error {
		due, err := payouts.Due(f.Context(), tx, selection)
		if err != nil {
			return err
		}
		unassigned, err := payouts.LockUnassigned(f.Context(), tx, f.Scope, payout.BatchParticipants(due), f.Now())
		if err != nil {
			return err
		}
		draft, err := selection.Draft(due, unassigned, pgtest.By(f.Owner))
		if err != nil {
			return err
		}
		b = draft.Batch
		return payouts.Insert(f.Context(), tx, draft)
	})
	if err != nil {
		f.Fatal(err)
	}
	return b
}

func TestPayoutStatements_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	f.FillWithCommissions(100, 4, 40)
	for range 2 {
		f.NewShop(affiliate.ModeLive).FillWithCommissions(200, 4, 40)
	}
	p := f.AnyParticipant()
	participant, partner := p.ID, p.Partner
	b := f.batch()
	// Add old payouts and batches of all workspaces.
	for range 4 {
		f.ExecWithoutForeignKeys(`
			insert into payouts (workspace_id, id, batch_id, mode, program_id, participant_id, partner_id, amount_cents, currency, commission_count,
				adjustment_cents, status, method, reference, initiated_at, created_at, updated_at)
			select workspace_id, gen_random_uuid(), gen_random_uuid(), mode, program_id, id, partner_id, 1, 'EUR', 0, 0, 'paid', 'manual', 'SEPA-' || id, $1,
				$1::timestamptz - random() * interval '100 days', $1
			from participants, generate_series(1, 4)`, f.Now())
	}
	f.ExecWithoutForeignKeys(`
		insert into payout_batches (workspace_id, id, mode, status, program_ids, cutoff, created_by, created_at, confirmed_at)
		select id, gen_random_uuid(), 'live', 'completed', '{}', $1, gen_random_uuid(), at, at
		from workspaces, generate_series(1, 2000) n, lateral (select $1::timestamptz - n * interval '1 hour' as at) t`, f.Now())
	f.VacuumAnalyze()
	held := []affiliate.PayoutID{}
	if err := f.SQL.QueryRow(t.Context(), `select array_agg(id) from (select id from payouts where batch_id = $1 limit 3) p`, b.ID).Scan(&held); err != nil {
		t.Fatal(err)
	}

	selection := payout.Selection{Scope: f.Scope, Cutoff: f.Now(), At: f.Now()}
	check := func(what, plan string, want ...string) {
		t.Helper()
		pgtest.CheckPlan(t, what, plan, want, pgtest.ScansOf("commissions", "payouts", "ledger_entries", "payout_commissions"))
	}
	check("amounts due to all participants", f.Plan(payouts.SelectPayoutsDueSQL, payouts.DueArgs(selection, nil)),
		"commissions_payable", "commissions_unpaid", "payouts_by_status")
	check("amounts due to one participant", f.Plan(payouts.SelectPayoutsDueSQL, payouts.DueArgs(selection, []affiliate.ParticipantID{participant})),
		"commissions_payable", "commissions_unpaid", "ledger_balances_pkey")
	check("unassigned commissions", f.Plan(payouts.LockUnassignedSQL, payouts.UnassignedArgs(f.Scope, []affiliate.ParticipantID{participant}, f.Now())), "commissions_unpaid")
	check("assigned commissions", f.Plan(payouts.LockAssignedSQL, payouts.HeldArgs(f.Scope, held[:1], f.Now())), "commissions_by_payout")
	check("released commissions", f.Plan(payouts.LockReleasedSQL, payouts.HeldArgs(f.Scope, held[:1], f.Now())), "payout_commissions_pkey", "commissions_pkey")
	check("counts of batches", f.Plan(payouts.SumBatchesSQL, f.Scope.Workspace, f.Scope.Mode, []payout.BatchID{affiliate.NewID[payout.BatchID](f.Now())}), "payouts_by_batch")
	check("batches confirmed in 24 hours", f.Plan(payouts.SumConfirmedSQL, f.Scope.Workspace, f.Scope.Mode, f.Now().Add(-payout.ConfirmationWindow)),
		"payout_batches_confirmed", "payouts_by_batch")
	check("money owed to a partner", f.Plan(payouts.IsOwedSQL, partner), "participants_by_partner", "ledger_balances_pkey", "commissions_by_partner_status")
	check("payout statuses of a batch", f.Plan(payouts.SelectPayoutStatusesSQL, f.Scope.Workspace, f.Scope.Mode, b.ID, payouts.PayoutStatuses()),
		"Limit -> Index Scan using payouts_by_batch", "AND (batch_id = '"+b.ID.String()+"'::uuid) AND (status = s.status)")
	check("batches", f.Plan(payouts.SelectBatchesSQL, f.Scope.Workspace, f.Scope.Mode, "", 20, 0), "Limit -> Index Scan using payout_batches_by_age")
	balances := f.PlansOf(func(db *postgres.DB) error {
		_, err := partners.Balances(t.Context(), db, partner, f.Scope.Mode, f.Now())
		return err
	})
	check("balances of a partner", balances[0], "participants_by_partner", "ledger_balances_pkey", "commissions_by_partner_status")
	check("totals of an export", f.Plan(payouts.CountExportSQL, f.Scope.Workspace, f.Scope.Mode, b.ID, "paypal"), "payouts_by_batch")
	check("part of an export", f.Plan(payouts.SelectExportSQL, f.Scope.Workspace, f.Scope.Mode, b.ID, "paypal", "EUR", 0, 5000), "payouts_by_batch")
	check("accounts to delete", f.Plan(payouts.DeletePayoutAccountsSQL, f.Now(), 1000), "Limit -> Index Scan using payouts_account_kept")
	check("names to delete", f.Plan(payouts.DeletePayeeNamesSQL, f.Now(), 1000), "Index Scan using payouts_payee_name")
	check("payout of a partner", f.Plan(payouts.PayoutOfPartnerSQL, partner, f.Scope.Mode, held[0]), "payouts_by_partner")
	check("number of batches", f.Plan(payouts.CountBatchesSQL, f.Scope.Workspace, f.Scope.Mode, ""), "Limit -> Index Only Scan using payout_batches_by_age")

	f.CheckSearchPlan(func(db *postgres.DB) ([]affiliate.Hit, error) {
		return payouts.Search(t.Context(), db, f.Scope, "sepa")
	}, "payouts_by_reference", "payouts_pkey")
	day := f.Now().AddDate(0, 0, -1)
	for what, c := range map[string]struct {
		partner affiliate.UserID
		filter  payout.Filter
		index   string // index that the plan of the page must use
		total   string // text that the plan of the total must contain
	}{
		"payouts":                {index: "payouts_by_age", total: "Limit -> Index Only Scan using payouts_by_"},
		"payouts of a status":    {filter: payout.Filter{Status: payout.Draft}, index: "payouts_by_status", total: "Limit -> Index Only Scan using payouts_by_status"},
		"payouts of a programme": {filter: payout.Filter{Program: &f.Program}, index: "payouts_by_", total: "Limit -> Index Only Scan using payouts_by_program"},
		"payouts of a period":    {filter: payout.Filter{Created: affiliate.Period{From: &day}}, index: "payouts_by_age", total: "Limit -> Index Only Scan using payouts_by_age"},
		// The indexes of the following lists do not contain all columns of the condition,
		// so the plan of the total has a filter.
		"payouts of a participant": {filter: payout.Filter{Participant: &participant}, index: "payouts_by_participant", total: "payouts_by_participant"},
		"payouts of a batch":       {filter: payout.Filter{Batch: &payout.BatchID{}}, index: "payouts_by_batch", total: "payouts_by_batch"},
		"payouts of a partner":     {partner: partner, index: "payouts_by_partner", total: "payouts_by_partner"},
	} {
		page, count, args := payouts.PayoutListSQL(f.Scope, c.partner, c.filter)
		check(what, f.Plan(page, append(args, 20, 0)...), "Limit", c.index)
		check(what+", total", f.Plan(count, args...), "Limit", c.total)
	}
}
