package conversion_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func batchOf(items ...*reportRequest) *affiliatev1.ReportConversionsRequest {
	return &affiliatev1.ReportConversionsRequest{Conversions: items}
}

// purchases returns the reports of n purchases with the same click: order-0, order-1 and
// so on.
func purchases(n int, click affiliate.ClickID) []*reportRequest {
	items := make([]*reportRequest, n)
	for i := range items {
		items[i] = purchase(fmt.Sprint("order-", i), click)
	}
	return items
}

// reportBatch reports a batch without an Idempotency-Key.
func (f *fixture) reportBatch(items ...*reportRequest) (*affiliatev1.ReportConversionsResponse, error) {
	return f.service.ReportConversions(f.asKey(), batchOf(items...))
}

// reportBatchWithKey reports a batch with an Idempotency-Key. The second result says
// whether the response is the stored response to an earlier call.
func (f *fixture) reportBatchWithKey(key string, items ...*reportRequest) (*affiliatev1.ReportConversionsResponse, bool, error) {
	ctx, transport := servertest.WithTransport(f.asKey(), key)
	response, err := f.service.ReportConversions(ctx, batchOf(items...))
	return response, transport.Replayed(), err
}

// itemCodes returns the error code of each item, and "ok" for each item that succeeded.
func itemCodes(t *testing.T, r *affiliatev1.ReportConversionsResponse) []string {
	t.Helper()
	codes := make([]string, len(r.GetResults()))
	for i, result := range r.GetResults() {
		if int(result.GetIndex()) != i {
			t.Errorf("result %d has the index %d", i, result.GetIndex())
		}
		if codes[i] = result.GetCode(); result.GetSuccess() {
			codes[i] = "ok"
		}
	}
	return codes
}

