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
	// maxParallelItems is the number of items of a batch that are reported in parallel.
	// The store records up to the same number of reports in one transaction.
	maxParallelItems = 64
	// maxClickWait is the time after the arrival of a batch in which its items wait for
	// clicks that are being ingested. It bounds all items together and equals the longest
	// wait of a single report.
	maxClickWait = 300 * time.Millisecond
)

// ReportConversions records up to 500 conversions. Each item has its own result. A
// malformed item fails without an effect on the others. Items with the same external id
// or the same customer are recorded in the order of the request, so that the first of
// several duplicates is recorded and payments are numbered in their order. All other
// items are recorded in any order. An internal error ends the request, and the items
// recorded until then stay recorded.
//
// If the request has an Idempotency-Key, each item has a key derived from it. A client
// can therefore send the batch again: items that are recorded already get their first
// result again, and the rest is recorded.
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
		service: s, faults: s.faultsOf(req), key: key, waitUntil: now.Add(maxClickWait), items: req.GetConversions(),
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
	return server.RespondToBulk(ctx, &affiliatev1.ReportConversionsResponse{
		Summary: server.BulkSummary(len(b.results), succeeded), Results: b.results,
	})
}

// batch is the state of one ReportConversions call. The goroutine of item i writes only
// to results[i] and replayed[i], so no lock is needed.
type batch struct {
	service   *Service
	faults    map[int]affiliate.Violations // by the index of the malformed item
	key       *affiliate.IdempotencyKey
	waitUntil time.Time // when items stop waiting for clicks
	items     []*affiliatev1.ReportConversionRequest
	results   []*affiliatev1.ReportConversionResult
	replayed  []bool
}

// run reports all items. It reports the items of one chain one after the other.
func (b *batch) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxParallelItems)
	for _, indices := range b.chains() {
		group.Go(func() (err error) {
			// The server's interceptors recover panics only in the goroutine of the call.
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

// chains groups the indices of the items into chains. The items of a chain must be
// recorded in the order of the request. Two items are in one chain if they have the same
// external id or the same customer, or if other items connect them in this way.
func (b *batch) chains() [][]int {
	// The chains are found with a union-find structure. root[i] leads, in one or more
	// steps, from item i to the first item of its chain.
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

// report records item i and stores its result. It returns an error only if an internal
// error must end the whole request.
func (b *batch) report(ctx context.Context, i int) error {
	// After an internal error of another item, the context has ended and no further item
	// may begin.
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

// faultsOf validates the items and returns the violations of each malformed item by its
// index. For an item that the gateway could not decode, it returns the faults that the
// gateway reported.
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

// detailsOf returns the details of item i, which has the given violations. The field
// names are paths in the request body, which are the same over gRPC and REST. detailsOf
// returns at most affiliate.MaxItemViolations violations, and a note if there are more.
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

// find looks up an item's click. Until waitUntil it waits for the click as a single
// report does. After that it looks once and does not wait.
func (b *batch) find(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*affiliate.FoundClick, error) {
	l := b.service.lookup
	if l.now().Before(b.waitUntil) {
		return l.find(ctx, workspace, id)
	}
	return l.findNow(ctx, workspace, id)
}
