package testmode

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// scanned are the tables whose rows are found by the workspace alone. They have few rows in
// a workspace.
var scanned = []string{"awaited_clicks", "stats_deltas", "participant_invites"}

// Every statement finds its rows with an index whose condition has the workspace, and with
// the mode, a programme or a participant. A workspace with much live data and much test data
// is among others of the same size.
func TestSteps_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := pgtest.Open(t, time.Now)
	shop := f.NewShop(affiliate.ModeTest)
	for _, s := range []*pgtest.Shop{shop, shop.InOtherMode(), f.NewShop(affiliate.ModeTest), f.NewShop(affiliate.ModeLive)} {
		fill(f, s)
		fillMore(f, s)
	}
	f.VacuumAnalyze()
	for _, s := range steps {
		plan := f.PlanWith(indexPlans, s.sql, pgx.NamedArgs{"workspace": shop.Scope.Workspace, "limit": 1_000})
		checkPlan(t, s.table, plan)
		if !strings.Contains(plan, "Limit") {
			t.Errorf("%s: the statement has no limit\n%s", s.table, plan)
		}
		if !slices.Contains(scanned, s.table) && !modeCondition.MatchString(plan) {
			t.Errorf("%s: no condition of an index names the mode\n%s", s.table, plan)
		}
	}
	for name, statement := range map[string]struct {
		sql  string
		args []any
	}{
		"count":                  {countRecords, []any{pgx.NamedArgs{"workspace": shop.Scope.Workspace, "limit": 5_001}}},
		"clicks":                 {countClicks, []any{pgx.NamedArgs{"workspace": shop.Scope.Workspace, "inspected": 1_000}}},
		"page of clicks":         {clickPage, []any{shop.Scope.Workspace, affiliate.ClickID{}, 1_000}},
		"deletion of clicks":     {deleteClicks, []any{shop.Scope.Workspace, day.AddDate(0, 0, -1), day, uuids(make([]affiliate.ClickID, 100))}},
		"page of events":         {eventPage, []any{shop.Scope.Workspace, affiliate.EventID{}, 1_000}},
		"deletion of events":     {deleteEvents, []any{shop.Scope.Workspace, uuids(make([]affiliate.EventID, 100))}},
		"codes":                  {referralCodes, []any{shop.Scope.Workspace, "", 1_000}},
		"archive":                {archivePrograms, []any{pgx.NamedArgs{"workspace": shop.Scope.Workspace, "limit": 500, "at": time.Now()}}},
		"open programmes":        {hasOpenPrograms, []any{shop.Scope.Workspace}},
		"active promotion codes": {activePromotionCodes, []any{shop.Scope.Workspace, 100}},
	} {
		plan := f.PlanWith(indexPlans, statement.sql, statement.args...)
		checkPlan(t, name, plan)
		if name == "page of clicks" && (!strings.Contains(plan, "Merge Append") || strings.Contains(plan, "Sort\n")) {
			t.Errorf("%s: the clicks are not read in the order of the index\n%s", name, plan)
		}
		if strings.HasPrefix(name, "deletion") && !idCondition.MatchString(plan) {
			t.Errorf("%s: the index is not searched for each id\n%s", name, plan)
		}
		if name == "deletion of clicks" && strings.Count(plan, " on clicks_") > 3 {
			t.Errorf("%s: more than the partition of one day is searched\n%s", name, plan)
		}
	}
}

// modeCondition matches a condition with which an index finds rows of test mode. Some
// statements search endpoints, which are few, and the notification log, all of whose entries
// are deleted.
var modeCondition = regexp.MustCompile(`Cond: .*mode = 'test'|using (programs_\w+|mails_log|mails_test|webhook_endpoints_\w+) on`)

// idCondition matches the condition of an index for one id of a list.
var idCondition = regexp.MustCompile(`Index Cond: .*\(id = x\.id\)`)

