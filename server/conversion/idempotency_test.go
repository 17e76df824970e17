package conversion_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// call is the transport of one call. It records the response header.
type call struct {
	grpc.ServerTransportStream
	mu     sync.Mutex
	header metadata.MD
}

func (c *call) SetHeader(md metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header = metadata.Join(c.header, md)
	return nil
}

func (c *call) replayed() bool { return len(c.header.Get("idempotent-replayed")) > 0 }

// keyed returns the context of a call with an Idempotency-Key.
func keyed(ctx context.Context, key string) (context.Context, *call) {
	c := &call{}
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
	return grpc.NewContextWithServerTransportStream(ctx, c), c
}

func (w *world) reportKeyed(key string, req *affiliatev1.ReportConversionRequest) (*affiliatev1.ReportConversionResponse, bool, error) {
	ctx, call := keyed(as(w.scope), key)
	response, err := w.service.ReportConversion(ctx, req)
	return response, call.replayed(), err
}

func TestIdempotencyKey_ReturnsFirstResponse(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	first, replayed, err := w.reportKeyed("k-1", purchase("order-1", click.ID))
	if err != nil || replayed {
		t.Fatal(replayed, err)
	}
	// Later changes do not appear in the repeated response.
	w.Exec(`update commissions set status = 'approved', version = version + 1`)
	w.offset.Store(int64(23 * time.Hour))
	looks := w.store.looks.Load()
	again, replayed, err := w.reportKeyed("k-1", purchase("order-1", click.ID))
	if err != nil || !replayed || !proto.Equal(first, again) {
		t.Errorf("%v, %v, %v; want %v", again, replayed, err, first)
	}
	if w.store.looks.Load() != looks {
		t.Error("a repeated report looks for its click")
	}
	w.wantCount(1, `conversions`)
	w.wantCount(1, `idempotency_keys`)
}

// The response to a repeated key equals the first response byte by byte.
func TestIdempotencyKey_ReplayIsByteIdentical(t *testing.T) {
	w := suspicious(t, affiliate.FraudFlag)
	w.code(w.scope, w.program, w.participant, "spring10", "")
	lead := purchase("order-lead", w.aged().ID)
	lead.EventType, lead.AmountCents, lead.Currency = affiliatev1.EventType_EVENT_TYPE_LEAD, nil, nil
	if _, err := w.service.RefundConversion(as(w.scope), &affiliatev1.RefundConversionRequest{
		ExternalTransactionId: "order-refunded", ExternalRefundId: "refund-1", AmountCents: ptr(int64(5_000)),
	}); err != nil {
		t.Fatal(err)
	}
	for key, req := range map[string]*affiliatev1.ReportConversionRequest{
		"click":        purchase("order-click", w.aged().ID),
		"lead":         lead,
		"code":         withCode("order <&>\u2028", "SPRING10"),
		"suspect":      from(purchase("order-suspect", w.aged().ID), partnerEmail, "", ""),
		"refunded":     purchase("order-refunded", w.aged().ID),
		"unattributed": purchase("order-unknown", w.clickAt(w.now().Add(-time.Hour)).ID),
	} {
		first, replayed, err := w.reportKeyed(key, req)
		if err != nil || replayed {
			t.Fatal(key, replayed, err)
		}
		again, replayed, err := w.reportKeyed(key, req)
		if err != nil || !replayed || !bytes.Equal(encoded(t, again), encoded(t, first)) {
			t.Errorf("%s: %v, %v, %v; want %v", key, again, replayed, err, first)
		}
		if key == "suspect" && len(first.GetFraud().GetSignals()) == 0 || key == "refunded" && first.GetCommission().GetAmountCents() != 1_500 ||
			key == "code" && first.GetAttribution().GetMethod() != "promo_code" || key == "unattributed" && first.GetAttributed() {
			t.Errorf("%s: %v", key, first)
		}
	}
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Earlier versions of the service stored the response instead of the outcome.
func TestIdempotencyKey_ReplaysStoredResponse(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	first, _, err := w.reportKeyed("k-1", purchase("order-1", click.ID))
	if err != nil {
		t.Fatal(err)
	}
	first.ExternalTransactionId = "as it was stored"
	w.Exec(`update idempotency_keys set response = $1`, encoded(t, first))
	again, replayed, err := w.reportKeyed("k-1", purchase("order-1", click.ID))
	if err != nil || !replayed || !proto.Equal(first, again) {
		t.Errorf("%v, %v, %v; want %v", again, replayed, err, first)
	}
}

func TestIdempotencyKey_BelongsToBodyMethodAndScope(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	if _, _, err := w.reportKeyed("k-1", purchase("order-1", click.ID)); err != nil {
		t.Fatal(err)
	}
	other := purchase("order-1", click.ID)
	other.AmountCents = ptr(int64(9_999))
	_, _, err := w.reportKeyed("k-1", other)
	pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyReused)

	if _, replayed, err := w.reportKeyed("k-2", purchase("order-2", click.ID)); err != nil || replayed {
		t.Error(replayed, err)
	}
	ctx, call := keyed(as(w.scope), "k-1")
	if _, err := w.service.ReportConversions(ctx, batchOf(purchase("order-3", click.ID))); err != nil || call.replayed() {
		t.Error(call.replayed(), err)
	}
	live := affiliate.Scope{Workspace: w.scope.Workspace, Mode: affiliate.ModeLive}
	for name, scope := range map[string]affiliate.Scope{"mode": live, "workspace": {Workspace: w.NewWorkspace(), Mode: w.scope.Mode}} {
		ctx, call := keyed(as(scope), "k-1")
		req := purchase("order-1", affiliate.NewID[affiliate.Click](time.Now().Add(-time.Hour)))
		if _, err := w.service.ReportConversion(ctx, req); err != nil || call.replayed() {
			t.Error(name, call.replayed(), err)
		}
	}
}

