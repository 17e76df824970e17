package fraud

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is what the service needs of the database. Refusals come back as
// *affiliate.Error. What a person changed is audited and published in the
// transaction of the change.
type Store interface {
	// FraudPolicy reads a programme's policy. Errors: NOT_FOUND.
	FraudPolicy(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID) (affiliate.ProgramFraudPolicy, error)
	// PutFraudPolicy replaces a programme's policy, and returns the one in force.
	// Errors: NOT_FOUND.
	PutFraudPolicy(ctx context.Context, scope affiliate.Scope, policy affiliate.ProgramFraudPolicy, by affiliate.Actor) (affiliate.ProgramFraudPolicy, error)
	// FraudEvents reads one page, newest first, and counts all pages, up to
	// affiliate.MaxTotal.
	FraudEvents(ctx context.Context, scope affiliate.Scope, filter affiliate.FraudEventFilter, page affiliate.Page) ([]affiliate.FraudEvent, int64, error)
	// ResolveFraudEvent ends an open event, with what that means for its commission.
	// Errors: NOT_FOUND, FRAUD_EVENT_RESOLVED.
	ResolveFraudEvent(ctx context.Context, r affiliate.FraudResolution) (affiliate.FraudEvent, error)
}