// checkPlan reports an error if a statement reads a whole table or sorts more than the rows
// that it needs.
func checkPlan(t *testing.T, name, plan string) {
	t.Helper()
	for _, forbidden := range []string{"Seq Scan", "Bitmap", "Hash Join", "Merge Join"} {
		if strings.Contains(plan, forbidden) {
			t.Errorf("%s: the plan contains %q\n%s", name, forbidden, plan)
		}
	}
	for _, line := range strings.Split(plan, "\n") {
		if strings.Contains(line, "Index Cond: ") && !strings.Contains(line, "workspace_id") && !strings.Contains(line, "feed_id") &&
			!strings.Contains(line, "user_id") {
			t.Errorf("%s: a condition does not name the workspace: %s\n%s", name, line, plan)
		}
	}
}

var day = time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)

// fill inserts rows into the tables that can be large.
func fill(f *pgtest.Fixture, s *pgtest.Shop) {
	f.Helper()
	const participants = 300
	if _, err := postgres.EnsureClickPartitions(f.Context(), f.DB, day.AddDate(0, 0, -6), day); err != nil {
		f.Fatal(err)
	}
	endpoint := s.NewEndpoint(s.Scope)
	w, mode, program := s.Scope.Workspace, s.Scope.Mode, s.Program
	f.ExecWithoutForeignKeys(`
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code, application_answers, applied_at, created_at, updated_at)
		select $1, gen_random_uuid(), $3, $2, gen_random_uuid(), n::text, n::text, 'approved', n::text, '{}', $4, $4, $4 from generate_series(1, $5::int) n`,
		w, mode, program, f.Now(), participants)
	f.ExecWithoutForeignKeys(`
		insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, is_default, created_at, updated_at)
		select workspace_id, gen_random_uuid(), program_id, id, mode, referral_code, id::text, true, created_at, created_at from participants where workspace_id = $1 and mode = $2`, w, mode)
	f.ExecWithoutForeignKeys(`
		insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		select workspace_id, mode, code, program_id, participant_id, id, created_at from links where workspace_id = $1 and mode = $2`, w, mode)
	f.Exec(`insert into link_totals (workspace_id, link_id) select workspace_id, id from links where workspace_id = $1 and mode = $2`, w, mode)
	f.Exec(`insert into participant_totals (workspace_id, participant_id, program_id) select workspace_id, id, program_id from participants where workspace_id = $1 and mode = $2`, w, mode)
	f.ExecWithoutForeignKeys(`
		insert into ledger_entries (workspace_id, id, mode, program_id, participant_id, partner_id, type, amount_cents, currency, created_by, created_at)
		select workspace_id, gen_random_uuid(), mode, program_id, id, partner_id, 'bonus', 1, 'EUR', 'system', created_at
		from participants, generate_series(1, 10) n where workspace_id = $1 and mode = $2`, w, mode)
	f.Exec(`
		insert into ledger_balances (workspace_id, participant_id, currency, slot, balance_cents)
		select workspace_id, id, 'EUR', n, 1 from participants, generate_series(0, 9) n where workspace_id = $1 and mode = $2`, w, mode)
	f.Exec(`
		insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, link_id, referral_code, received_at, expires_at, created_at, consent, is_bot)
		select $1, gen_random_uuid(), $4::timestamptz - n * interval '100 seconds', $2, $3, $3, gen_random_uuid(), 'x', $4, $4, $4, 'granted', false from generate_series(1, 5000) n`, w, mode, program, day)
	f.Exec(`
		insert into events (workspace_id, id, day, mode, type, body, created_at)
		select $1, gen_random_uuid(), $3::date, $2, 't', '', $3 from generate_series(1, 5000) n`, w, mode, day)
	f.Exec(`
		insert into webhook_deliveries (workspace_id, endpoint_id, id, day, mode, event_id, event_type, epoch, created_at)
		select $1, $4, gen_random_uuid(), $3::date, $2, gen_random_uuid(), 't', 1, $3 from generate_series(1, 5000) n`, w, mode, day, endpoint)
	f.ExecWithoutForeignKeys(`
		insert into conversions (workspace_id, id, mode, external_transaction_id, event_type, amount_cents, tax_cents, shipping_cents, fee_cents, discount_cents,
			occurred_at, created_at, source, status, attributed, reason_code, decision_id, product_ids, is_recurring, fraud_score, fraud_signals, version)
		select $1, gen_random_uuid(), $2, n::text, 'purchase', 1, 0, 0, 0, 0, $3::timestamptz + n * interval '1 second', $3::timestamptz + n * interval '1 second', 'api', 'recorded', false, 'CLICK_UNKNOWN',
			gen_random_uuid(), '{}', false, 0, '[]', 1
		from generate_series(1, 3000) n`, w, mode, day)
	f.Exec(`
		insert into attribution_decisions (workspace_id, id, conversion_id, mode, attributed, reason_code, explanation, engine_version, trace, decided_at)
		select workspace_id, decision_id, id, mode, false, reason_code, 'e', 'v', '{}', created_at from conversions where workspace_id = $1 and mode = $2`, w, mode)
	f.ExecWithoutForeignKeys(`
		insert into commissions (workspace_id, id, mode, program_id, participant_id, partner_id, conversion_id, decision_id,
			external_transaction_id, status, commission_type, event_type, rate_bps, amount_cents, original_amount_cents,
			currency, base_amount_cents, sale_amount_cents, sale_currency, needs_review, review_reasons, dispute_status,
			rule_snapshot, version, created_at, updated_at)
		select workspace_id, gen_random_uuid(), mode, $3, $3, $3, id, decision_id, external_transaction_id, 'pending', 'percentage', 'purchase', 2000, 1, 1,
			'EUR', 1, 1, 'EUR', false, '{}', 'none', '{}', 1, created_at, created_at
		from conversions where workspace_id = $1 and mode = $2`, w, mode, program)
	f.Exec(`
		insert into commission_history (workspace_id, commission_id, seq, at, actor, to_status, amount_cents)
		select workspace_id, id, 1, created_at, 'system', 'pending', 1 from commissions where workspace_id = $1 and mode = $2`, w, mode)
	f.Exec(`
		insert into fraud_events (workspace_id, id, mode, program_id, participant_id, conversion_id, score, signals, action, status, created_at)
		select workspace_id, gen_random_uuid(), mode, $3, $3, id, 1, '[]', 'observed', 'open', created_at from conversions where workspace_id = $1 and mode = $2`, w, mode, program)
	f.Exec(`
		insert into processor_events (workspace_id, connection_id, id, mode, type, account_id, resync, status, happened_at, received_at)
		select $1, $3, 'evt_' || n, $2, 'invoice.paid', 'a', false, 'applied', $4, $4::timestamptz + n * interval '1 second' from generate_series(1, 3000) n`, w, mode, program, day)
	f.Exec(`
		insert into customers (workspace_id, mode, ref, created_at) select $1, $2, n::text, $3 from generate_series(1, 3000) n`, w, mode, day)
	f.Exec(`
		insert into notifications (feed_id, mode, category, day, id, type, workspace_id, facts)
		select case n % 2 when 0 then $1 else (select partner_id from participants where workspace_id = $1 and mode = $2 limit 1) end,
			$2, 'conversions', $3::date, gen_random_uuid(), 't', $1, '{}'
		from generate_series(1, 3000) n`, w, mode, day)
	f.Exec(`
		insert into mails (id, kind, type, category, workspace_id, logged, mode, account_kind, recipient_name, recipient, facts, status, created_at)
		select gen_random_uuid(), 'notifications', 'digest', 'c', $1, $2 = 'test', $2, 'merchant', 'M', 'm@example.com', '{}', 'suppressed', $3
		from generate_series(1, 2000)`, w, mode, day)
}

