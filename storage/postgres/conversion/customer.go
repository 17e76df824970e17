package conversion

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// lockCustomers inserts new customers and locks all customers until the transaction ends, so
// that conversions of one customer are decided one after the other.
var lockCustomers = postgres.RowsOf[newCustomerRow](`
	insert into customers as u ({columns})
	values {rows}
	on conflict (workspace_id, mode, ref) do update set created_at = u.created_at
	returning xmax = 0 as new`)

type newCustomerRow struct {
	WorkspaceID affiliate.WorkspaceID `db:"workspace_id"`
	Mode        affiliate.Mode        `db:"mode"`
	Ref         *string               `db:"ref"`
	CreatedAt   time.Time             `db:"created_at"`
}

// queueCustomerLocks queues the locks of the customers of conversions, in a fixed order.
func queueCustomerLocks(batch *pgx.Batch, all []*signals) {
	withCustomer := slices.DeleteFunc(slices.Clone(all), func(s *signals) bool { return s.conversion.CustomerRef == nil })
	slices.SortFunc(withCustomer, func(a, b *signals) int {
		return cmp.Or(a.conversion.Compare(b.conversion.Scope), cmp.Compare(*a.conversion.CustomerRef, *b.conversion.CustomerRef))
	})
	rows := make([]newCustomerRow, len(withCustomer))
	for i, s := range withCustomer {
		rows[i] = newCustomerRow{WorkspaceID: s.conversion.Workspace, Mode: s.conversion.Mode, Ref: s.conversion.CustomerRef, CreatedAt: s.conversion.CreatedAt}
	}
	for _, q := range lockCustomers.Queue(batch, rows...) {
		part := withCustomer[:q.N]
		withCustomer = withCustomer[q.N:]
		q.Query(func(rows pgx.Rows) error {
			inserted, err := pgx.CollectRows(rows, pgx.RowTo[bool])
			for i, isNew := range inserted {
				part[i].newCustomer = isNew
			}
			return err
		})
	}
}

// KnownCustomer returns the stored reference among several references of one customer. If
// several are stored, it returns the oldest. It returns an empty text if the customer is new.
func KnownCustomer(ctx context.Context, db *postgres.DB, scope affiliate.Scope, refs []string) (ref string, err error) {
	found, err := postgres.Values[string](ctx, db, selectKnownCustomer, scope.Workspace, scope.Mode, refs)
	if len(found) > 0 {
		ref = found[0]
	}
	return ref, err
}

const selectKnownCustomer = `
	select ref from customers
	where workspace_id = $1 and mode = $2 and ref = any($3)
	order by created_at, ref
	limit 1`

// labelCustomer changes the label of a customer if $4 is true. The customer may be stored under
// several references. A null label removes the label.
const labelCustomer = `
	update customers set label = case when $4 then $5 else label end
	where workspace_id = $1 and mode = $2 and ref = any($3)
	returning ref, label, created_at`