func TestBatch_ReturnsResultPerItem(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	liveClick := f.NewClick(f.InOtherMode(pgtest.Rules()).Join("Lia"))
	f.mustReport(purchase("order-0", click.ID))
	withoutSignal := purchase("order-3", click.ID)
	withoutSignal.ClickId = nil
	second := purchase("order-1", click.ID)
	second.AmountCents = new(int64(1))

	r, err := f.reportBatch(
		purchase("order-1", click.ID),
		purchase("order-0", click.ID),
		second,
		withoutSignal,
		purchase("order-4", liveClick.ID),
		purchase("order-2", f.unknownClick()),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ok", "CONVERSION_DUPLICATE", "CONVERSION_DUPLICATE", "NO_ATTRIBUTION_SIGNAL", "MODE_MISMATCH", "ok"}
	if got := itemCodes(t, r); !slices.Equal(got, want) {
		t.Errorf("the items have the codes %q, want %q", got, want)
	}
	if want := (&affiliatev1.BulkSummary{Total: 6, Succeeded: 2, Failed: 4}); !proto.Equal(r.GetSummary(), want) {
		t.Errorf("the summary is %v, want %v", r.GetSummary(), want)
	}
	recorded, duplicate := r.GetResults()[0], r.GetResults()[2]
	servertest.WantFields(t, "recorded item", recorded, &affiliatev1.ReportConversionResult{
		StatusCode: http.StatusCreated, ExternalTransactionId: "order-1", Id: new(recorded.GetConversion().GetId()),
		Conversion: &affiliatev1.ReportConversionResponse{
			AmountCents: 10_000, Commission: &affiliatev1.ConversionCommission{AmountCents: 3_000},
		},
	})
	if duplicate.Id != nil || duplicate.Conversion != nil || duplicate.GetMessage() == "" {
		t.Errorf("the result of a duplicate is %v, want a message and no conversion", duplicate)
	}
	for i, want := range []int32{http.StatusCreated, http.StatusConflict, http.StatusConflict, http.StatusUnprocessableEntity} {
		if got := r.GetResults()[i].GetStatusCode(); got != want {
			t.Errorf("item %d has the status %d, want %d", i, got, want)
		}
	}
	f.wantRows(3, `conversions`)
	f.wantRows(1, `conversions where external_transaction_id = 'order-1' and amount_cents = 10000`)
	f.wantRows(0, `idempotency_keys`)
}

func TestBatch_FailsIfNoItemIsRecorded(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	f.mustReport(purchase("order-1", click.ID))
	_, _, err := f.reportBatchWithKey("k-1", purchase("order-1", click.ID), purchase("order-1", click.ID))
	if err == nil || err.Error() != string(affiliate.ReasonBulkAllFailed) {
		t.Fatalf("a batch of duplicates returned %v, want %s", err, affiliate.ReasonBulkAllFailed)
	}
	// The key can be used again for the corrected batch.
	if _, replayed, err := f.reportBatchWithKey("k-1", purchase("order-2", click.ID)); err != nil || replayed {
		t.Errorf("the corrected batch returned %v, replayed %t", err, replayed)
	}
}

func TestBatch_RecordsFirstOfDuplicates(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	const orders, repeats = 6, 10
	var items []*reportRequest
	var want []string
	for i := range orders * repeats {
		item := purchase(fmt.Sprint("order-", i%orders), click.ID)
		item.AmountCents = new(int64(1000 + i))
		items = append(items, item)
		want = append(want, map[bool]string{true: "ok", false: "CONVERSION_DUPLICATE"}[i < orders])
	}
	r, err := f.reportBatch(items...)
	if err != nil {
		t.Fatal(err)
	}
	if got := itemCodes(t, r); !slices.Equal(got, want) {
		t.Errorf("the items have the codes %q, want %q", got, want)
	}
	f.wantRows(orders, `conversions where amount_cents between 1000 and 1005`)
	f.wantRows(orders, `conversions`)
}

func TestBatch_RepeatedAfterInternalErrorIsCompleted(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	items := append(purchases(40, click.ID), purchase("order-0", click.ID))
	// The item order-39 fails. Its error ends the request, so it must come after the other
	// items are recorded. The item fails first with its group, which is then recorded item by
	// item, and then alone.
	var failures atomic.Int64
	f.useHook(func(sql string, args []any) error {
		if !strings.Contains(sql, insertConversion) || !slices.Contains(args, any("order-39")) {
			return nil
		}
		if failures.Add(1) > 1 {
			for until := time.Now().Add(10 * time.Second); f.Count(`select count(*) from conversions`) < 39 && time.Now().Before(until); {
				time.Sleep(time.Millisecond)
			}
		}
		return errors.New("the connection was lost")
	})
	_, _, err := f.reportBatchWithKey("k-1", items...)
	wantInternalError(t, "the batch", err)
	before := f.Texts(`select id::text from conversions`)
	if len(before) != 39 {
		t.Fatalf("%d conversions were recorded before the internal error, want 39 of 40", len(before))
	}
	f.repair()

	second, replayed, err := f.reportBatchWithKey("k-1", items...)
	if err != nil || replayed {
		t.Fatalf("the repeated batch returned %v, replayed %t", err, replayed)
	}
	if n, last := second.GetSummary().GetSucceeded(), second.GetResults()[40].GetCode(); n != 40 || last != "CONVERSION_DUPLICATE" {
		t.Errorf("%d items succeeded and the last one has the code %q, want 40 and CONVERSION_DUPLICATE", n, last)
	}
	f.wantRows(40, `conversions`)
	var ids []string
	for _, result := range second.GetResults()[:40] {
		ids = append(ids, result.GetId())
	}
	for _, id := range before {
		if !slices.Contains(ids, id) {
			t.Errorf("conversion %s was recorded before and is not in the response", id)
		}
	}

	third, replayed, err := f.reportBatchWithKey("k-1", items...)
	if err != nil || !replayed || !proto.Equal(second, third) {
		t.Errorf("the third batch returned %v, %v, replayed %t; want the response %v, replayed", third, err, replayed, second)
	}
	_, _, err = f.reportBatchWithKey("k-1", items[:40]...)
	pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyReused)
}

