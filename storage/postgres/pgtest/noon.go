package pgtest

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
)

// Noon is the time at which most tests create their data.
var Noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// NoonShop is a shop in live mode with a clock that starts at Noon.
type NoonShop struct {
	*Shop
	Clock *Clock
}

// OpenNoonShop opens a database with a shop. The given rows replace columns of the shop's
// programme.
func OpenNoonShop(t testing.TB, program ...Row) *NoonShop {
	t.Helper()
	clock := NewClock(Noon)
	return &NoonShop{Open(t, clock.Now).NewShop(affiliate.ModeLive, program...), clock}
}

// By returns the actor for a user.
func By(user affiliate.UserID) affiliate.Actor { return affiliate.Actor{User: &user} }

// FillWithCommissions adds the given number of participants to the programme of the shop.
// Each participant has the given numbers of approved and of paid commissions.
func (s *Shop) FillWithCommissions(participants, approved, paid int) {
	s.Helper()
	s.JoinMany(participants)
	s.Exec(`
		insert into payout_methods (user_id, method, updated_at) select partner_id, 'manual', $2 from participants where program_id = $1`, s.Program, s.Now())
	s.ExecWithoutForeignKeys(`
		insert into commissions (workspace_id, id, mode, program_id, participant_id, partner_id, conversion_id, decision_id,
			external_transaction_id, status, commission_type, event_type, rate_bps, amount_cents, original_amount_cents,
			currency, base_amount_cents, sale_amount_cents, sale_currency, needs_review, review_reasons, dispute_status,
			approved_at, rule_snapshot, version, created_at, updated_at)
		select t.workspace_id, gen_random_uuid(), t.mode, t.program_id, t.id, t.partner_id, gen_random_uuid(), gen_random_uuid(),
			'o', case when n > $3 then 'paid' else 'approved' end, 'percentage', 'purchase', 2000, n, n, 'EUR', n, n, 'EUR', false, '{}', 'none',
			$2::timestamptz - n * interval '1 minute', '{}', 1, $2::timestamptz - n * interval '1 minute', $2
		from participants t, generate_series(1, $3::integer + $4::integer) n where t.workspace_id = $1`, s.Scope.Workspace, s.Now(), approved, paid)
	s.ExecWithoutForeignKeys(`
		insert into ledger_entries (workspace_id, id, mode, program_id, participant_id, partner_id, type, amount_cents, currency,
			commission_id, created_by, created_at)
		select workspace_id, gen_random_uuid(), mode, program_id, participant_id, partner_id, 'commission_approved', amount_cents, currency,
			id, 'system', approved_at
		from commissions where workspace_id = $1 and status = 'approved'`, s.Scope.Workspace)
	s.ExecWithoutForeignKeys(`
		insert into ledger_balances (workspace_id, participant_id, currency, slot, balance_cents)
		select workspace_id, participant_id, currency, 0, sum(amount_cents) from ledger_entries where workspace_id = $1 group by 1, 2, 3`, s.Scope.Workspace)
}

// NewDue creates a pending commission that was created an hour ago and that is due for
// approval. The given functions change the commission before it is stored.
func (f *Fixture) NewDue(p Participant, change ...func(*commission.Commission)) commission.Commission {
	f.Helper()
	due := func(c *commission.Commission) {
		now := f.Now()
		c.CreatedAt, c.UpdatedAt, c.AutoApproveAt, c.HoldUntil = now.Add(-time.Hour), now.Add(-time.Hour), &now, &now
	}
	return f.NewCommission(p, append([]func(*commission.Commission){due}, change...)...)
}

// CheckTotals compares the stored counters, ledger entries and balances with the
// commissions.
func (f *Fixture) CheckTotals() {
	f.Helper()
	const counts = `
		with stored as (
			select workspace_id, mode, grain, starts, program_id, status, needs_review, currency, sum(n) as n, sum(amount_cents) as cents
			from commission_counts
			group by 1, 2, 3, 4, 5, 6, 7, 8 having sum(n) <> 0 or sum(amount_cents) <> 0
		), real as (
			select workspace_id, mode, grain, starts, program_id, status, needs_review, currency, count(*)::numeric as n, sum(amount_cents) as cents
			from commissions c
			cross join lateral (values
				('ever', date '0001-01-01'),
				('month', date_trunc('month', c.created_at at time zone 'UTC')::date),
				('day', (c.created_at at time zone 'UTC')::date)) as g (grain, starts)
			group by 1, 2, 3, 4, 5, 6, 7, 8
		)
		select count(*) from ((table stored except table real) union all (table real except table stored)) d`
	if n := f.Count(counts); n != 0 {
		f.Errorf("%d counters differ from the numbers of commissions, want 0", n)
	}
	const ledger = `
		with owed as (
			select participant_id, currency, sum(amount_cents) as cents from commissions
			where status in ('approved', 'paid') group by 1, 2 having sum(amount_cents) <> 0
		), entries as (
			select participant_id, currency, sum(amount_cents) as cents from ledger_entries group by 1, 2 having sum(amount_cents) <> 0
		), balances as (
			select participant_id, currency, sum(balance_cents) as cents from ledger_balances group by 1, 2 having sum(balance_cents) <> 0
		)
		select count(*) from (
			(table owed except table entries) union all (table entries except table owed)
			union all (table entries except table balances) union all (table balances except table entries)) d`
	if n := f.Count(ledger); n != 0 {
		f.Errorf("%d sums of ledger entries or balances differ from the owed amounts, want 0", n)
	}
	const commissions = `
		select count(*) from commissions c
		where (case when status in ('approved', 'paid') then amount_cents else 0 end) <>
			(select coalesce(sum(amount_cents), 0) from ledger_entries e where e.workspace_id = c.workspace_id and e.commission_id = c.id)`
	if n := f.Count(commissions); n != 0 {
		f.Errorf("%d commissions have ledger entries that do not sum to the owed amount, want 0", n)
	}
}

// AwaitLock waits until a transaction of the database waits for a lock.
func (f *Fixture) AwaitLock() {
	f.Helper()
	Eventually(f, "a transaction waits for a lock", func() bool {
		return f.CountLockWaits() > 0
	})
}
