package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// lockCustomerOf is lockCustomer for the customer of a stored conversion, if it
// has one.
const lockCustomerOf = `
	insert into customers as u (workspace_id, mode, ref, created_at)
	select c.workspace_id, c.mode, c.customer_ref, c.created_at
	from conversions c
	where c.workspace_id = $1 and c.mode = $2 and c.id = $3 and c.customer_ref is not null
	on conflict (workspace_id, mode, ref) do update set created_at = u.created_at`

const lockConversion = `
	select ` + conversionColumns + `
	from conversions c
	where c.workspace_id = $1 and c.mode = $2 and c.id = $3
	for no key update`

// findParticipant reads whom a person names, of any programme of the mode.
const findParticipant = `
	select ` + earnerColumns + `
	from (
		select t.workspace_id, t.mode, t.program_id, t.id as participant_id from participants t
		where t.workspace_id = $1 and t.mode = $2 and t.id = $3
	) as x` + earnerOfX

// findEarned names what the decision in force has earned, unless that has come
// to nothing.
const findEarned = `
	select m.id
	from conversions c
	join commissions m on m.workspace_id = c.workspace_id and m.mode = c.mode and m.decision_id = c.decision_id
	where c.workspace_id = $1 and c.mode = $2 and c.id = $3 and m.status in ('pending', 'approved', 'paid')`

// rejectedAsReattributed is what a commission says that was rejected because its
// conversion went to somebody else. The person's own words are in the history.
const rejectedAsReattributed = "reattributed"

// ReattributeByHand gives a conversion to a participant of its mode: a decision
// supersedes the one in force, what that one earned is rejected or clawed back,
// what the new one earns is created and lowered by what was refunded, and the
// customer's binding and payments go along. Of any number at a time each sees the
// outcome of the one before. decide is given the conversion as it is stored and,
// of the inputs, the participant and the customer, whose payments are those beside
// this conversion; it may be asked more than once. Errors: NOT_FOUND for the conversion; VALIDATION_ERROR for a
// participant who is unknown or has it already; PARTICIPANT_ERASED.
func (s *Store) ReattributeByHand(
	ctx context.Context, scope affiliate.Scope, id affiliate.ConversionID, to affiliate.ParticipantID, reason string,
	at time.Time, by affiliate.Actor,
	decide func(c affiliate.Conversion, found affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission),
) (after affiliate.Conversion, d affiliate.Decision, commission *affiliate.Commission, err error) {
	err = s.InTx(ctx, func(tx *Tx) error {
		before, err := lockAttribution(ctx, tx, scope, id, to)
		if err != nil {
			return err
		}
		if err := before.refusal(to); err != nil {
			return err
		}
		after = before.Conversion
		d, commission = decide(after, before.found)
		if !d.Attributed {
			return fmt.Errorf("conversion %s is given to %s and not attributed: %s", id, to, d.Reason)
		}
		d.Supersedes = &before.Decision
		batch := &pgx.Batch{}
		if err := queueSupersede(batch, &after, d); err != nil {
			return err
		}
		if after.Click != nil {
			batch.Queue(forgetAwaited, scope.Workspace, scope.Mode, id, after.Click)
		}
		changes, err := affiliate.BeginCommission(commission, after, by, &reason, at)
		if err != nil {
			return err
		}
		if earned := before.earned; earned != nil {
			change, err := earned.takeAway(by, at, reason)
			if err != nil {
				return err
			}
			changes = append([]affiliate.CommissionChange{change}, changes...)
		}
		if commission != nil {
			queueCommissions(batch, *commission)
		}
		before.queueCustomer(batch, d)
		queueDeltas(batch, append(before.takenBack(d.DecidedAt), d.Brought(after, commission)...)...)
		if commission != nil {
			commission = outcomeOf(changes)
		}
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("reattribution: %w", err)
		}
		// Only now it has its new version.
		events := []affiliate.Event{after.Event(affiliate.EventConversionReattributed, d, at)}
		for _, change := range changes {
			events = append(events, change.Events()...)
		}
		if err := followCommissions(ctx, tx, changes...); err != nil {
			return err
		}
		if err := settle(ctx, tx, changes...); err != nil {
			return err
		}
		if err := tx.Publish(ctx, events...); err != nil {
			return err
		}
		return tx.Audit(ctx, affiliate.AuditLine{
			Workspace: scope.Workspace, Mode: &scope.Mode, Actor: by, At: at,
			Action: "conversion.reattribute", ResourceType: "conversion", ResourceID: id,
			Before: auditedAttribution{Program: before.Program, Participant: before.Participant},
			After:  auditedAttribution{Program: d.Program, Participant: d.Participant, Reason: reason},
		})
	})
	return after, d, commission, err
}

// auditedAttribution is what a reattribution changes.
type auditedAttribution struct {
	Program     *affiliate.ProgramID     `json:"program_id"`
	Participant *affiliate.ParticipantID `json:"participant_id"`
	Reason      string                   `json:"reason,omitempty"`
}

// attribution is a conversion that a person is about to give away, with
// everything that goes along; all of it is locked.
type attribution struct {
	storedConversion
	found  affiliate.AttributionInputs
	earned *earnedCommission
}

// earnedCommission is what the one who loses a conversion has of it.
type earnedCommission struct{ affiliate.LockedCommission }

