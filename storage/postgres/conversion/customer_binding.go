package conversion

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// LockSignals locks the customer and the promo code of a conversion that is not recorded,
// and adds to the inputs of its decision what must be read under these locks.
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
	_, err := tx.Exec(ctx, bindCustomer, c.Workspace, c.Mode, c.CustomerRef, binding.Earner.Program, binding.Earner.Participant, nil,
		binding.BoundAt, binding.SignalAt, binding.WindowEndsAt)
	return err
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
