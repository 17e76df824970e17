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

// payoutWorld is a workspace with partners that have approved commissions. The database
// has other workspaces too.
type payoutWorld struct {
	*pgtest.Fixture
	t       *testing.T
	scope   affiliate.Scope
	program affiliate.ProgramID
	user    affiliate.UserID
	now     time.Time
}

// newPayoutWorld stores participants, each with the given numbers of approved and of
// paid commissions.
func newPayoutWorld(t *testing.T, participants, commissions, paid int) *payoutWorld {
	t.Helper()
	w := &payoutWorld{t: t, now: time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)}
	w.Fixture = pgtest.Open(t, func() time.Time { return w.now })
	w.user = affiliate.NewID[affiliate.User](w.now)
	w.scope, w.program = w.fill(participants, commissions, paid)
	return w
}

func (w *payoutWorld) fill(participants, commissions, paid int) (affiliate.Scope, affiliate.ProgramID) {
	w.t.Helper()
	scope := affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeLive}
	program := w.NewProgram(scope)
	tx, err := w.SQL.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	exec := func(sql string, args ...any) {
		w.t.Helper()
		if _, err := tx.Exec(w.t.Context(), sql, args...); err != nil {
			w.t.Fatalf("%s: %v", sql, err)
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
		scope.Workspace, program, scope.Mode, w.now, participants)
	exec(`
		insert into commissions (workspace_id, id, mode, program_id, participant_id, partner_id, conversion_id, decision_id,
			external_transaction_id, status, commission_type, event_type, rate_bps, amount_cents, original_amount_cents,
			currency, base_amount_cents, sale_amount_cents, sale_currency, needs_review, review_reasons, dispute_status,
			approved_at, rule_snapshot, version, created_at, updated_at)
		select t.workspace_id, gen_random_uuid(), t.mode, t.program_id, t.id, t.partner_id, gen_random_uuid(), gen_random_uuid(),
			'o', case when n > $3 then 'paid' else 'approved' end, 'percentage', 'purchase', 2000, n, n, 'EUR', n, n, 'EUR', false, '{}', 'none',
			$2::timestamptz - n * interval '1 minute', '{}', 1, $2::timestamptz - n * interval '1 minute', $2
		from participants t, generate_series(1, $3::integer + $4::integer) n where t.workspace_id = $1`, scope.Workspace, w.now, commissions, paid)
	exec(`
		insert into ledger_entries (workspace_id, id, mode, program_id, participant_id, partner_id, type, amount_cents, currency, commission_id, created_by, created_at)
		select workspace_id, gen_random_uuid(), mode, program_id, participant_id, partner_id, 'commission_approved', amount_cents, currency, id, 'system', approved_at
		from commissions where workspace_id = $1 and status = 'approved'`, scope.Workspace)
	exec(`
		insert into ledger_balances (workspace_id, participant_id, currency, slot, balance_cents)
		select workspace_id, participant_id, currency, 0, sum(amount_cents) from ledger_entries where workspace_id = $1 group by 1, 2, 3`, scope.Workspace)
	if err := tx.Commit(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return scope, program
}

// batch creates a batch of all amounts due.
func (w *payoutWorld) batch() affiliate.PayoutBatch {
	w.t.Helper()
	request := affiliate.NewPayoutBatch{
		PayoutSelection: affiliate.PayoutSelection{Scope: w.scope, Cutoff: w.now}, By: affiliate.Actor{User: &w.user}, At: w.now,
	}
	var b affiliate.PayoutBatch
	err := w.Store.InTx(w.t.Context(), func(tx *postgres.Tx) error {
		candidates, err := tx.PayoutsDue(w.t.Context(), request.PayoutSelection)
		if err != nil {
			return err
		}
		due, unassigned, err := tx.LockPayoutsDue(w.t.Context(), request.PayoutSelection, affiliate.BatchParticipants(candidates))
		if err != nil {
			return err
		}
		draft, err := request.Draft(due, unassigned)
		if err != nil {
			return err
		}
		b, err = tx.InsertPayoutBatch(w.t.Context(), draft, request.By)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *payoutWorld) plan(sql string, args ...any) string {
	w.t.Helper()
	rows, _ := w.SQL.Query(w.t.Context(), "explain (costs off) "+sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatalf("explain %s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}

func TestPayoutStatements_UseIndexes(t *testing.T) {
	t.Parallel()
	w := newPayoutWorld(t, 200, 4, 40)
	for range 2 {
		w.fill(400, 4, 40)
	}
	var one affiliate.ParticipantID
	var partner affiliate.UserID
	if err := w.SQL.QueryRow(t.Context(), `select id, partner_id from participants where workspace_id = $1 limit 1`, w.scope.Workspace).Scan(&one, &partner); err != nil {
		t.Fatal(err)
	}
	b := w.batch()
	// Old batches of other workspaces.
	w.Exec(`set session_replication_role = replica`)
	for range 4 {
		w.Exec(`
			insert into payouts (workspace_id, id, batch_id, mode, program_id, participant_id, partner_id, amount_cents, currency, commission_count,
				adjustment_cents, status, method, initiated_at, created_at, updated_at)
			select workspace_id, gen_random_uuid(), gen_random_uuid(), mode, program_id, id, partner_id, 1, 'EUR', 0, 0, 'paid', 'manual', $1,
				$1::timestamptz - random() * interval '100 days', $1
			from participants, generate_series(1, 4)`, w.now)
	}
	w.Exec(`
		insert into payout_batches (workspace_id, id, mode, status, program_ids, cutoff, created_by, created_at)
		select id, gen_random_uuid(), 'live', 'completed', '{}', $1, gen_random_uuid(), $1::timestamptz - n * interval '1 hour' from workspaces, generate_series(1, 2000) n`, w.now)
	w.VacuumAnalyze()
	payouts := []affiliate.PayoutID{}
	if err := w.SQL.QueryRow(t.Context(), `select array_agg(id) from (select id from payouts where batch_id = $1 limit 3) p`, b.ID).Scan(&payouts); err != nil {
		t.Fatal(err)
	}

	of := affiliate.PayoutSelection{Scope: w.scope, Cutoff: w.now}
	scans := []string{"Seq Scan on commissions", "Seq Scan on payouts", "Seq Scan on ledger_entries", "Seq Scan on payout_commissions"}
	check := func(what, explained string, want ...string) {
		t.Helper()
		flat := inOneLine(explained)
		for _, part := range want {
			if !strings.Contains(flat, part) {
				t.Errorf("%s: no %q in\n%s", what, part, explained)
			}
		}
		for _, part := range scans {
			if strings.Contains(flat, part) {
				t.Errorf("%s: %q in\n%s", what, part, explained)
			}
		}
	}
	check("amounts due to all participants", w.plan(postgres.SelectPayoutsDueSQL, postgres.DueArgs(of, nil)),
		"commissions_payable", "commissions_unpaid", "payouts_by_status")
	check("amounts due to one participant", w.plan(postgres.SelectPayoutsDueSQL, postgres.DueArgs(of, []affiliate.ParticipantID{one})),
		"commissions_payable", "commissions_unpaid", "ledger_balances_pkey")
	check("unassigned commissions", w.plan(postgres.LockUnassignedSQL, postgres.UnassignedArgs(w.scope, []affiliate.ParticipantID{one}, w.now)), "commissions_unpaid")
	check("assigned commissions", w.plan(postgres.LockAssignedSQL, postgres.HeldArgs(w.scope, payouts[:1], w.now)), "commissions_by_payout")
	check("released commissions", w.plan(postgres.LockReleasedSQL, postgres.HeldArgs(w.scope, payouts[:1], w.now)), "payout_commissions_pkey", "commissions_pkey")
	check("counts of batches", w.plan(postgres.SumBatchesSQL, w.scope.Workspace, w.scope.Mode, []affiliate.PayoutBatchID{affiliate.NewID[affiliate.PayoutBatch](w.now)}), "payouts_by_batch")
	check("payout statuses of a batch", w.plan(postgres.SelectPayoutStatusesSQL, w.scope.Workspace, w.scope.Mode, b.ID, postgres.PayoutStatuses()),
		"Limit -> Index Scan using payouts_by_batch", "AND (batch_id = '"+b.ID.String()+"'::uuid) AND (status = s.status)")
	check("batches", w.plan(postgres.SelectBatchesSQL, w.scope.Workspace, w.scope.Mode, "", 20, 0), "Limit -> Index Scan using payout_batches_by_age")
	check("a partner's balances", w.plan(postgres.PartnerLedgerBalancesSQL, partner, w.scope.Mode, nil), "participants_by_partner", "ledger_balances_pkey")
	check("a partner's sums", w.plan(postgres.PartnerBalancesSQL, partner, w.scope.Mode), "participants_by_partner", "ledger_balances_pkey", "commissions_by_partner_status")

	check("number of batches", w.plan(postgres.CountBatchesSQL, w.scope.Workspace, w.scope.Mode, ""), "Limit -> Index Only Scan using payout_batches_by_age")

	day := w.now.AddDate(0, 0, -1)
	for what, c := range map[string]struct {
		partner affiliate.UserID
		filter  affiliate.PayoutFilter
		index   string
		total   string
	}{
		"payouts":        {index: "payouts_by_age", total: "Limit -> Index Only Scan using payouts_by_"},
		"of a status":    {filter: affiliate.PayoutFilter{Status: affiliate.PayoutDraft}, index: "payouts_by_status", total: "Limit -> Index Only Scan using payouts_by_status"},
		"of a programme": {filter: affiliate.PayoutFilter{Program: &w.program}, index: "payouts_by_", total: "Limit -> Index Only Scan using payouts_by_program"},
		"of a period":    {filter: affiliate.PayoutFilter{Created: affiliate.Period{From: &day}}, index: "payouts_by_age", total: "Limit -> Index Only Scan using payouts_by_age"},
		// These filter the rows of their index by mode or confirmation.
		"of a participant": {filter: affiliate.PayoutFilter{Participant: &one}, index: "payouts_by_participant", total: "payouts_by_participant"},
		"of a batch":       {filter: affiliate.PayoutFilter{Batch: &affiliate.PayoutBatchID{}}, index: "payouts_by_batch", total: "payouts_by_batch"},
		"of a partner":     {partner: partner, index: "payouts_by_partner", total: "payouts_by_partner"},
	} {
		page, count, args := postgres.PayoutListSQL(w.scope, c.partner, c.filter)
		check(what, w.plan(page, append(args, 20, 0)...), "Limit", c.index)
		check(what+", total", w.plan(count, args...), "Limit", c.total)
	}
	page, count, args := postgres.LedgerListSQL(w.scope, one, affiliate.UserID{})
	check("a participant's ledger", w.plan(page, append(args, 20, 0)...), "Limit", "ledger_entries_by_participant")
	check("a participant's ledger, total", w.plan(count, args...), "Limit -> Index Only Scan using ledger_entries_by_participant")
	page, count, args = postgres.LedgerListSQL(w.scope, one, partner)
	check("a partner's ledger", w.plan(page, append(args, 20, 0)...), "Limit", "ledger_entries_by_partner")
	check("a partner's ledger, total", w.plan(count, args...), "Limit -> Index Only Scan using ledger_entries_by_partner")
}

// A batch with more than one chunk of payouts, commissions and events is created,
// confirmed and sent completely.
func TestPayoutBatch_LargeBatchIsComplete(t *testing.T) {
	t.Parallel()
	w := newPayoutWorld(t, 600, 18, 0)
	w.Exec(insertFullSubscription, w.scope.Workspace, w.scope.Mode, w.now)
	b := w.batch()
	by := affiliate.Actor{User: &w.user}
	b, err := w.Store.ConfirmPayoutBatch(t.Context(), w.scope, b.ID, w.now, by)
	if err != nil || b.Counts[affiliate.PayoutPending] != 600 || b.Totals[0].AmountCents != 600*18*19/2 {
		t.Fatalf("%+v, %v", b, err)
	}
	if err := w.Store.SendPayouts(t.Context(), w.scope, b.ID, nil, w.now, by); err != nil {
		t.Fatal(err)
	}
	for what, sql := range map[string]string{
		"held commissions":   `select count(*) / 18 from commissions c join payout_commissions h on h.commission_id = c.id and h.payout_id = c.payout_id`,
		"entries":            `select count(*) from ledger_entries where type = 'payout'`,
		"settled balances":   `select count(*) from (select 1 from ledger_balances group by participant_id having sum(balance_cents) = 0) b`,
		"created events":     `select count(*) from events where type = 'payout.created'`,
		"processing events":  `select count(*) from events where type = 'payout.processing'`,
		"delivered events":   `select count(*) / 2 from webhook_deliveries d join events e on e.id = d.event_id`,
		"processing payouts": `select count(*) from payouts where status = 'processing' and commission_count = 18 and version = 3`,
	} {
		if n := w.Count(sql); n != 600 {
			t.Errorf("%s: %d", what, n)
		}
	}
}

// The service's role cannot change or delete ledger entries.
func TestLedgerEntries_AreAppendOnly(t *testing.T) {
	w := newPayoutWorld(t, 1, 1, 0)
	conn, err := pgx.Connect(t.Context(), w.URL)
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
			t.Errorf("%s: %v", sql, err)
		}
	}
}