// LabelCustomer changes the label of a customer with one of the references; nil removes
// it. Without a change, it only reads the customer. Errors: NOT_FOUND.
func LabelCustomer(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, refs []string, label affiliate.Change[string],
) (conversion.Customer, error) {
	found, err := postgres.List[conversion.Customer](
		ctx, db, labelCustomer, scope.Workspace, scope.Mode, refs, label.Given, label.Value)
	if err != nil {
		return conversion.Customer{}, err
	}
	if len(found) == 0 {
		return conversion.Customer{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return slices.MinFunc(found, func(a, b conversion.Customer) int { return a.CreatedAt.Compare(b.CreatedAt) }), nil
}

// deleteCustomer deletes a customer that the same transaction has inserted.
const deleteCustomer = `
	delete from customers where workspace_id = $1 and mode = $2 and ref = $3`

// findBinding reads the participant to whom a customer is bound. It is a statement of its own after lockCustomers,
// because a statement that waits for a lock does not see other changes that commit during the wait.
const findBinding = `
	select x.bound_at, x.signal_at, x.window_ends_at, ` + earnerColumns + `
	from customers x` + earnerOfX + `
	where x.workspace_id = $1 and x.mode = $2 and x.ref = $3`

const findPayments = `
	select program_id, payments, first_at
	from customer_payments
	where workspace_id = $1 and mode = $2 and ref = $3`

// queueCustomerReads queues the statements that read the binding and the payments of a
// locked customer. The result is filled in when the batch is sent.
func queueCustomerReads(batch *pgx.Batch, scope affiliate.Scope, ref string) *attribution.FoundCustomer {
	found := &attribution.FoundCustomer{}
	postgres.QueueFirst(batch, &found.Binding, findBinding, scope.Workspace, scope.Mode, ref)
	batch.Queue(findPayments, scope.Workspace, scope.Mode, ref).Query(func(rows pgx.Rows) error {
		return collectPayments(rows, found)
	})
	return found
}

// bindCustomer binds a locked customer to a participant.
const bindCustomer = `
	update customers
	set program_id = $4, participant_id = $5, conversion_id = $6, bound_at = $7, signal_at = $8, window_ends_at = $9
	where workspace_id = $1 and mode = $2 and ref = $3`

func queueBinding(batch *pgx.Batch, c conversion.Conversion, binding attribution.Binding) {
	batch.Queue(bindCustomer, c.Workspace, c.Mode, c.CustomerRef, binding.Program, binding.Participant, c.ID,
		binding.BoundAt, binding.SignalAt, binding.WindowEndsAt)
}

// paymentsBefore counts the payments that a customer had made to each programme before a
// conversion. It is used when a conversion is decided again. The payment of the conversion
// itself is not counted, so the number that this payment gets (its recurring_index) does
// not depend on how the conversion was attributed before.
const paymentsBefore = `
	select program_id, count(*)::integer as count, min(occurred_at) as first_at
	from conversions
	where workspace_id = $1 and mode = $2 and customer_ref = $3 and recurring_index is not null and (created_at, id) < ($4, $5)
	group by program_id`

func queuePaymentsBefore(batch *pgx.Batch, c conversion.Conversion, found *attribution.FoundCustomer) {
	batch.Queue(paymentsBefore, c.Scope.Workspace, c.Scope.Mode, c.CustomerRef, c.CreatedAt, c.ID).Query(func(rows pgx.Rows) error {
		return collectPayments(rows, found)
	})
}

// collectPayments replaces found.Payments with the payments in rows.
func collectPayments(rows pgx.Rows, found *attribution.FoundCustomer) error {
	found.Payments = map[affiliate.ProgramID]attribution.CustomerPayments{}
	var program affiliate.ProgramID
	var payments attribution.CustomerPayments
	_, err := pgx.ForEachRow(rows, []any{&program, &payments.Count, &payments.FirstAt}, func() error {
		found.Payments[program] = payments
		return nil
	})
	return err
}

const countPayment = `
	insert into customer_payments as p (workspace_id, mode, ref, program_id, payments, first_at)
	values ($1, $2, $3, $4, 1, $5)
	on conflict (workspace_id, mode, ref, program_id) do update
	set payments = p.payments + 1, first_at = least(p.first_at, excluded.first_at)`

const (
	deletePayments = `
		delete from customer_payments where workspace_id = $1 and mode = $2 and ref = $3 and program_id = any($4)`
	recountPayments = `
		insert into customer_payments (workspace_id, mode, ref, program_id, payments, first_at)
		select workspace_id, mode, customer_ref, program_id, count(*), min(occurred_at)
		from conversions
		where workspace_id = $1 and mode = $2 and customer_ref = $3 and program_id = any($4) and recurring_index is not null
		group by workspace_id, mode, customer_ref, program_id`
)

// queueRecount counts a customer's payments in programmes again. It cannot decrement the
// number, because another payment may become the first.
func queueRecount(batch *pgx.Batch, scope affiliate.Scope, ref string, programs []affiliate.ProgramID) {
	batch.Queue(deletePayments, scope.Workspace, scope.Mode, ref, programs)
	batch.Queue(recountPayments, scope.Workspace, scope.Mode, ref, programs)
}

// LockSignals locks the customer and the promo code of a conversion that is not recorded. It
// returns the inputs of the decision, with the values that must be read under these locks.
func LockSignals(ctx context.Context, tx *postgres.Tx, c conversion.Conversion, in attribution.Inputs) (attribution.Inputs, error) {
	s := signals{conversion: c, inputs: in}
	if err := lockSignals(ctx, tx, &s); err != nil {
		return in, err
	}
	err := readFacts(ctx, tx, &s)
	return s.inputs, err
}

// BindCustomer binds the customer of a conversion that is not recorded to the participant
// of a decision. The transaction must have called LockSignals.
func BindCustomer(ctx context.Context, tx *postgres.Tx, c conversion.Conversion, in attribution.Inputs, d attribution.Decision) error {
	binding := newBinding(c, in, d)
	return postgres.Exec(ctx, tx, bindCustomer, c.Workspace, c.Mode, c.CustomerRef, binding.Program, binding.Participant, nil,
		binding.BoundAt, binding.SignalAt, binding.WindowEndsAt)
}

// newBinding returns the binding of a customer to the participant of a decision.
func newBinding(c conversion.Conversion, in attribution.Inputs, d attribution.Decision) attribution.Binding {
	earner := attributedEarner(in, d)
	binding := attribution.Binding{
		BoundAt: c.OccurredAt, SignalAt: c.OccurredAt, WindowEndsAt: click.WindowEnd(c.OccurredAt, earner.WindowDays), Earner: earner,
	}
	if *d.Method == attribution.ByClick {
		binding.SignalAt = in.FoundClick.ReceivedAt
	}
	return binding
}