// The key of a batch can expire before the keys of its items. A new batch with the same
// key does not get the results of the old items.
func TestBatch_KeyExpiresAfterADay(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	f.failRecording()
	_, _, err := f.reportBatchWithKey("k-1", purchase("order-1", click.ID))
	wantInternalError(t, "the batch", err)
	f.repair()
	f.clock.Advance(time.Hour)
	if _, _, err := f.reportBatchWithKey("k-1", purchase("order-1", click.ID)); err != nil {
		t.Fatal(err)
	}
	// 24 hours after the first call, the batch's key has expired, but the item's key has not.
	f.clock.Advance(day - time.Hour + time.Minute)
	f.wantRows(1, `idempotency_keys where expires_at > $1`, f.clock.Now())
	r, replayed, err := f.reportBatchWithKey("k-1", purchase("order-2", click.ID))
	if err != nil || replayed || r.GetSummary().GetSucceeded() != 1 {
		t.Errorf("a new batch with the expired key returned %v, %v, replayed %t; want one new item", r, err, replayed)
	}
}

func TestBatch_ParallelRepeatsRecordOnce(t *testing.T) {
	f := newFixture(t)
	items := purchases(20, f.NewClick(f.pat).ID)
	const repeats = 6
	responses, errs := make([]*affiliatev1.ReportConversionsResponse, repeats), make([]error, repeats)
	var group sync.WaitGroup
	for i := range repeats {
		group.Go(func() { responses[i], _, errs[i] = f.reportBatchWithKey("k-1", items...) })
	}
	group.Wait()
	for i := range repeats {
		if errs[i] != nil || responses[i].GetSummary().GetSucceeded() != 20 || !proto.Equal(responses[i], responses[0]) {
			t.Errorf("repeat %d returned %v, %v; want 20 recorded items and the response %v", i, responses[i], errs[i], responses[0])
		}
	}
	f.wantRows(20, `conversions`)
}

// A batch can have clicks that are not ingested yet. It waits for them once, as long as a
// single report waits, not once for each of its items.
func TestBatch_WaitsOnceForClicks(t *testing.T) {
	f := newFixture(t)
	// The service looks up the clicks of up to 64 items at the same time. A look-up that
	// waits is repeated 5 times.
	const reports, concurrent, retries = 200, 64, 5
	f.countLookups(nil)
	var items []*reportRequest
	for i := range reports {
		items = append(items, purchase(fmt.Sprint("order-", i), f.UnstoredClick(f.pat).ID))
	}
	r, err := f.reportBatch(items...)
	if err != nil || r.GetSummary().GetSucceeded() != reports {
		t.Fatalf("the batch returned %v, %v; want %d recorded items", r.GetSummary(), err, reports)
	}
	if n := f.clickLookups.Load(); n < reports || n > reports+retries*concurrent {
		t.Errorf("the service made %d look-ups of clicks, want %d to %d", n, reports, reports+retries*concurrent)
	}
	if n := f.stream.reads.Load(); n != reports {
		t.Errorf("the service read the tail of the click stream %d times, want %d", n, reports)
	}
	f.wantRows(reports, `awaited_clicks`)
}

func TestBatch_PanicIsInternalError(t *testing.T) {
	f := newFixture(t)
	f.stream.panics = true
	_, err := f.reportBatch(purchase("order-1", f.unknownClick()), purchase("order-2", f.unknownClick()))
	wantInternalError(t, "a batch that panics", err)
}

