package conversion_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func batchOf(items ...*affiliatev1.ReportConversionRequest) *affiliatev1.ReportConversionsRequest {
	return &affiliatev1.ReportConversionsRequest{Conversions: items}
}

func (w *world) batch(items ...*affiliatev1.ReportConversionRequest) (*affiliatev1.ReportConversionsResponse, *call, error) {
	return w.batchKeyed("", items...)
}

func (w *world) batchKeyed(key string, items ...*affiliatev1.ReportConversionRequest) (*affiliatev1.ReportConversionsResponse, *call, error) {
	ctx := as(w.scope)
	call := &call{}
	if key != "" {
		ctx, call = keyed(ctx, key)
	}
	response, err := w.service.ReportConversions(ctx, batchOf(items...))
	return response, call, err
}

// outcomes returns "ok" for each item that succeeded and the error code for each other.
func outcomes(r *affiliatev1.ReportConversionsResponse) []string {
	var out []string
	for i, result := range r.GetResults() {
		if int(result.GetIndex()) != i {
			out = append(out, fmt.Sprintf("index %d", result.GetIndex()))
		}
		if result.GetSuccess() {
			out = append(out, "ok")
		} else {
			out = append(out, result.GetCode())
		}
	}
	return out
}

func TestBatch_ReturnsResultPerItem(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	live := w.click()
	live.Scope.Mode = affiliate.ModeLive
	live.Program = w.newProgram(live.Scope)
	live.Participant, _ = w.newParticipant(live.Scope, live.Program)
	w.storeClick(live)
	w.mustReport(purchase("order-0", click.ID))
	silent := purchase("order-3", click.ID)
	silent.ClickId = nil
	second := purchase("order-1", click.ID)
	second.AmountCents = ptr(int64(1))

	r, _, err := w.batch(
		purchase("order-1", click.ID),
		purchase("order-0", click.ID),
		second,
		silent,
		purchase("order-4", live.ID),
		purchase("order-2", affiliate.NewID[affiliate.Click](time.Now().Add(-time.Hour))),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ok", "CONVERSION_DUPLICATE", "CONVERSION_DUPLICATE", "NO_ATTRIBUTION_SIGNAL", "MODE_MISMATCH", "ok"}
	if got := outcomes(r); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if s := r.GetSummary(); s.GetTotal() != 6 || s.GetSucceeded() != 2 || s.GetFailed() != 4 {
		t.Errorf("%v", s)
	}
	first, repeat, none := r.GetResults()[0], r.GetResults()[2], r.GetResults()[3]
	if c := first.GetConversion(); first.GetStatusCode() != http.StatusCreated || first.GetId() != c.GetId() || first.Code != nil ||
		first.GetExternalTransactionId() != "order-1" || c.GetAmountCents() != 10_000 || c.GetCommission().GetAmountCents() != 3_000 {
		t.Errorf("%v", first)
	}
	if repeat.GetStatusCode() != http.StatusConflict || repeat.Id != nil || repeat.Conversion != nil || repeat.GetMessage() == "" {
		t.Errorf("%v", repeat)
	}
	if none.GetStatusCode() != http.StatusUnprocessableEntity {
		t.Errorf("%v", none)
	}
	w.wantCount(3, `conversions`)
	w.wantCount(1, `conversions where external_transaction_id = 'order-1' and amount_cents = 10000`)
	w.wantCount(0, `idempotency_keys`)
}

func TestBatch_FailsIfNoItemIsRecorded(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	w.mustReport(purchase("order-1", click.ID))
	_, _, err := w.batchKeyed("k-1", purchase("order-1", click.ID), purchase("order-1", click.ID))
	if err == nil || err.Error() != string(affiliate.ReasonBulkAllFailed) {
		t.Fatal(err)
	}
	// The key can be used again for the corrected batch.
	if _, call, err := w.batchKeyed("k-1", purchase("order-2", click.ID)); err != nil || call.replayed() {
		t.Error(call.replayed(), err)
	}
}

// If several items of a batch have the same external id, the first one is recorded.
func TestBatch_RecordsFirstDuplicate(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	var items []*affiliatev1.ReportConversionRequest
	for i := range 60 {
		item := purchase(fmt.Sprintf("order-%d", i%6), click.ID)
		item.AmountCents = ptr(int64(1000 + i))
		items = append(items, item)
	}
	r, _, err := w.batch(items...)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range outcomes(r) {
		want := "CONVERSION_DUPLICATE"
		if i < 6 {
			want = "ok"
		}
		if got != want {
			t.Errorf("item %d: %s", i, got)
		}
	}
	w.wantCount(6, `conversions where amount_cents between 1000 and 1005`)
	w.wantCount(6, `conversions`)
}

func TestBatch_RepeatedAfterInternalErrorIsCompleted(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	var items []*affiliatev1.ReportConversionRequest
	for i := range 40 {
		items = append(items, purchase(fmt.Sprintf("order-%d", i), click.ID))
	}
	items = append(items, purchase("order-0", click.ID))
	w.store.breakAfter(20)
	if _, _, err := w.batchKeyed("k-1", items...); !errors.Is(err, errDatabase) {
		t.Fatal(err)
	}
	before := w.Texts(`select id::text from conversions`)
	if len(before) == 0 || len(before) == 40 {
		t.Fatalf("%d were recorded before the internal error", len(before))
	}
	w.store.repair()

	second, call, err := w.batchKeyed("k-1", items...)
	if err != nil || call.replayed() {
		t.Fatal(call.replayed(), err)
	}
	if s := second.GetSummary(); s.GetSucceeded() != 40 || outcomes(second)[40] != "CONVERSION_DUPLICATE" {
		t.Errorf("%v", s)
	}
	w.wantCount(40, `conversions`)
	var ids []string
	for _, result := range second.GetResults()[:40] {
		ids = append(ids, result.GetId())
	}
	for _, id := range before {
		if !slices.Contains(ids, id) {
			t.Errorf("%s was recorded before and is not in the response", id)
		}
	}

	third, call, err := w.batchKeyed("k-1", items...)
	if err != nil || !call.replayed() || !proto.Equal(second, third) {
		t.Errorf("%v, %v", call.replayed(), err)
	}
	_, _, err = w.batchKeyed("k-1", items[:40]...)
	pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyReused)
}

