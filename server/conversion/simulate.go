package conversion

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Prepare makes of a checked report what could be decided about it now: the
// conversion, which nothing stores, and its inputs with the click. A click that
// is neither stored nor in the stream's tail is not waited for. Errors:
// NO_ATTRIBUTION_SIGNAL.
func (s *Service) Prepare(
	ctx context.Context, scope affiliate.Scope, req *affiliatev1.ReportConversionRequest,
) (affiliate.Conversion, affiliate.AttributionInputs, error) {
	c := s.conversionOf(scope, req, s.now())
	in := inputsOf(c)
	if c.Click == nil && c.PromoCode == nil {
		return c, in, affiliate.Refuse(affiliate.ReasonNoAttributionSignal)
	}
	if c.Click == nil {
		return c, in, nil
	}
	var err error
	in.FoundClick, err = s.lookup.look(ctx, scope.Workspace, *c.Click)
	return c, in, err
}

// look is find without its wait.
func (l lookup) look(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*affiliate.FoundClick, error) {
	if !l.mayArrive(id) {
		return nil, nil
	}
	found, err := l.store.FindClick(ctx, workspace, id)
	if err != nil || found != nil {
		return found, err
	}
	return l.findInTail(ctx, workspace, id)
}
