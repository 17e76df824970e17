package export

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// A page of a large table is a range of an index, however many rows the workspace and other
// workspaces have. Only the rows of the page are sorted.
func TestPage_ReadsARangeOfAnIndex(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := pgtest.Open(t, time.Now)
	shop := f.NewShop(affiliate.ModeTest)
	ada := shop.Join("Ada")
	rows := 4000
	for _, p := range []pgtest.Participant{ada, shop.Join("Bob"), f.NewShop(affiliate.ModeTest).Join("Cleo")} {
		fillLarge(f, p, rows)
	}
	f.VacuumAnalyze("clicks", "conversions", "commissions", "commission_history", "ledger_entries", "payouts", "notifications", "audit_log", "analytics_days", "fraud_events")
	since := f.Now().Add(-ClickPeriod)
	participant := Filter{Level: LevelParticipation, Workspace: ada.Scope.Workspace, Mode: ada.Scope.Mode, Participant: ada.ID, User: ada.Partner, ClicksSince: since}
	workspace := Filter{Level: LevelWorkspace, Workspace: ada.Scope.Workspace, ClicksSince: since}
	account := Filter{Level: LevelAccount, User: ada.Partner}
	for _, tc := range []struct {
		part  Part
		from  Filter
		index string
	}{
		{PartClicks, participant, "clicks_.*workspace_id_participant_id_clicked_at_idx"},
		{PartClickSummary, participant, "analytics_days_pkey"},
		{PartConversions, participant, "conversions_by_participant_time"},
		{PartCommissions, participant, "commissions_by_participant"},
		{PartLedger, participant, "ledger_entries_by_participant"},
		{PartFraudEvents, participant, "fraud_events_by_participant"},
		{PartAudit, participant, "audit_log_by_resource"},
		{PartProgramAudit, participant, "audit_log_by_actor"},
		{PartNotifications, account, "notifications_.*pkey"},
		{PartClicks, workspace, "clicks_.*workspace_id_id_clicked_at_key"},
		{PartClickSummary, workspace, "analytics_days_pkey"},
		{PartConversions, workspace, "conversions_pkey"},
		{PartCommissions, workspace, "commissions_pkey"},
		{PartCommissionHistory, workspace, "commission_history_pkey"},
		{PartLedger, workspace, "ledger_entries_pkey"},
		{PartFraudEvents, workspace, "fraud_events_pkey"},
		{PartAudit, workspace, "audit_log_by_age"},
	} {
		q := queries[tc.from.Level][tc.part]
		after := privacy.ExportPosition{}
		for _, page := range []string{"the first page", "a later page"} {
			sql, args := positional(q.sql(false), arguments(tc.from, after, 50))
			plan := f.PlanWith(readerSettings, sql, args...)
			name := fmt.Sprintf("%s at level %d, %s", tc.part, tc.from.Level, page)
			if !regexp.MustCompile(tc.index).MatchString(plan) {
				t.Errorf("%s: the plan does not use %s\n%s", name, tc.index, plan)
			}
			for _, bad := range []string{"Seq Scan on c", "Seq Scan on audit", "Bitmap"} {
				if strings.Contains(plan, bad) {
					t.Errorf("%s: the plan contains %q\n%s", name, bad, plan)
				}
			}
			if regexp.MustCompile(`(?m)^\s*(->  )?Sort$`).MatchString(plan) {
				t.Errorf("%s: the plan sorts\n%s", name, plan)
			}
			err := Snapshot(t.Context(), f.DB, func(r *Reader) error {
				records, positions, err := r.Page(t.Context(), tc.part, tc.from, after, 50)
				if err == nil && len(records) == 50 {
					after = positions[49]
				} else if err == nil {
					t.Errorf("%s has %d records, want 50", name, len(records))
				}
				return err
			})
			if err != nil {
				t.Fatal(name, err)
			}
		}
	}
}

// positional replaces named parameters by numbered ones.
func positional(sql string, named map[string]any) (string, []any) {
	var args []any
	numbers := map[string]int{}
	text := regexp.MustCompile(`@[a-z_]+`).ReplaceAllStringFunc(sql, func(name string) string {
		if numbers[name] == 0 {
			args = append(args, named[name[1:]])
			numbers[name] = len(args)
		}
		return fmt.Sprintf("$%d", numbers[name])
	})
	return text, args
}