func TestBatch_ChecksItemsOneByOne(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	invalid := purchase("order-2", click.ID)
	invalid.Currency, invalid.ClickId = new("XXY"), new("none")
	if err := servertest.Check(f.service, batchOf(purchase("order-1", click.ID), invalid)); err != nil {
		t.Errorf("the check of the whole batch returned %v", err)
	}
	r, err := f.reportBatch(purchase("order-1", click.ID), invalid)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := itemCodes(t, r), []string{"ok", "VALIDATION_ERROR"}; !slices.Equal(got, want) {
		t.Errorf("the items have the codes %q, want %q", got, want)
	}
	if got := r.GetResults()[1].GetStatusCode(); got != http.StatusBadRequest {
		t.Errorf("the invalid item has the status %d, want 400", got)
	}
	var fields []string
	for _, violation := range r.GetResults()[1].GetDetails() {
		fields = append(fields, violation.GetField())
	}
	if want := []string{"conversions[1].currency", "conversions[1].click_id"}; !slices.Equal(fields, want) {
		t.Errorf("the violations are in the fields %q, want %q", fields, want)
	}
}

// The gateway sends the faults of fields that it could not decode. The other fields of the
// item are validated too. Nothing is said about fields that are absent only because they
// could not be decoded.
func TestBatch_ItemHasFaultsOfGatewayAndOfValidation(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	invalid := purchase("order-2", click.ID)
	invalid.ExternalTransactionId, invalid.AmountCents, invalid.SubId = "", nil, new(strings.Repeat("x", 3000))
	r, err := f.service.ReportConversions(f.asKey(), &affiliatev1.ReportConversionsRequest{
		Conversions: []*affiliatev1.ReportConversionRequest{purchase("order-1", click.ID), invalid},
		ItemFaults:  []*affiliatev1.ItemFault{{Index: 1, Field: "amount_cents", Message: "must be an integer"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := itemCodes(t, r), []string{"ok", "VALIDATION_ERROR"}; !slices.Equal(got, want) {
		t.Errorf("the items have the codes %q, want %q", got, want)
	}
	var fields []string
	for _, violation := range r.GetResults()[1].GetDetails() {
		fields = append(fields, violation.GetField())
	}
	if want := []string{"conversions[1].amount_cents", "conversions[1].external_transaction_id", "conversions[1].sub_id"}; !slices.Equal(fields, want) {
		t.Errorf("the violations are in the fields %q, want %q", fields, want)
	}
}

func TestBatch_ViolationsHaveKeysOfClient(t *testing.T) {
	f := newFixture(t)
	invalid := purchase("", f.NewClick(f.pat).ID)
	invalid.LineItems = []*affiliatev1.LineItem{{ProductId: "p", AmountCents: -1}}
	r, err := f.service.ReportConversions(f.asKey(), &affiliatev1.ReportConversionsRequest{
		Conversions: []*affiliatev1.ReportConversionRequest{purchase("order-1", f.NewClick(f.pat).ID), invalid},
		Spellings:   map[string]string{"external_transaction_id": "externalTransactionId", "line_items": "lineItems"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, violation := range r.GetResults()[1].GetDetails() {
		fields = append(fields, violation.GetField())
	}
	if want := []string{"conversions[1].externalTransactionId", "conversions[1].lineItems[0].amount_cents"}; !slices.Equal(fields, want) {
		t.Errorf("the violations are in the fields %q, want %q", fields, want)
	}
}

func TestBatch_LimitsViolationsOfItem(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	invalid := purchase("order-2", click.ID)
	for range affiliate.MaxItemViolations + 1 {
		invalid.LineItems = append(invalid.LineItems, &affiliatev1.LineItem{ProductId: "p", AmountCents: -1})
	}
	r, err := f.reportBatch(purchase("order-1", click.ID), invalid)
	if err != nil {
		t.Fatal(err)
	}
	details := r.GetResults()[1].GetDetails()
	if want := affiliate.MaxItemViolations + 1; len(details) != want {
		t.Fatalf("the item has %d violations, want %d", len(details), want)
	}
	if got, want := details[0].GetField(), "conversions[1].line_items[0].amount_cents"; got != want {
		t.Errorf("the first violation is in %s, want %s", got, want)
	}
	last := details[affiliate.MaxItemViolations]
	if last.GetField() != "conversions[1]" || !strings.Contains(last.GetMessage(), "more faults") {
		t.Errorf(`the last violation is %v, want "more faults" in conversions[1]`, last)
	}
}