// takeAway rejects the commission, or claws it back when it is paid. The person's
// own words are in the history.
func (e earnedCommission) takeAway(by affiliate.Actor, at time.Time, reason string) (affiliate.CommissionChange, error) {
	t := affiliate.CommissionTransition{
		Scope: e.Scope, Program: e.Program, Commission: e.ID, Actor: by, At: at, Note: &reason,
		Move: affiliate.MoveClawBack, Why: affiliate.ReassignedSale,
	}
	if e.Status != affiliate.CommissionPaid {
		because := rejectedAsReattributed
		t.Move, t.Reason = affiliate.MoveReject, &because
	}
	return e.Move(t)
}

// lockAttribution is one round trip, and another where the buyer was named. It
// locks in the order of lockSignals, then the conversion, then its commission.
func lockAttribution(
	ctx context.Context, tx *Tx, scope affiliate.Scope, id affiliate.ConversionID, to affiliate.ParticipantID,
) (*attribution, error) {
	a := &attribution{}
	batch := &pgx.Batch{}
	batch.Queue(lockCustomerOf, scope.Workspace, scope.Mode, id)
	batch.Queue(lockConversion, scope.Workspace, scope.Mode, id).Query(func(rows pgx.Rows) (err error) {
		a.storedConversion, err = pgx.CollectExactlyOneRow(rows, scanConversion)
		if errors.Is(err, pgx.ErrNoRows) {
			err = affiliate.Refuse(affiliate.ReasonNotFound)
		}
		return err
	})
	batch.Queue(findParticipant, scope.Workspace, scope.Mode, to).Query(func(rows pgx.Rows) error {
		earners, err := pgx.CollectRows(rows, pgx.RowToStructByName[earnerRow])
		for _, row := range earners {
			earner := row.earner()
			a.found.Assigned = &earner
		}
		return err
	})
	var earned []affiliate.CommissionID
	batch.Queue(findEarned, scope.Workspace, scope.Mode, id).Query(func(rows pgx.Rows) (err error) {
		earned, err = pgx.CollectRows(rows, pgx.RowTo[affiliate.CommissionID])
		return err
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("reattribution: %w", err)
	}
	locked, err := lockHeldCommissions(ctx, tx, scope, earned)
	if err != nil {
		return nil, err
	}
	for _, c := range locked {
		if c.Status != affiliate.CommissionRejected && c.Status != affiliate.CommissionRefunded {
			a.earned = &earnedCommission{c}
		}
	}
	batch = &pgx.Batch{}
	queueRates(batch, a.Conversion, &a.found)
	if a.CustomerRef != nil {
		a.found.Customer = queueCustomer(batch, scope, *a.CustomerRef)
		queuePaymentsBefore(batch, a.Conversion, a.found.Customer)
	}
	if batch.Len() > 0 {
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return nil, fmt.Errorf("customer and rates: %w", err)
		}
	}
	if a.CustomerRef == nil {
		return a, nil
	}
	if a.RecurringIndex != nil && a.Program != nil {
		// Where it is, it keeps its number.
		payments := a.found.Customer.Payments[*a.Program]
		payments.Count = *a.RecurringIndex - 1
		a.found.Customer.Payments[*a.Program] = payments
	}
	return a, nil
}

// refusal is why the conversion may not be given to a participant.
func (a *attribution) refusal(to affiliate.ParticipantID) error {
	switch {
	case a.found.Assigned == nil:
		return affiliate.Invalid("participant_id", "must be a participant of this workspace and mode")
	case a.Participant != nil && *a.Participant == to && a.earned != nil:
		return affiliate.Invalid("participant_id", "must be another participant than the one who has the conversion and earns by it")
	case a.found.Assigned.ParticipantErased:
		return affiliate.Refuse(affiliate.ReasonParticipantErased)
	}
	return nil
}

// queueCustomer lets the customer follow its conversion: a customer who was
// bound to the one who loses the conversion, or to nobody, is bound to the one
// who gets it. The binding keeps its age, and its window where the programme
// stays; payments are counted where they are now. A customer whom a third
// participant brought stays with that one.
func (a *attribution) queueCustomer(batch *pgx.Batch, d affiliate.Decision) {
	if a.CustomerRef == nil {
		return
	}
	to := affiliate.Binding{BoundAt: a.OccurredAt, SignalAt: a.OccurredAt, Earner: *a.found.Assigned}
	binding := a.found.Customer.Binding
	if binding != nil {
		to.BoundAt, to.SignalAt = binding.BoundAt, binding.SignalAt
	}
	to.WindowEndsAt = affiliate.WindowEnd(to.BoundAt, to.Earner.WindowDays)
	if binding != nil && binding.Earner.Program == to.Earner.Program {
		to.WindowEndsAt = binding.WindowEndsAt
	}
	if binding == nil || a.Participant != nil && binding.Earner.Participant == *a.Participant {
		queueBinding(batch, a.Conversion, to)
	}

	programs := []affiliate.ProgramID{*d.Program}
	if a.Program != nil {
		programs = append(programs, *a.Program)
	}
	if a.Program == nil || *a.Program != *d.Program {
		queueRecount(batch, a.Scope, *a.CustomerRef, programs)
	}
}

// takenBack is what the participant loses who had the conversion; refunds have
// taken their part of the revenue before. What it earned is counted by the commission's move.
func (a *attribution) takenBack(at time.Time) []affiliate.StatsDelta {
	if !a.Attributed || a.Program == nil || a.Participant == nil {
		return nil
	}
	had := affiliate.Decision{Program: a.Program, Participant: a.Participant, Link: a.Link, DecidedAt: at}
	deltas := had.Brought(a.Conversion, nil)
	for i := range deltas {
		d := &deltas[i]
		d.Conversions, d.Signups, d.RevenueCents = -d.Conversions, -d.Signups, -d.RevenueCents
	}
	return deltas
}