// The key of a batch can expire before the keys of its items. A new batch with the same
// key does not get the results of the old items.
func TestBatch_KeyExpiresAfterADay(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	w.store.breakAfter(0)
	if _, _, err := w.batchKeyed("k-1", purchase("order-1", click.ID)); !errors.Is(err, errDatabase) {
		t.Fatal(err)
	}
	w.store.repair()
	w.offset.Store(int64(time.Hour))
	if _, _, err := w.batchKeyed("k-1", purchase("order-1", click.ID)); err != nil {
		t.Fatal(err)
	}
	// The batch's key has expired, but the item's key has not.
	w.offset.Store(int64(24*time.Hour + time.Minute))
	w.wantCount(1, `idempotency_keys where expires_at > $1`, w.now())
	if r, call, err := w.batchKeyed("k-1", purchase("order-2", click.ID)); err != nil || call.replayed() || r.GetSummary().GetSucceeded() != 1 {
		t.Error(r, call.replayed(), err)
	}
}

func TestBatch_ParallelRepeatsRecordOnce(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	var items []*affiliatev1.ReportConversionRequest
	for i := range 20 {
		items = append(items, purchase(fmt.Sprintf("order-%d", i), click.ID))
	}
	const twins = 6
	responses, errs := make([]*affiliatev1.ReportConversionsResponse, twins), make([]error, twins)
	var group sync.WaitGroup
	for i := range twins {
		group.Go(func() { responses[i], _, errs[i] = w.batchKeyed("k-1", items...) })
	}
	group.Wait()
	for i := range twins {
		if errs[i] != nil || !proto.Equal(responses[i], responses[0]) {
			t.Errorf("%v, %v", errs[i], responses[i].GetSummary())
		}
	}
	w.wantCount(20, `conversions`)
}

