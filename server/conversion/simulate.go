package conversion

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Prepare converts a valid report to a conversion and to the inputs of a decision about
// the conversion. It stores nothing. It looks up the click once and does not wait for a
// click that is not stored yet. Errors: NO_ATTRIBUTION_SIGNAL if the report names no click,
// promo code and customer.
func (s *Service) Prepare(
	ctx context.Context, scope affiliate.Scope, req *affiliatev1.ReportConversionRequest,
) (conversion.Conversion, attribution.Inputs, error) {
	c, err := s.conversionOf(ctx, scope, req, s.now())
	if err != nil {
		return c, attribution.Inputs{}, err
	}
	in := inputsOf(c)
	if namesNoSignal(c) {
		return c, in, affiliate.Refuse(affiliate.ReasonNoAttributionSignal)
	}
	if c.Click == nil {
		return c, in, nil
	}
	in.FoundClick, err = s.lookup.findNow(ctx, scope.Workspace, *c.Click)
	return c, in, err
}

// findNow looks up a click once, in Postgres and in the click stream. Unlike find, it
// does not wait.
func (l lookup) findNow(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*attribution.FoundClick, error) {
	if !l.plausibleID(id) {
		return nil, nil
	}
	found, err := l.clicks.Find(ctx, workspace, id)
	if err != nil || found != nil {
		return found, err
	}
	return l.findInTail(ctx, workspace, id)
}
