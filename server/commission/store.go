package commission

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is what the service needs of the database. Refusals come back as
// *affiliate.Error.
type Store interface {
	// ProgramScope is the workspace and mode of a programme, whoever's it is.
	// Errors: NOT_FOUND.
	ProgramScope(ctx context.Context, id affiliate.ProgramID) (affiliate.Scope, error)
	// Commissions reads one page and counts all pages; with a search up to
	// affiliate.MaxSearchTotal.
	Commissions(ctx context.Context, scope affiliate.Scope, filter affiliate.CommissionFilter, order affiliate.CommissionOrder, page affiliate.Page) ([]affiliate.CommissionItem, int64, error)
	// CommissionStats counts and sums them; with a search up to
	// affiliate.MaxSearchTotal. Errors: NOT_FOUND for the filter's programme.
	CommissionStats(ctx context.Context, scope affiliate.Scope, filter affiliate.CommissionFilter) (affiliate.CommissionStats, error)
	// ExportCommissions hands all of them to each, as one snapshot has them, in one
	// row that is filled anew; each's error ends it. Errors: SERVICE_UNAVAILABLE
	// while too many exports run.
	ExportCommissions(ctx context.Context, scope affiliate.Scope, filter affiliate.CommissionFilter, order affiliate.CommissionOrder, each func(*affiliate.CommissionRow) error) error
	// Commission reads one commission of a programme. Errors: NOT_FOUND.
	Commission(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID) (affiliate.CommissionDetail, error)
	// MoveCommission makes a move, with its history, event and audit line, and
	// returns what it left. Errors: NOT_FOUND, and those of the move.
	MoveCommission(ctx context.Context, t affiliate.CommissionTransition) (affiliate.CommissionDetail, error)
}