// fillMore inserts rows into the other tables. The columns that the statements do not use have
// any values.
func fillMore(f *pgtest.Fixture, s *pgtest.Shop) {
	f.Helper()
	for table, columns := range map[string]string{
		"refunds":                  `id, external_refund_id, external_transaction_id, created_at, expires_at) select $1, $2, gen_random_uuid(), n, n, now(), now()`,
		"promo_codes":              `id, program_id, participant_id, code, discount_type, discount_value, active, sync_to_processor, sync_status, created_at, updated_at) select $1, $2, gen_random_uuid(), $1, $1, n, 'percentage', 1, true, false, 'none', now(), now()`,
		"payout_batches":           `id, status, program_ids, cutoff, created_by, created_at) select $1, $2, gen_random_uuid(), 'draft', '{}', now(), $1, now()`,
		"payouts":                  `id, batch_id, program_id, participant_id, partner_id, amount_cents, currency, commission_count, adjustment_cents, status, method, created_at, updated_at) select $1, $2, gen_random_uuid(), $1, $1, $1, $1, 1, 'EUR', 1, 0, 'draft', 'manual', now(), now()`,
		"commission_counts":        `grain, starts, program_id, status, needs_review, currency, slot, n, amount_cents) select $1, $2, 'day', date '2020-01-01' + n::int, $1, 'paid', false, 'EUR', 0, 1, 1`,
		"conversion_aliases":       `id, conversion_id) select $1, $2, n, gen_random_uuid()`,
		"processor_charges":        `id, currency, amount_cents, refunded_cents, read_number, updated_at) select $1, $2, n, 'EUR', 1, 1, 1, now()`,
		"processor_charge_aliases": `id, charge_id) select $1, $2, n, n`,
		"processor_disputes":       `id, charge_id, status, updated_at) select $1, $2, n, n, 'open', now()`,
		"processor_promo_codes":    `promotion_code_id, coupon_id, account_id, promo_code_id, code, terms, active, created_at) select $1, $2, n, n, n, gen_random_uuid(), n, n, false, now()`,
		"customer_payments":        `ref, program_id, payments, first_at) select $1, $2, n, $1, 1, now()`,
		"idempotency_keys":         `method, key, fingerprint, created_at, expires_at) select $1, $2, 'm', n, '', now(), now()`,
		"erased_values":            `kind, digest, subject_id) select $1, $2, 'code', n::bytea, $1`,
		"click_days":               `program_id, participant_id, day, others, clicks, unique_clicks, bot_clicks) select $1, $2, $1, $1, date '2020-01-01' + n::int, false, 1, 1, 1`,
	} {
		f.ExecWithoutForeignKeys(`insert into `+table+` (workspace_id, mode, `+columns+` from (select n::text from generate_series(1, 1000) n) x`, s.Scope.Workspace, s.Scope.Mode)
	}
	f.ExecWithoutForeignKeys(`insert into payout_commissions (workspace_id, payout_id, commission_id, amount_cents)
		select workspace_id, id, gen_random_uuid(), 1 from payouts where workspace_id = $1 and mode = $2`, s.Scope.Workspace, s.Scope.Mode)
	f.ExecWithoutForeignKeys(`insert into notification_digests (user_id, mode, category, workspace_id, window_start, mailed, due_at)
		select gen_random_uuid(), $2, 'c', $1, now(), '{}', now() from generate_series(1, 1000) n`, s.Scope.Workspace, s.Scope.Mode)
	// Programmes are few, but their indexes must be used in large deployments.
	f.Exec(`insert into programs (workspace_id, id, mode, name, slug, status, allowed_domains, currency, attribution_window_days, attribution_model, link_param,
			auto_approve_partners, is_public, rules, rules_version, created_at, updated_at)
		select $1, gen_random_uuid(), $2, n::text, n::text, 'archived', '{}', 'EUR', 30, 'last_click', 'via', false, false, '{}', 1, now(), now()
		from generate_series(1, 1000) n`, s.Scope.Workspace, s.Scope.Mode)
	f.ExecWithoutForeignKeys(`insert into groups (workspace_id, id, program_id, name, rate_bps, created_at, updated_at)
		select workspace_id, gen_random_uuid(), id, 'g', 1, now(), now() from programs where workspace_id = $1 and mode = $2`, s.Scope.Workspace, s.Scope.Mode)
	f.ExecWithoutForeignKeys(`insert into program_rules (workspace_id, program_id, version, rules, at, by)
		select workspace_id, id, 1, '{}', now(), $1 from programs where workspace_id = $1 and mode = $2`, s.Scope.Workspace, s.Scope.Mode)
	f.ExecWithoutForeignKeys(`insert into list_counts (workspace_id, program_id, what, slot, n)
		select workspace_id, id, 'links', 0, 1 from programs where workspace_id = $1 and mode = $2`, s.Scope.Workspace, s.Scope.Mode)
}