// A batch waits for clicks that are being ingested as long as a single report does, not
// once for each of its items.
func TestBatch_WaitsOnceForClicks(t *testing.T) {
	w := newWorld(t)
	var items []*affiliatev1.ReportConversionRequest
	for i := range 200 {
		items = append(items, purchase(fmt.Sprintf("order-%d", i), w.click().ID))
	}
	r, _, err := w.batch(items...)
	if err != nil || r.GetSummary().GetSucceeded() != 200 {
		t.Fatal(r.GetSummary(), err)
	}
	// Items that wait look up their click six times, the others once.
	if n := w.store.looks.Load(); n > 200+5*64 {
		t.Errorf("%d look-ups in Postgres", n)
	}
	if n := w.tail.looks.Load(); n != 200 {
		t.Errorf("%d look-ups in the tail", n)
	}
	w.wantCount(200, `awaited_clicks`)
}

func TestBatch_PanicIsInternalError(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	w.store.panics.Store(true)
	_, _, err := w.batch(purchase("order-1", click.ID), purchase("order-2", click.ID))
	var refusal *affiliate.Error
	if err == nil || errors.As(err, &refusal) {
		t.Errorf("%v", err)
	}
}

func TestBatch_ChecksItemsOneByOne(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	bad := purchase("order-2", click.ID)
	bad.Currency, bad.ClickId = ptr("XXY"), ptr("none")
	if found := w.service.Check(batchOf(purchase("order-1", click.ID), bad)); len(found) > 0 {
		t.Errorf("the batch as a whole: %v", found)
	}
	got, _, err := w.batch(purchase("order-1", click.ID), bad)
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, fault := range got.Results[1].GetDetails() {
		fields = append(fields, fault.GetField())
	}
	if want := []string{"conversions[1].currency", "conversions[1].click_id"}; !slices.Equal(fields, want) {
		t.Errorf("%v, want %v", fields, want)
	}
	if !got.Results[0].GetSuccess() || got.Results[1].GetStatusCode() != 400 || got.Results[1].GetCode() != string(affiliate.ReasonValidation) {
		t.Errorf("%v", got.Results)
	}
}

func TestBatch_BoundsTheFaultsOfAnItem(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	bad := purchase("order-2", click.ID)
	for range affiliate.MaxItemViolations + 1 {
		bad.LineItems = append(bad.LineItems, &affiliatev1.LineItem{ProductId: "p", AmountCents: -1})
	}
	got, _, err := w.batch(purchase("order-1", click.ID), bad)
	if err != nil {
		t.Fatal(err)
	}
	details := got.Results[1].GetDetails()
	if len(details) != affiliate.MaxItemViolations+1 || details[0].GetField() != "conversions[1].line_items[0].amount_cents" {
		t.Fatalf("%d faults: %v", len(details), details)
	}
	if last := details[affiliate.MaxItemViolations]; last.GetField() != "conversions[1]" || !strings.Contains(last.GetMessage(), "more faults") {
		t.Errorf("the last: %v", last)
	}
}

// errDatabase is the internal error that a broken store returns.
var errDatabase = errors.New("the database is not available")

// breakAfter makes the store fail after n more reports. The failing calls wait until
// these n reports are recorded, because the first internal error ends the request.
func (s *countingStore) breakAfter(n int64) {
	s.left.Store(n)
	s.through.Store(n)
	s.broken.Store(true)
}

// repair ends the effect of breakAfter.
func (s *countingStore) repair() { s.broken.Store(false) }

func (s *countingStore) RecordConversion(ctx context.Context, r affiliate.Report) (affiliate.ReportResult, error) {
	if s.panics.Load() {
		panic("a bug")
	}
	if s.broken.Load() {
		if s.left.Add(-1) < 0 {
			for s.through.Load() > 0 {
				time.Sleep(time.Millisecond)
			}
			return affiliate.ReportResult{}, errDatabase
		}
		defer s.through.Add(-1)
	}
	if s.failing.Add(-1) >= 0 {
		decide := r.Decide
		r.Decide = func(found affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission, error) {
			d, commission, err := decide(found)
			return d, commission, errors.Join(err, errDatabase)
		}
	}
	return s.Store.RecordConversion(ctx, r)
}
