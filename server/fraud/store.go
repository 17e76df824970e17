package fraud

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
)

// Store reads and changes fraud policies and fraud events in the database. The errors
// with an API error code are of type *affiliate.Error. A change, its audit record and its
// webhook event are stored in one transaction.
type Store interface {
	// FraudPolicy reads the fraud policy of a programme. Errors: NOT_FOUND.
	FraudPolicy(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID) (fraud.ProgramFraudPolicy, error)
	// PutFraudPolicy replaces the fraud policy of a programme and returns the stored
	// policy. Errors: NOT_FOUND.
	PutFraudPolicy(ctx context.Context, scope affiliate.Scope, policy fraud.ProgramFraudPolicy, by affiliate.Actor) (fraud.ProgramFraudPolicy, error)
	// FraudEvents reads one page of fraud events, newest first, and counts all fraud
	// events that match the filter, up to affiliate.MaxTotal.
	FraudEvents(ctx context.Context, scope affiliate.Scope, filter fraud.EventFilter, page affiliate.Page) ([]fraud.Event, int64, error)
	// ResolveFraudEvent confirms or dismisses an open fraud event. If the event is
	// confirmed, it rejects the commission. If the event is dismissed, it removes the
	// fraud flag of the commission. Errors: NOT_FOUND, FRAUD_EVENT_RESOLVED.
	ResolveFraudEvent(ctx context.Context, r fraud.Resolution) (fraud.Event, error)
}