// Postgres searches for references to each deleted row. Each foreign key therefore needs an
// index of the table that refers to the row.
func TestForeignKeys_HaveIndexes(t *testing.T) {
	t.Parallel()
	f := pgtest.Open(t, time.Now)
	missing := f.Texts(`
		select c.conrelid::regclass || ' ' || c.conname
		from pg_constraint c
		where c.contype = 'f' and c.confrelid::regclass::text in ('programs', 'participants', 'groups', 'links', 'conversions', 'commissions', 'payouts', 'payout_batches')
			and not exists (
				select from pg_index i
				where i.indrelid = c.conrelid and (i.indpred is null or pg_get_expr(i.indpred, i.indrelid) = '(group_id IS NOT NULL)')
					and (i.indkey::int2[])[0:cardinality(c.conkey) - 1] = c.conkey)`)
	if len(missing) > 0 {
		t.Errorf("these foreign keys have no index: %q", missing)
	}
}

// The function of the schema's owner deletes neither live data nor data of another workspace,
// and no other role can call it.
func TestDeleteTestRows_DeletesOnlyTestDataOfTheWorkspace(t *testing.T) {
	t.Parallel()
	f := pgtest.Open(t, time.Now)
	shop := f.NewShop(affiliate.ModeTest)
	live, other := shop.InOtherMode(), f.NewShop(affiliate.ModeTest)
	for _, s := range []*pgtest.Shop{shop, live, other} {
		p := s.Join("Jane")
		s.NewLedgerEntry(p, 100)
		s.NewCommission(p)
		f.Insert("program_rules", pgtest.Row{"workspace_id": s.Scope.Workspace, "program_id": s.Program, "version": 1, "rules": "{}", "at": s.Now(), "by": s.Owner})
	}
	for _, table := range []string{"ledger_entries", "attribution_decisions", "commission_history", "program_rules"} {
		var deleted int64
		err := f.DB.QueryRow(t.Context(), `select delete_test_rows($1, $2, array(select ctid from `+table+`))`, table, shop.Scope.Workspace).Scan(&deleted)
		if err != nil || deleted != 1 {
			t.Errorf("%s: delete_test_rows deleted %d rows, %v, want 1", table, deleted, err)
		}
		f.WantCount(2, "rows in "+table, `select count(*) from `+table)
	}
	if _, err := f.DB.Exec(t.Context(), `select delete_test_rows('audit_log', $1, '{}')`, shop.Scope.Workspace); err == nil {
		t.Error("delete_test_rows accepts the audit log")
	}
	f.WantCount(0, "roles other than the service that can call the function", `
		select count(*) from pg_proc p, aclexplode(p.proacl) a
		where p.proname = 'delete_test_rows' and a.grantee <> p.proowner and a.grantee::regrole::text <> 'tributary_app'`)
}
