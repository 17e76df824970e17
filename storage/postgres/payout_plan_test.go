package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// payoutFixture is a workspace with participants that have approved commissions. Tests
// can add other workspaces.
type payoutFixture struct {
	*pgtest.Fixture
	t       *testing.T
	scope   affiliate.Scope
	program affiliate.ProgramID
	user    affiliate.UserID
	now     time.Time
}

// newPayoutFixture stores the given number of participants. Each participant has the
// given numbers of approved and of paid commissions.
func newPayoutFixture(t *testing.T, participants, commissions, paid int) *payoutFixture {
	t.Helper()
	f := &payoutFixture{t: t, now: time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)}
	f.Fixture = pgtest.Open(t, func() time.Time { return f.now })
	f.user = affiliate.NewID[affiliate.User](f.now)
	f.scope, f.program = f.fill(participants, commissions, paid)
	return f
}

// fill creates a workspace with one programme and its participants.
func (f *payoutFixture) fill(participants, commissions, paid int) (affiliate.Scope, affiliate.ProgramID) {
	f.t.Helper()
	scope := affiliate.Scope{Workspace: f.NewWorkspace(), Mode: affiliate.ModeLive}
	program := f.NewProgram(scope)
	tx, err := f.SQL.Begin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	exec := func(sql string, args ...any) {
		f.t.Helper()
		if _, err := tx.Exec(f.t.Context(), sql, args...); err != nil {
			f.t.Fatalf("%s: %v", sql, err)
		}
	}
	// Disable foreign keys, so that no conversions are needed.
	exec(`set local session_replication_role = replica`)
	exec(`
		with u as (
			insert into users (id, kind, email, password_hash, name, created_at)
			select gen_random_uuid(), 'partner', gen_random_uuid() || '@example.com', 'x', 'Partner ' || n, $4 from generate_series(1, $5::integer) n
			returning id, name, email
		), m as (
			insert into payout_methods (user_id, method, updated_at) select id, 'manual', $4 from u
		)
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code,
			application_answers, applied_at, created_at, updated_at)
		select $1, gen_random_uuid(), $2, $3, id, name, email, 'approved', id::text, '{}', $4, $4, $4 from u`,
		scope.Workspace, program, scope.Mode, f.now, participants)
	exec(`
		insert into commissions (workspace_id, id, mode, program_id, participant_id, partner_id, conversion_id, decision_id,
			external_transaction_id, status, commission_type, event_type, rate_bps, amount_cents, original_amount_cents,
			currency, base_amount_cents, sale_amount_cents, sale_currency, needs_review, review_reasons, dispute_status,
			approved_at, rule_snapshot, version, created_at, updated_at)
		select t.workspace_id, gen_random_uuid(), t.mode, t.program_id, t.id, t.partner_id, gen_random_uuid(), gen_random_uuid(),
			'o', case when n > $3 then 'paid' else 'approved' end, 'percentage', 'purchase', 2000, n, n, 'EUR', n, n, 'EUR', false, '{}', 'none',
			$2::timestamptz - n * interval '1 minute', '{}', 1, $2::timestamptz - n * interval '1 minute', $2
		from participants t, generate_series(1, $3::integer + $4::integer) n where t.workspace_id = $1`, scope.Workspace, f.now, commissions, paid)
	exec(`
		insert into ledger_entries (workspace_id, id, mode, program_id, participant_id, partner_id, type, amount_cents, currency, commission_id, created_by, created_at)
		select workspace_id, gen_random_uuid(), mode, program_id, participant_id, partner_id, 'commission_approved', amount_cents, currency, id, 'system', approved_at
		from commissions where workspace_id = $1 and status = 'approved'`, scope.Workspace)
	exec(`
		insert into ledger_balances (workspace_id, participant_id, currency, slot, balance_cents)
		select workspace_id, participant_id, currency, 0, sum(amount_cents) from ledger_entries where workspace_id = $1 group by 1, 2, 3`, scope.Workspace)
	if err := tx.Commit(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	return scope, program
}

// batch creates a payout batch with all amounts that are due.
func (f *payoutFixture) batch() affiliate.PayoutBatch {
	f.t.Helper()
	request := affiliate.NewPayoutBatch{
		PayoutSelection: affiliate.PayoutSelection{Scope: f.scope, Cutoff: f.now}, By: affiliate.Actor{User: &f.user}, At: f.now,
	}
	var b affiliate.PayoutBatch
	err := f.Store.InTx(f.t.Context(), func(tx *postgres.Tx) error {
		candidates, err := tx.PayoutsDue(f.t.Context(), request.PayoutSelection)
		if err != nil {
			return err
		}
		due, unassigned, err := tx.LockPayoutsDue(f.t.Context(), request.PayoutSelection, affiliate.BatchParticipants(candidates))
		if err != nil {
			return err
		}
		draft, err := request.Draft(due, unassigned)
		if err != nil {
			return err
		}
		b, err = tx.InsertPayoutBatch(f.t.Context(), draft, request.By)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return b
}

func (f *payoutFixture) plan(sql string, args ...any) string {
	f.t.Helper()
	rows, _ := f.SQL.Query(f.t.Context(), "explain (costs off) "+sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.t.Fatalf("explain %s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}

func TestPayoutStatements_UseIndexes(t *testing.T) {
	t.Parallel()
	f := newPayoutFixture(t, 200, 4, 40)
	for range 2 {
		f.fill(400, 4, 40)
	}
	var participant affiliate.ParticipantID
	var partner affiliate.UserID
	if err := f.SQL.QueryRow(t.Context(), `select id, partner_id from participants where workspace_id = $1 limit 1`, f.scope.Workspace).Scan(&participant, &partner); err != nil {
		t.Fatal(err)
	}
	b := f.batch()
	// Add old payouts and batches of all workspaces.
	f.Exec(`set session_replication_role = replica`)
	for range 4 {
		f.Exec(`
			insert into payouts (workspace_id, id, batch_id, mode, program_id, participant_id, partner_id, amount_cents, currency, commission_count,
				adjustment_cents, status, method, initiated_at, created_at, updated_at)
			select workspace_id, gen_random_uuid(), gen_random_uuid(), mode, program_id, id, partner_id, 1, 'EUR', 0, 0, 'paid', 'manual', $1,
				$1::timestamptz - random() * interval '100 days', $1
			from participants, generate_series(1, 4)`, f.now)
	}
	f.Exec(`
		insert into payout_batches (workspace_id, id, mode, status, program_ids, cutoff, created_by, created_at)
		select id, gen_random_uuid(), 'live', 'completed', '{}', $1, gen_random_uuid(), $1::timestamptz - n * interval '1 hour' from workspaces, generate_series(1, 2000) n`, f.now)
	f.VacuumAnalyze()
	payouts := []affiliate.PayoutID{}
	if err := f.SQL.QueryRow(t.Context(), `select array_agg(id) from (select id from payouts where batch_id = $1 limit 3) p`, b.ID).Scan(&payouts); err != nil {
		t.Fatal(err)
	}

	of := affiliate.PayoutSelection{Scope: f.scope, Cutoff: f.now}
	scans := []string{"Seq Scan on commissions", "Seq Scan on payouts", "Seq Scan on ledger_entries", "Seq Scan on payout_commissions"}
	check := func(what, explained string, want ...string) {
		t.Helper()
		flat := inOneLine(explained)
		for _, part := range want {
			if !strings.Contains(flat, part) {
				t.Errorf("%s: the plan does not contain %q\n%s", what, part, explained)
			}
		}
		for _, part := range scans {
			if strings.Contains(flat, part) {
				t.Errorf("%s: the plan contains %q\n%s", what, part, explained)
			}
		}
	}
	check("amounts due to all participants", f.plan(postgres.SelectPayoutsDueSQL, postgres.DueArgs(of, nil)),
		"commissions_payable", "commissions_unpaid", "payouts_by_status")
	check("amounts due to one participant", f.plan(postgres.SelectPayoutsDueSQL, postgres.DueArgs(of, []affiliate.ParticipantID{participant})),
		"commissions_payable", "commissions_unpaid", "ledger_balances_pkey")
	check("unassigned commissions", f.plan(postgres.LockUnassignedSQL, postgres.UnassignedArgs(f.scope, []affiliate.ParticipantID{participant}, f.now)), "commissions_unpaid")
	check("assigned commissions", f.plan(postgres.LockAssignedSQL, postgres.HeldArgs(f.scope, payouts[:1], f.now)), "commissions_by_payout")
	check("released commissions", f.plan(postgres.LockReleasedSQL, postgres.HeldArgs(f.scope, payouts[:1], f.now)), "payout_commissions_pkey", "commissions_pkey")
	check("counts of batches", f.plan(postgres.SumBatchesSQL, f.scope.Workspace, f.scope.Mode, []affiliate.PayoutBatchID{affiliate.NewID[affiliate.PayoutBatch](f.now)}), "payouts_by_batch")
	check("payout statuses of a batch", f.plan(postgres.SelectPayoutStatusesSQL, f.scope.Workspace, f.scope.Mode, b.ID, postgres.PayoutStatuses()),
		"Limit -> Index Scan using payouts_by_batch", "AND (batch_id = '"+b.ID.String()+"'::uuid) AND (status = s.status)")
	check("batches", f.plan(postgres.SelectBatchesSQL, f.scope.Workspace, f.scope.Mode, "", 20, 0), "Limit -> Index Scan using payout_batches_by_age")
	check("ledger balances of a partner", f.plan(postgres.PartnerLedgerBalancesSQL, partner, f.scope.Mode, nil), "participants_by_partner", "ledger_balances_pkey")
	check("balances of a partner", f.plan(postgres.PartnerBalancesSQL, partner, f.scope.Mode), "participants_by_partner", "ledger_balances_pkey", "commissions_by_partner_status")

	check("number of batches", f.plan(postgres.CountBatchesSQL, f.scope.Workspace, f.scope.Mode, ""), "Limit -> Index Only Scan using payout_batches_by_age")

	day := f.now.AddDate(0, 0, -1)
	for what, c := range map[string]struct {
		partner affiliate.UserID
		filter  affiliate.PayoutFilter
		index   string // index that the plan of the page must use
		total   string // text that the plan of the total must contain
	}{
		"payouts":        {index: "payouts_by_age", total: "Limit -> Index Only Scan using payouts_by_"},
		"of a status":    {filter: affiliate.PayoutFilter{Status: affiliate.PayoutDraft}, index: "payouts_by_status", total: "Limit -> Index Only Scan using payouts_by_status"},
		"of a programme": {filter: affiliate.PayoutFilter{Program: &f.program}, index: "payouts_by_", total: "Limit -> Index Only Scan using payouts_by_program"},
		"of a period":    {filter: affiliate.PayoutFilter{Created: affiliate.Period{From: &day}}, index: "payouts_by_age", total: "Limit -> Index Only Scan using payouts_by_age"},
		// The indexes of the following lists do not contain all columns of the condition,
		// so the plan of the total has a filter.
		"of a participant": {filter: affiliate.PayoutFilter{Participant: &participant}, index: "payouts_by_participant", total: "payouts_by_participant"},
		"of a batch":       {filter: affiliate.PayoutFilter{Batch: &affiliate.PayoutBatchID{}}, index: "payouts_by_batch", total: "payouts_by_batch"},
		"of a partner":     {partner: partner, index: "payouts_by_partner", total: "payouts_by_partner"},
	} {
		page, count, args := postgres.PayoutListSQL(f.scope, c.partner, c.filter)
		check(what, f.plan(page, append(args, 20, 0)...), "Limit", c.index)
		check(what+", total", f.plan(count, args...), "Limit", c.total)
	}
	page, count, args := postgres.LedgerListSQL(f.scope, participant, affiliate.UserID{})
	check("ledger of a participant", f.plan(page, append(args, 20, 0)...), "Limit", "ledger_entries_by_participant")
	check("ledger of a participant, total", f.plan(count, args...), "Limit -> Index Only Scan using ledger_entries_by_participant")
	page, count, args = postgres.LedgerListSQL(f.scope, participant, partner)
	check("ledger of a partner", f.plan(page, append(args, 20, 0)...), "Limit", "ledger_entries_by_partner")
	check("ledger of a partner, total", f.plan(count, args...), "Limit -> Index Only Scan using ledger_entries_by_partner")
}

// The store processes the payouts, commissions and events of a large batch in several
// chunks. It must create, confirm and send all of them.
func TestPayoutBatch_LargeBatchIsComplete(t *testing.T) {
	t.Parallel()
	f := newPayoutFixture(t, 600, 18, 0)
	f.Exec(insertFullSubscription, f.scope.Workspace, f.scope.Mode, f.now)
	b := f.batch()
	by := affiliate.Actor{User: &f.user}
	b, err := f.Store.ConfirmPayoutBatch(t.Context(), f.scope, b.ID, f.now, by)
	if err != nil || b.Counts[affiliate.PayoutPending] != 600 || b.Totals[0].AmountCents != 600*18*19/2 {
		t.Fatalf("ConfirmPayoutBatch returned %+v, %v, want 600 pending payouts", b, err)
	}
	if err := f.Store.SendPayouts(t.Context(), f.scope, b.ID, nil, f.now, by); err != nil {
		t.Fatal(err)
	}
	for what, sql := range map[string]string{
		"payouts with all commissions": `select count(*) / 18 from commissions c join payout_commissions h on h.commission_id = c.id and h.payout_id = c.payout_id`,
		"ledger entries":               `select count(*) from ledger_entries where type = 'payout'`,
		"balances of 0":                `select count(*) from (select 1 from ledger_balances group by participant_id having sum(balance_cents) = 0) b`,
		"created events":               `select count(*) from events where type = 'payout.created'`,
		"processing events":            `select count(*) from events where type = 'payout.processing'`,
		"payouts with two deliveries":  `select count(*) / 2 from webhook_deliveries d join events e on e.id = d.event_id`,
		"processing payouts":           `select count(*) from payouts where status = 'processing' and commission_count = 18 and version = 3`,
	} {
		if n := f.Count(sql); n != 600 {
			t.Errorf("the number of %s is %d, want 600", what, n)
		}
	}
}

// The role of the service must not be able to change or delete ledger entries.
func TestLedgerEntries_AreAppendOnly(t *testing.T) {
	f := newPayoutFixture(t, 1, 1, 0)
	conn, err := pgx.Connect(t.Context(), f.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), `set role tributary_app`); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`update ledger_entries set amount_cents = 0`, `delete from ledger_entries`, `truncate ledger_entries`} {
		_, err := conn.Exec(t.Context(), sql)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "42501" {
			t.Errorf("%s returned %v, want the error code 42501 (insufficient_privilege)", sql, err)
		}
	}
}
