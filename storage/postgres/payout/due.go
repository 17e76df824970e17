package payout

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// The amount due to a participant has two parts. The first part is the payable commissions
// that are in no payout. The second part is the adjustment: the part of the ledger balance that
// comes from bonuses and debts, less the adjustments of open payouts (draft, pending or
// processing):
//
//	balance + processing payouts − approved commissions − adjustments of open payouts
//
// When a commission is approved, the ledger adds it to the balance. When a payout is sent
// (status processing), the ledger subtracts it from the balance. The formula reverses both.
// Therefore the adjustment does not change when a commission is approved, rejected, or paid in
// full.

// payableCondition is the condition under which an approved commission c of a programme
// p can be paid. It does not check whether the commission is already in a payout.
const payableCondition = `(
	not c.needs_review and c.dispute_status <> 'open' and (c.hold_until is null or c.hold_until <= @cutoff)
	and c.approved_at <= @cutoff::timestamptz - p.payout_term_days * interval '24 hours')`

// selectPayoutsDue reads all amounts due in one statement, and so in one snapshot. Its
// arguments can restrict it to some programmes and participants. If @include_zero is
// false, it leaves out participants to whom nothing is due.
//
// The sums over commissions are index-only scans (commissions_payable,
// commissions_unpaid). They are computed in a materialized CTE, so that Postgres computes
// them only once. Without it, Postgres could compute the sums again for each participant if
// its estimate is wrong. For the same reason, the joins compare a workspace with the argument and
// not with another column.
const selectPayoutsDue = `
	with parts as (
		select b.participant_id, b.currency, b.balance_cents as adjustment, 0 as n, 0 as cents, null::timestamptz as approved_at
		from ledger_balances b
		where b.workspace_id = @workspace and (@participants::uuid[] is null or b.participant_id = any(@participants))
		union all
		select c.participant_id, c.currency, -c.amount_cents, 0, 0, null
		from commissions c
		where c.workspace_id = @workspace and c.status = 'approved'
			and (@participants::uuid[] is null or c.participant_id = any(@participants))
		union all
		select o.participant_id, o.currency, case o.status when 'processing' then o.amount_cents else 0 end - o.adjustment_cents, 0, 0, null
		from payouts o
		where o.workspace_id = @workspace and o.mode = @mode and o.status in ('draft', 'pending', 'processing')
			and (@participants::uuid[] is null or o.participant_id = any(@participants))
		union all
		select c.participant_id, c.currency, 0, 1, c.amount_cents, c.approved_at
		from commissions c
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		where c.workspace_id = @workspace and c.mode = @mode and c.status = 'approved' and c.payout_id is null and ` + payableCondition + `
			and (@participants::uuid[] is null or c.participant_id = any(@participants))
	), sums as materialized (
		select participant_id, currency, sum(adjustment)::bigint as adjustment_cents, sum(n)::bigint as commission_count,
			sum(cents)::bigint as commission_cents, min(approved_at) as period_start, max(approved_at) as period_end
		from parts
		group by participant_id, currency
	)
	select s.*, t.program_id, p.name as program_name, t.partner_id, t.partner_name,
		case when s.currency = p.currency then p.min_payout_cents else 0 end as min_payout_cents,
		m.method, coalesce(m.held_until > @now, false) as account_held, t.status as participant_status, t.erased_at is not null as participant_erased
	from sums s
	join participants t on t.workspace_id = @workspace and t.mode = @mode and t.id = s.participant_id
	join programs p on p.workspace_id = @workspace and p.id = t.program_id
	left join payout_methods m on m.user_id = t.partner_id
	where (@programs::uuid[] is null or t.program_id = any(@programs))
		and (@include_zero or s.commission_cents <> 0 or s.adjustment_cents <> 0)`

// dueArgs returns the arguments of selectPayoutsDue. If participants is nil, all to whom something is due are selected.
func dueArgs(selection payout.Selection, participants []affiliate.ParticipantID) pgx.NamedArgs {
	programs := selection.Programs
	if len(programs) == 0 {
		programs = nil // all programmes
	}
	return pgx.NamedArgs{
		"workspace": selection.Scope.Workspace, "mode": selection.Scope.Mode, "programs": programs,
		"cutoff": selection.Cutoff, "now": selection.At, "participants": participants, "include_zero": participants != nil,
	}
}

// Due returns all amounts due, also those that a new batch would leave out, in no particular order and
// without locks. Errors: NOT_FOUND if a programme of the selection does not exist.
func Due(ctx context.Context, db postgres.Queryer, selection payout.Selection) ([]payout.Due, error) {
	if err := checkPrograms(ctx, db, selection); err != nil {
		return nil, err
	}
	return DueTo(ctx, db, selection, nil)
}

// DueTo reads the amounts due to the given participants, including zeros. If participants is
// nil, it reads the amounts due to all participants and leaves out zeros.
func DueTo(ctx context.Context, db postgres.Queryer, selection payout.Selection, participants []affiliate.ParticipantID) ([]payout.Due, error) {
	return postgres.List[payout.Due](ctx, db, selectPayoutsDue, postgres.PlanForArgs, dueArgs(selection, participants))
}

// LockParticipants keeps other transactions from creating payouts for participants.
func LockParticipants(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, ids []affiliate.ParticipantID) error {
	const lock = `
		select t.id from participants t
		where t.workspace_id = $1 and t.mode = $2 and t.id = any($3)
		order by t.id
		for no key update`
	return postgres.Exec(ctx, tx, lock, scope.Workspace, scope.Mode, ids)
}

// checkPrograms checks that the programmes exist in the scope. Errors: NOT_FOUND.
func checkPrograms(ctx context.Context, db postgres.Queryer, selection payout.Selection) error {
	const unknown = `
		select exists (
			select from unnest($3::uuid[]) as t (id)
			where not exists (select from programs p where p.workspace_id = $1 and p.mode = $2 and p.id = t.id))`
	if len(selection.Programs) == 0 {
		return nil
	}
	missing, err := postgres.Value[bool](ctx, db, unknown, selection.Scope.Workspace, selection.Scope.Mode, selection.Programs)
	if err == nil && missing {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return err
}
