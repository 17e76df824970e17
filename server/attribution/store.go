package attribution

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Store is what the service needs of the database. It changes nothing. Refusals
// come back as *affiliate.Error.
type Store interface {
	// Decision reads the decision in force about a conversion. Errors: NOT_FOUND.
	Decision(ctx context.Context, scope affiliate.Scope, id affiliate.ConversionID) (affiliate.DecisionRecord, error)
	// DecisionOfExternal is Decision by the merchant's own id. Errors: NOT_FOUND.
	DecisionOfExternal(ctx context.Context, scope affiliate.Scope, external string) (affiliate.DecisionRecord, error)
	// Decisions reads one page, newest first, superseded ones too, and counts all
	// pages up to affiliate.MaxTotal.
	Decisions(ctx context.Context, scope affiliate.Scope, filter affiliate.DecisionFilter, page affiliate.Page) ([]affiliate.DecisionRecord, int64, error)
	// AttributedClick reads a stored click of the mode. Errors: NOT_FOUND.
	AttributedClick(ctx context.Context, scope affiliate.Scope, id affiliate.ClickID) (affiliate.AttributedClick, error)
	// SeeSignals completes the inputs of a decision about a conversion with what is
	// found now, in either mode, and holds on to nothing.
	SeeSignals(ctx context.Context, c affiliate.Conversion, in affiliate.AttributionInputs) (affiliate.AttributionInputs, error)
}

// Reports is what reports of conversions share with simulations of them.
type Reports interface {
	// Check finds what is wrong with a report, as with one that is meant.
	Check(req proto.Message) affiliate.Violations
	// Prepare makes of a checked report what could be decided about it now: the
	// conversion, which nothing stores, and its inputs with the click. Errors:
	// NO_ATTRIBUTION_SIGNAL.
	Prepare(ctx context.Context, scope affiliate.Scope, req *affiliatev1.ReportConversionRequest) (affiliate.Conversion, affiliate.AttributionInputs, error)
}
