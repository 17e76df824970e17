package conversion

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

const (
	// itemsAtOnce bounds how many items of a batch are at work at the same time.
	itemsAtOnce = 8
	// patience is how long after its arrival a batch waits for clicks that are
	// being ingested, all of its items together: as long as a single report does.
	patience = 300 * time.Millisecond
)

// ReportConversions records up to 500 conversions, each in a transaction of its
// own. Items that name one external id are recorded in the order given, so that
// the first wins; others in any order. An accident ends the request with what
// was recorded until then.
//
// Under an Idempotency-Key each item has a key of its own: a batch that is sent
// again answers for what was recorded as it did then, and records the rest.
func (s *Service) ReportConversions(ctx context.Context, req *affiliatev1.ReportConversionsRequest) (*affiliatev1.ReportConversionsResponse, error) {
	now, scope := s.now(), server.PrincipalFrom(ctx).Scope()
	key, err := keyFrom(ctx, affiliatev1.ConversionService_ReportConversions_FullMethodName, req, now)
	if err != nil {
		return nil, err
	}
	if key != nil {
		if err := s.store.ClaimKey(ctx, scope, *key); err != nil {
			return nil, err
		}
	}
	b := batch{
		service: s, key: key, patientUntil: now.Add(patience), items: req.GetConversions(),
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
	failed := len(b.results) - succeeded
	response := &affiliatev1.ReportConversionsResponse{
		Summary: &affiliatev1.BulkSummary{
			Total: int32(len(b.results)), Succeeded: int32(succeeded), Failed: int32(failed), //nolint:gosec // at most 500
		},
		Results: b.results,
	}
	return server.AnswerBulk(ctx, response, succeeded, failed)
}

// batch is a request at work. Each item writes to its own places only.
type batch struct {
	service      *Service
	key          *affiliate.IdempotencyKey
	patientUntil time.Time
	items        []*affiliatev1.ReportConversionRequest
	results      []*affiliatev1.ReportConversionResult
	replayed     []bool
}

// run reports all items, those of one external id one after the other.
func (b *batch) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(itemsAtOnce)
	for _, indices := range b.byExternalID() {
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

// byExternalID are the places of the items by external id, in the order of the
// first of each.
func (b *batch) byExternalID() [][]int {
	var groups [][]int
	place := map[string]int{}
	for i, item := range b.items {
		at, seen := place[item.GetExternalTransactionId()]
		if !seen {
			at = len(groups)
			place[item.GetExternalTransactionId()] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], i)
	}
	return groups
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
		code, message := string(refusal.Reason), refusal.Message
		if message == "" {
			message = server.Sentence(refusal.Reason)
		}
		result.StatusCode, result.Code, result.Message = server.StatusCode(refusal.Reason), &code, &message
		return nil
	}
	return err
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
