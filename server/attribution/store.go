package attribution

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Store reads decisions and clicks from the database. The errors with an API error code
// are of type *affiliate.Error.
type Store interface {
	// Decision reads the decision in force about a conversion. Errors: NOT_FOUND.
	Decision(ctx context.Context, scope affiliate.Scope, id affiliate.ConversionID) (attribution.DecisionRecord, error)
	// DecisionOfExternal reads the decision in force about the conversion with the given
	// external id, which is the merchant's id of the transaction. Errors: NOT_FOUND.
	DecisionOfExternal(ctx context.Context, scope affiliate.Scope, external string) (attribution.DecisionRecord, error)
	// Decisions returns one page of decisions, newest first. Superseded decisions are
	// included. It also returns the number of decisions on all pages, and stops counting
	// at affiliate.MaxTotal.
	Decisions(ctx context.Context, scope affiliate.Scope, filter attribution.DecisionFilter, page affiliate.Page) ([]attribution.DecisionRecord, int64, error)
	// AttributedClick reads a stored click of the scope and its conversions. Errors:
	// NOT_FOUND.
	AttributedClick(ctx context.Context, scope affiliate.Scope, id affiliate.ClickID) (attribution.AttributedClick, error)
	// ReadSignals adds the stored promo code, customer and participant to the inputs of a
	// decision about the conversion c. It also adds a promo code of the other mode (test
	// or live), so that the caller can reject the request. It takes no locks.
	ReadSignals(ctx context.Context, c conversion.Conversion, in attribution.Inputs) (attribution.Inputs, error)
}

// Reports is the part of the conversion service that simulations use.
type Reports interface {
	// Check validates a report.
	Check(req proto.Message) affiliate.Violations
	// Prepare converts a valid report to a conversion and to the inputs of a decision
	// about the conversion, including the click. It stores nothing. Errors:
	// NO_ATTRIBUTION_SIGNAL if the report names no click, promo code and customer.
	Prepare(ctx context.Context, scope affiliate.Scope, req *affiliatev1.ReportConversionRequest) (conversion.Conversion, attribution.Inputs, error)
}