func TestIdempotencyKey_ExpiresAfterADay(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	if _, _, err := w.reportKeyed("k-1", purchase("order-1", click.ID)); err != nil {
		t.Fatal(err)
	}
	w.offset.Store(int64(24*time.Hour + time.Minute))
	_, _, err := w.reportKeyed("k-1", purchase("order-1", click.ID))
	pgtest.RequireRefusal(t, err, affiliate.ReasonConversionDuplicate)
	if _, replayed, err := w.reportKeyed("k-1", purchase("order-2", click.ID)); err != nil || replayed {
		t.Error(replayed, err)
	}
	if _, replayed, err := w.reportKeyed("k-1", purchase("order-2", click.ID)); err != nil || !replayed {
		t.Error(replayed, err)
	}
}

func TestIdempotencyKey_IsFreeAfterRejectedReport(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	w.mustReport(purchase("order-1", click.ID))
	_, _, err := w.reportKeyed("k-1", purchase("order-1", click.ID))
	pgtest.RequireRefusal(t, err, affiliate.ReasonConversionDuplicate)
	w.wantCount(0, `idempotency_keys`)
	if _, replayed, err := w.reportKeyed("k-1", purchase("order-2", click.ID)); err != nil || replayed {
		t.Error(replayed, err)
	}
}

// The checks run in this order: malformed key, no signal, key reused with another body,
// other mode, duplicate.
func TestIdempotencyKey_OrderOfChecks(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	if _, _, err := w.reportKeyed("k-1", purchase("order-1", click.ID)); err != nil {
		t.Fatal(err)
	}
	live := w.click()
	live.Scope.Mode = affiliate.ModeLive
	live.Program = w.newProgram(live.Scope)
	live.Participant, _ = w.newParticipant(live.Scope, live.Program)
	w.storeClick(live)
	silent := purchase("order-1", click.ID)
	silent.ClickId = nil

	for name, tc := range map[string]struct {
		key    string
		req    *affiliatev1.ReportConversionRequest
		reason affiliate.Reason
		field  string
	}{
		"malformed, no signal":        {"k 1", silent, affiliate.ReasonValidation, "Idempotency-Key"},
		"empty":                       {"", silent, affiliate.ReasonValidation, "Idempotency-Key"},
		"too long":                    {strings.Repeat("k", 81), silent, affiliate.ReasonValidation, "Idempotency-Key"},
		"no signal, reused":           {"k-1", silent, affiliate.ReasonNoAttributionSignal, ""},
		"reused, other mode":          {"k-1", purchase("order-1", live.ID), affiliate.ReasonIdempotencyKeyReused, ""},
		"other mode, duplicate":       {"k-2", purchase("order-1", live.ID), affiliate.ReasonModeMismatch, ""},
		"duplicate under another key": {"k-2", purchase("order-1", click.ID), affiliate.ReasonConversionDuplicate, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := w.reportKeyed(tc.key, tc.req)
			pgtest.RequireRefusal(t, err, tc.reason, tc.field)
		})
	}
	w.wantCount(1, `conversions`)
	w.wantCount(1, `idempotency_keys`)
}

func TestIdempotencyKey_ParallelRepeatsGetOneResponse(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	const twins = 50
	responses, errs := make([]*affiliatev1.ReportConversionResponse, twins), make([]error, twins)
	replays := make([]bool, twins)
	var group sync.WaitGroup
	for i := range twins {
		group.Go(func() { responses[i], replays[i], errs[i] = w.reportKeyed("k-1", purchase("order-1", click.ID)) })
	}
	group.Wait()
	firsts := 0
	for i := range twins {
		if errs[i] != nil || !proto.Equal(responses[i], responses[0]) {
			t.Errorf("%v, %v; want %v", responses[i], errs[i], responses[0])
		}
		if !replays[i] {
			firsts++
		}
	}
	if firsts != 1 {
		t.Errorf("%d responses are not replays", firsts)
	}
	w.wantCount(1, `conversions`)
	w.wantCount(1, `commissions`)
	w.wantCount(1, `events where type = 'conversion.created'`)
}

func TestIdempotencyKey_ParallelDifferentBodiesRecordOne(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	const reports = 50
	errs := make([]error, reports)
	var group sync.WaitGroup
	for i := range reports {
		req := purchase("order-1", click.ID)
		req.AmountCents = ptr(int64(100 + i))
		group.Go(func() { _, _, errs[i] = w.reportKeyed("k-1", req) })
	}
	group.Wait()
	var won int
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !refused(err, affiliate.ReasonIdempotencyKeyReused):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d were recorded", won)
	}
	w.wantCount(1, `conversions`)
}

// If a report fails with an internal error, a parallel report with the same key is
// recorded.
func TestIdempotencyKey_RepeatOfFailedReportIsRecorded(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	const twins = 20
	w.store.failing.Store(twins / 2)
	errs := make([]error, twins)
	var group sync.WaitGroup
	for i := range twins {
		group.Go(func() { _, _, errs[i] = w.reportKeyed("k-1", purchase("order-1", click.ID)) })
	}
	group.Wait()
	var won, failed int
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case errors.Is(err, errDatabase):
			failed++
		default:
			t.Error(err)
		}
	}
	if won != twins-failed || won < twins/2 {
		t.Errorf("%d won, %d failed", won, failed)
	}
	w.wantCount(1, `conversions`)
}