// fillLarge creates rows of a participant in the tables that can be large. The ids of clicks begin
// with their times, as the ids of real clicks do.
func fillLarge(f *pgtest.Fixture, p pgtest.Participant, rows int) {
	f.Helper()
	scope := []any{p.Scope.Workspace, p.Scope.Mode, p.Program, p.ID, p.Partner, f.Now(), rows}
	for _, sql := range []string{
		`insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, link_id, referral_code, received_at, expires_at, created_at, consent, is_bot)
		select $1, (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || substr(md5(random()::text), 13))::uuid, at, $2, $3, $4, gen_random_uuid(), 'x', at, at, at, 'granted', false
		from generate_series(1, $7::int) n, lateral (select $6::timestamptz - n * interval '20 minutes' as at) t where $5::uuid is not null`,
		`insert into analytics_days (workspace_id, mode, program_id, participant_id, dimension, day, value, currency, link_id, clicks, quarters)
		select $1, $2, $3, $4, dimension, $6::timestamptz::date - n, dimension, '', gen_random_uuid(), 1, ''
		from generate_series(1, $7::int) n, unnest(array['', 'country']) dimension where $5::uuid is not null`,
		`insert into conversions (workspace_id, id, mode, external_transaction_id, event_type, amount_cents, tax_cents, shipping_cents, fee_cents, discount_cents, occurred_at,
			created_at, source, status, attributed, reason_code, decision_id, program_id, participant_id, product_ids, is_recurring, fraud_score, fraud_signals, version)
		select $1, gen_random_uuid(), $2, $4::uuid::text || n, 'lead', 0, 0, 0, 0, 0, at, at, 'api', 'recorded', true, 'x', gen_random_uuid(), $3, $4, '{}', false, 0, '[]', 1
		from generate_series(1, $7::int) n, lateral (select $6::timestamptz - n * interval '1 minute' as at) t where $5::uuid is not null`,
		`insert into commissions (workspace_id, id, mode, program_id, participant_id, partner_id, conversion_id, decision_id, external_transaction_id, status, commission_type,
			event_type, flat_amount_cents, amount_cents, original_amount_cents, currency, base_amount_cents, sale_amount_cents, sale_currency, needs_review, review_reasons,
			dispute_status, rule_snapshot, version, created_at, updated_at)
		select c.workspace_id, gen_random_uuid(), c.mode, $3, $4, $5, c.id, c.decision_id, c.external_transaction_id, 'pending', 'flat', 'lead', 1, 1, 1, 'EUR', 1, 1, 'EUR',
			false, '{}', 'none', '{}', 1, c.created_at, c.created_at
		from conversions c where c.workspace_id = $1 and c.mode = $2 and c.participant_id = $4 and $6::timestamptz is not null and $7::int > 0`,
		`insert into commission_history (workspace_id, commission_id, seq, at, actor, to_status, amount_cents)
		select c.workspace_id, c.id, 1, $6, 'system', 'pending', 1 from commissions c
		where c.workspace_id = $1 and c.mode = $2 and c.program_id = $3 and c.participant_id = $4 and c.partner_id = $5 and $7::int > 0`,
		`insert into ledger_entries (workspace_id, id, mode, program_id, participant_id, partner_id, type, amount_cents, currency, created_by, created_at)
		select $1, gen_random_uuid(), $2, $3, $4, $5, 'bonus', 1, 'EUR', 'system', $6::timestamptz - n * interval '1 minute' from generate_series(1, $7::int) n`,
		`insert into fraud_events (workspace_id, id, mode, program_id, participant_id, conversion_id, score, signals, action, status, created_at)
		select c.workspace_id, gen_random_uuid(), c.mode, $3, $4, c.id, 1, '[]', 'observed', 'open', c.created_at from conversions c
		where c.workspace_id = $1 and c.mode = $2 and c.participant_id = $4 and $5::uuid is not null and $6::timestamptz is not null and $7::int > 0`,
		`insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id)
		select $1, gen_random_uuid(), $2, $6::timestamptz - n * interval '1 minute', $5::uuid::text, 'link.update', 'participant', $4
		from generate_series(1, $7::int) n where $3::uuid is not null`,
		`insert into notifications (feed_id, mode, category, day, id, type, workspace_id, program_id, participant_id, facts)
		select $5, $2, 'commissions', ($6::timestamptz - n * interval '1 hour')::date, gen_random_uuid(), 'commission.created', $1, $3, $4, '{}' from generate_series(1, $7::int) n`,
	} {
		f.Exec(sql, scope...)
	}
}
