package conversion

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

const (
	// itemsAtOnce bounds how many items of a batch are at work at the same time: as
	// many as the store records together.
	itemsAtOnce = 64
	// patience is how long after its arrival a batch waits for clicks that are
	// being ingested, all of its items together: as long as a single report does.
	patience = 300 * time.Millisecond
)

// ReportConversions records up to 500 conversions, each of which has its own
// outcome; a malformed one fails alone. Items that name one external id, or one customer, are recorded in the order
// given, so that the first wins and payments keep their numbers; others in any
// order. An accident ends the request with what was recorded until then.
//
// Under an Idempotency-Key each item has a key of its own: a batch that is sent
// again answers for what was recorded as it did then, and records the rest.
func (s *Service) ReportConversions(ctx context.Context, req *affiliatev1.ReportConversionsRequest) (*affiliatev1.ReportConversionsResponse, error) {
	now, scope := s.now(), server.PrincipalFrom(ctx).Scope()
	key, err := s.keyFrom(ctx, affiliatev1.ConversionService_ReportConversions_FullMethodName, req, now)
	if err != nil {
		return nil, err
	}
	if key != nil {
		if err := s.store.ClaimKey(ctx, scope, *key); err != nil {
			return nil, err
		}
	}
	b := batch{
		service: s, faults: s.faultsOf(req), key: key, patientUntil: now.Add(patience), items: req.GetConversions(),
		results: make([]*affiliatev1.ReportConversionResult, len(req.GetConversions())), replayed: make([]bool, len(req.GetConversions())),
	}
	if err := b.run(ctx); err != nil {
		return nil, err
	}
	var succeeded, replayed int
	for i, result := range b.results {
		if result.GetSuccess() {
			succeeded++
		}
		if b.replayed[i] {
			replayed++
		}
	}
	switch {
	case key == nil:
	case succeeded == 0:
		if err := s.store.ReleaseKey(ctx, scope, *key); err != nil {
			return nil, err
		}
	case replayed == succeeded:
		server.MarkReplayed(ctx)
	}
	return server.AnswerBulk(ctx, &affiliatev1.ReportConversionsResponse{
		Summary: server.BulkSummary(len(b.results), succeeded), Results: b.results,
	})
}

// batch is a request at work. Each item writes to its own places only.
type batch struct {
	service      *Service
	faults       map[int]affiliate.Violations // of malformed items
	key          *affiliate.IdempotencyKey
	patientUntil time.Time
	items        []*affiliatev1.ReportConversionRequest
	results      []*affiliatev1.ReportConversionResult
	replayed     []bool
}

// run reports all items, those of one chain one after the other.
func (b *batch) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(itemsAtOnce)
	for _, indices := range b.chains() {
		group.Go(func() (err error) {
			// The frame's guard does not reach into other goroutines.
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
				}
			}()
			for _, i := range indices {
				if err := b.report(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// chains are the places of the items that have to be recorded one after the
// other, in the order given: those that share an external id or a customer, with
// one another or through others.
func (b *batch) chains() [][]int {
	// root leads from a place to the first of its chain.
	root := make([]int, len(b.items))
	var first func(i int) int
	first = func(i int) int {
		if root[i] != i {
			root[i] = first(root[i])
		}
		return root[i]
	}
	type name struct{ kind, value string }
	seen := map[name]int{}
	for i, item := range b.items {
		root[i] = i
		for _, n := range []name{{"external", item.GetExternalTransactionId()}, {"customer", item.GetCustomerId()}} {
			if n.value == "" {
				continue
			}
			if earlier, ok := seen[n]; ok {
				one, other := first(earlier), first(i)
				root[max(one, other)] = min(one, other)
			}
			seen[n] = i
		}
	}
	chains := make([][]int, len(b.items))
	for i := range b.items {
		chains[first(i)] = append(chains[first(i)], i)
	}
	return slices.DeleteFunc(chains, func(chain []int) bool { return len(chain) == 0 })
}

// report records the item at a place and notes what became of it. An error is an
// accident.
func (b *batch) report(ctx context.Context, i int) error {
	// What is at work when an accident ends the request is ended with it, and what
	// has not begun does not begin.
	if err := ctx.Err(); err != nil {
		return err
	}
	item := b.items[i]
	result := &affiliatev1.ReportConversionResult{
		Index: int32(i), ExternalTransactionId: item.GetExternalTransactionId(), //nolint:gosec // at most 500
	}
	b.results[i] = result
	if wrong := b.faults[i]; len(wrong) > 0 {
		result.StatusCode, result.Code, result.Message = server.Failure(affiliate.Refuse(affiliate.ReasonValidation))
		result.Details = detailsOf(i, wrong)
		return nil
	}
	var key *affiliate.IdempotencyKey
	if b.key != nil {
		own := b.key.Item(i)
		key = &own
	}
	response, replayed, err := b.service.report(ctx, item, key, b.find)
	var refusal *affiliate.Error
	switch {
	case err == nil:
		b.replayed[i] = replayed
		result.Success, result.StatusCode = true, http.StatusCreated
		result.Id, result.Conversion = &response.Id, response
		return nil
	case errors.As(err, &refusal):
		result.StatusCode, result.Code, result.Message = server.Failure(refusal)
		return nil
	}
	return err
}

// faultsOf validates the items and returns what is wrong with them, by their
// places. Items that the gateway could not decode have its faults.
func (s *Service) faultsOf(req *affiliatev1.ReportConversionsRequest) map[int]affiliate.Violations {
	faults := map[int]affiliate.Violations{}
	for _, fault := range req.GetItemFaults() {
		i := int(fault.GetIndex())
		faults[i] = append(faults[i], affiliate.Violation{Field: fault.GetField(), Message: fault.GetMessage()})
	}
	for i, item := range req.GetConversions() {
		if len(faults[i]) > 0 {
			continue
		}
		if wrong := server.ValidateItem(s, item); len(wrong) > 0 {
			faults[i] = wrong
		}
	}
	return faults
}

// detailsOf names the fields of a malformed item by their paths in the body, which
// are the same over gRPC and REST, up to affiliate.MaxItemViolations of them.
func detailsOf(i int, wrong affiliate.Violations) []*affiliatev1.FieldFault {
	inBody := func(path string) string {
		if path == "" {
			return fmt.Sprintf("conversions[%d]", i)
		}
		return fmt.Sprintf("conversions[%d].%s", i, path)
	}
	if len(wrong) > affiliate.MaxItemViolations {
		more := affiliate.Violation{Message: "has more faults than these"}
		wrong = append(slices.Clone(wrong[:affiliate.MaxItemViolations]), more)
	}
	details := make([]*affiliatev1.FieldFault, len(wrong))
	for j, v := range wrong {
		spelled := v.WithFieldNames(inBody)
		details[j] = &affiliatev1.FieldFault{Field: spelled.Field, Message: spelled.Sentence()}
	}
	return details
}

// find looks for an item's click as a single report does, but does not wait for
// it longer than the batch as a whole does.
func (b *batch) find(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*affiliate.FoundClick, error) {
	l := b.service.lookup
	if l.now().Before(b.patientUntil) {
		return l.find(ctx, workspace, id)
	}
	return l.look(ctx, workspace, id)
}
