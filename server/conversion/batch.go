package conversion

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const (
	// maxParallelItems is the maximum number of items of a batch that are recorded in
	// parallel. Up to this number of conversions are recorded in one transaction.
	maxParallelItems = 64
	// maxClickWait limits the time that a batch waits for clicks that are not stored yet.
	// An item whose processing starts within maxClickWait after the arrival of the batch
	// waits for its click like a single report (waitSteps). Later items do not wait.
	maxClickWait = 300 * time.Millisecond
)

// ReportConversions records up to 500 conversions. The response contains a result for
// each item. An item that is malformed fails and does not affect the other items.
//
// Items with the same external id or the same customer are recorded in the order of the
// request. So of several items with one external id, the first that does not fail is
// recorded and the others are duplicates, and the payments of a customer are numbered in
// order. All other items are recorded in any order. An internal error ends the request.
// Conversions that were recorded before the error stay recorded.
//
// If the request has an Idempotency-Key, each item has its own key, which is derived from
// the key of the request. A client can send the same batch again: items that are recorded
// have the same result as in the first response, and the others are recorded.
func (s *Service) ReportConversions(ctx context.Context, req *affiliatev1.ReportConversionsRequest) (*affiliatev1.ReportConversionsResponse, error) {
	now, scope := s.now(), server.PrincipalFrom(ctx).Scope()
	faults, spellings := s.faultsOf(req), req.GetSpellings()
	req.Spellings = nil // another spelling does not make another request
	key, err := s.keyFrom(ctx, affiliatev1.ConversionService_ReportConversions_FullMethodName, req, now)
	if err != nil {
		return nil, err
	}
	if key != nil {
		if *key, err = postgres.ClaimKeyAlone(ctx, s.db, scope, *key); err != nil {
			return nil, err
		}
	}
	b := batch{
		service: s, faults: faults, spellings: spellings, key: key, waitUntil: now.Add(maxClickWait), items: req.GetConversions(),
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
		if err := postgres.ReleaseKey(ctx, s.db, scope, *key); err != nil {
			return nil, err
		}
	case replayed == succeeded:
		server.MarkReplayed(ctx)
	}
	return server.RespondToBulk(ctx, &affiliatev1.ReportConversionsResponse{
		Summary: server.BulkSummary(len(b.results), succeeded), Results: b.results,
	})
}

// batch is the state of one ReportConversions call. The items run in several goroutines
// without a lock, because the goroutine of item i writes only results[i] and replayed[i].
type batch struct {
	service   *Service
	faults    map[int]affiliate.Violations // by index; valid items have no entry
	spellings map[string]string            // the client's spelling of each field name
	key       *affiliate.IdempotencyKey
	waitUntil time.Time // when items stop waiting for clicks
	items     []*affiliatev1.ReportConversionRequest
	results   []*affiliatev1.ReportConversionResult
	replayed  []bool
}

// run records all items: the items of a chain in order, and different chains in parallel.
func (b *batch) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxParallelItems)
	for _, indices := range b.chains() {
		group.Go(func() (err error) {
			// The interceptors recover panics in the goroutine of the call only.
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
// recorded in the order of the request. Items with the same external id or customer are in
// one chain. Two items that each share an id with a third item are also in one chain.
func (b *batch) chains() [][]int {
	// This is a union-find data structure. root[i] is i or an earlier item of the same
	// chain. The call first(i) returns the first item of the chain of item i.
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
				root1, root2 := first(earlier), first(i)
				root[max(root1, root2)] = min(root1, root2)
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

// report records the conversion of item i and sets the result of the item. If it returns
// an error, the whole request must end with this error.
func (b *batch) report(ctx context.Context, i int) error {
	// An internal error of another item cancels the context, and ends the recording.
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
		result.Details = detailsOf(i, wrong, b.spellings)
		return nil
	}
	var key *affiliate.IdempotencyKey
	if b.key != nil {
		itemKey := b.key.Item(i)
		key = &itemKey
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

// faultsOf validates the items of a batch and returns the violations by the index of the
// item. The request contains a violation (item_faults) for each field that the gateway could not
// decode. faultsOf adds other violations, except violations that the lack of such a field can cause.
func (s *Service) faultsOf(req *affiliatev1.ReportConversionsRequest) map[int]affiliate.Violations {
	faults := map[int]affiliate.Violations{}
	for _, fault := range req.GetItemFaults() {
		i := int(fault.GetIndex())
		faults[i] = append(faults[i], affiliate.Violation{Field: fault.GetField(), Message: fault.GetMessage()})
	}
	for i, item := range req.GetConversions() {
		undecoded := faults[i]
		for _, wrong := range server.ValidateItem(s, item) {
			fields := []string{}
			wrong.WithFieldNames(func(path string) string { fields = append(fields, spelled(path, req.GetSpellings())); return path })
			if !slices.ContainsFunc(undecoded, func(fault affiliate.Violation) bool { return fault.Affects(fields) }) {
				faults[i] = append(faults[i], wrong)
			}
		}
	}
	return faults
}

// spelled returns a path with the client's spellings of the field names.
func spelled(path string, spellings map[string]string) string {
	if len(spellings) == 0 {
		return path
	}
	steps := strings.Split(path, ".")
	for i, step := range steps {
		name, index, isElement := strings.Cut(step, "[")
		if key, ok := spellings[name]; ok {
			name = key
		}
		if steps[i] = name; isElement {
			steps[i] += "[" + index
		}
	}
	return strings.Join(steps, ".")
}

// detailsOf converts the violations of item i for the item's result. The field names in
// the result are paths in the request body, with the client's spellings. If there are more than
// affiliate.MaxItemViolations violations, detailsOf returns this number of violations and a note that there are more.
func detailsOf(i int, wrong affiliate.Violations, spellings map[string]string) []*affiliatev1.FieldFault {
	inBody := func(path string) string {
		if path == "" {
			return fmt.Sprintf("conversions[%d]", i)
		}
		return fmt.Sprintf("conversions[%d].%s", i, spelled(path, spellings))
	}
	if len(wrong) > affiliate.MaxItemViolations {
		more := affiliate.Violation{Message: "has more faults than these"}
		wrong = append(slices.Clone(wrong[:affiliate.MaxItemViolations]), more)
	}
	details := make([]*affiliatev1.FieldFault, len(wrong))
	for j, v := range wrong {
		fault := v.WithFieldNames(inBody)
		details[j] = &affiliatev1.FieldFault{Field: fault.Field, Message: fault.Sentence()}
	}
	return details
}

// find looks up the click of an item. Before waitUntil it waits like a single report for
// a click that is not stored yet. After that it looks once.
func (b *batch) find(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*attribution.FoundClick, error) {
	l := b.service.lookup
	if l.now().Before(b.waitUntil) {
		return l.find(ctx, workspace, id)
	}
	return l.findNow(ctx, workspace, id)
}
