package fraud

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is the part of the database that the service uses. A method that refuses a
// request returns an *affiliate.Error. A change, its audit record and its event are
// stored in one transaction.
type Store interface {
	// FraudPolicy reads a programme's policy. Errors: NOT_FOUND.
	FraudPolicy(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID) (affiliate.ProgramFraudPolicy, error)
	// PutFraudPolicy replaces a programme's policy and returns the stored policy.
	// Errors: NOT_FOUND.
	PutFraudPolicy(ctx context.Context, scope affiliate.Scope, policy affiliate.ProgramFraudPolicy, by affiliate.Actor) (affiliate.ProgramFraudPolicy, error)
	// FraudEvents reads one page of events, newest first, and counts all events that
	// match the filter, up to affiliate.MaxTotal.
	FraudEvents(ctx context.Context, scope affiliate.Scope, filter affiliate.FraudEventFilter, page affiliate.Page) ([]affiliate.FraudEvent, int64, error)
	// ResolveFraudEvent resolves an open event and rejects its commission, or removes
	// the commission's fraud flag. Errors: NOT_FOUND, FRAUD_EVENT_RESOLVED.
	ResolveFraudEvent(ctx context.Context, r affiliate.FraudResolution) (affiliate.FraudEvent, error)
}
