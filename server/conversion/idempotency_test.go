package conversion_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// reportWithKey reports a conversion with an Idempotency-Key. The second result says
// whether the response is the stored response to an earlier call.
func (f *fixture) reportWithKey(key string, req *reportRequest) (*affiliatev1.ReportConversionResponse, bool, error) {
	ctx, transport := servertest.WithTransport(f.asKey(), key)
	response, err := f.service.ReportConversion(ctx, req)
	return response, transport.Replayed(), err
}

// recordWithKey reports a conversion with an Idempotency-Key and ends the test unless the
// conversion is recorded by this call.
func (f *fixture) recordWithKey(key string, req *reportRequest) *affiliatev1.ReportConversionResponse {
	f.Helper()
	response, replayed, err := f.reportWithKey(key, req)
	if err != nil || replayed {
		f.Fatalf("ReportConversion with the key %q and %v returned %v, replayed %t; want a new conversion", key, req, err, replayed)
	}
	return response
}

// wantReplay reports a conversion with an Idempotency-Key and expects the response to an
// earlier call.
func (f *fixture) wantReplay(key string, req *reportRequest, want *affiliatev1.ReportConversionResponse) {
	f.Helper()
	got, replayed, err := f.reportWithKey(key, req)
	if err != nil || !replayed || !bytes.Equal(encoded(f, got), encoded(f, want)) {
		f.Errorf("ReportConversion with the repeated key %q returned %v, %v, replayed %t; want the same bytes as %v", key, got, err, replayed, want)
	}
}

func encoded(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestIdempotencyKey_ReturnsFirstResponse(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	f.countLookups(nil)
	first := f.recordWithKey("k-1", purchase("order-1", click.ID))
	// Later changes do not appear in the repeated response.
	if err := f.moveCommission(first, commission.MoveReject); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(23 * time.Hour)
	f.wantLookups(1, 0)
	f.wantReplay("k-1", purchase("order-1", click.ID), first)
	f.wantLookups(1, 0)
	f.wantRows(1, `conversions`)
	f.wantRows(1, `idempotency_keys`)
}

func TestIdempotencyKey_ReplaysEveryKindOfResponse(t *testing.T) {
	f := newFixture(t, withPolicy(fraud.Flag))
	f.NewPromoCode(f.pat, "spring10")
	f.mustRefund("order-refunded", "refund-1", 5_000)
	for name, tc := range map[string]struct {
		req  *reportRequest
		want *affiliatev1.ReportConversionResponse
	}{
		"click": {purchase("order-click", f.olderClick(f.pat).ID), &affiliatev1.ReportConversionResponse{Attributed: true}},
		"lead":  {lead("order-lead", f.olderClick(f.pat).ID), &affiliatev1.ReportConversionResponse{Attributed: true}},
		"promo code, special characters": {purchaseWithCode("order <&>\u2028", "SPRING10"), &affiliatev1.ReportConversionResponse{
			Attribution: &affiliatev1.ConversionAttribution{Method: new("promo_code")},
		}},
		"fraud signals": {
			withBuyer(purchase("order-suspicious", f.olderClick(f.pat).ID), partnerEmail, "", ""),
			&affiliatev1.ReportConversionResponse{Fraud: &affiliatev1.FraudVerdict{Flagged: true}},
		},
		"early refund": {
			purchase("order-refunded", f.olderClick(f.pat).ID),
			&affiliatev1.ReportConversionResponse{Commission: &affiliatev1.ConversionCommission{AmountCents: 1_500}},
		},
		"unknown click": {purchase("order-unknown", f.unknownClick()), &affiliatev1.ReportConversionResponse{
			Attribution: &affiliatev1.ConversionAttribution{ReasonCode: "CLICK_UNKNOWN"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			key := strings.Fields(name)[0]
			first := f.recordWithKey(key, tc.req)
			servertest.WantFields(t, "response", first, tc.want)
			f.wantReplay(key, tc.req, first)
		})
	}
}

func TestIdempotencyKey_BelongsToBodyMethodAndScope(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	f.recordWithKey("k-1", purchase("order-1", click.ID))
	changed := purchase("order-1", click.ID)
	changed.AmountCents = new(int64(9_999))
	_, _, err := f.reportWithKey("k-1", changed)
	pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyReused)

	f.recordWithKey("k-2", purchase("order-2", click.ID))
	if _, replayed, err := f.reportBatchWithKey("k-1", purchase("order-3", click.ID)); err != nil || replayed {
		t.Errorf("ReportConversions with the key of a single report returned %v, replayed %t", err, replayed)
	}
	for name, shop := range map[string]*pgtest.Shop{"the other mode": f.InOtherMode(), "another workspace": f.NewShop(affiliate.ModeTest)} {
		ctx, transport := servertest.WithTransport(servertest.AsSecretKey(t, shop.Scope), "k-1")
		if _, err := f.service.ReportConversion(ctx, purchase("order-1", f.unknownClick())); err != nil || transport.Replayed() {
			t.Errorf("ReportConversion with the same key in %s returned %v, replayed %t", name, err, transport.Replayed())
		}
	}
}

func TestIdempotencyKey_ExpiresAfterADay(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	f.recordWithKey("k-1", purchase("order-1", click.ID))
	f.clock.Advance(day + time.Minute)
	_, _, err := f.reportWithKey("k-1", purchase("order-1", click.ID))
	pgtest.RequireRefusal(t, err, affiliate.ReasonConversionDuplicate)
	second := f.recordWithKey("k-1", purchase("order-2", click.ID))
	f.wantReplay("k-1", purchase("order-2", click.ID), second)
}

func TestIdempotencyKey_IsFreeAfterRejectedReport(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	f.mustReport(purchase("order-1", click.ID))
	_, _, err := f.reportWithKey("k-1", purchase("order-1", click.ID))
	pgtest.RequireRefusal(t, err, affiliate.ReasonConversionDuplicate)
	f.wantRows(0, `idempotency_keys`)
	f.recordWithKey("k-1", purchase("order-2", click.ID))
}

// The checks run in this order: malformed key, no signal, key reused with another body,
// other mode, duplicate. In each case, two of the checks fail.
func TestIdempotencyKey_OrderOfChecks(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	f.recordWithKey("k-1", purchase("order-1", click.ID))
	liveClick := f.NewClick(f.InOtherMode(pgtest.Rules()).Join("Lia"))
	withoutSignal := purchase("order-1", click.ID)
	withoutSignal.ClickId = nil

	for name, tc := range map[string]struct {
		key    string
		req    *reportRequest
		reason affiliate.Reason
		field  string
	}{
		"malformed key, no signal":         {"k 1", withoutSignal, affiliate.ReasonValidation, "Idempotency-Key"},
		"empty key, no signal":             {"", withoutSignal, affiliate.ReasonValidation, "Idempotency-Key"},
		"key too long, no signal":          {strings.Repeat("k", 81), withoutSignal, affiliate.ReasonValidation, "Idempotency-Key"},
		"no signal, reused key":            {"k-1", withoutSignal, affiliate.ReasonNoAttributionSignal, ""},
		"reused key, other mode":           {"k-1", purchase("order-1", liveClick.ID), affiliate.ReasonIdempotencyKeyReused, ""},
		"other mode, duplicate":            {"k-2", purchase("order-1", liveClick.ID), affiliate.ReasonModeMismatch, ""},
		"duplicate with another valid key": {"k-2", purchase("order-1", click.ID), affiliate.ReasonConversionDuplicate, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := f.reportWithKey(tc.key, tc.req)
			pgtest.RequireRefusal(t, err, tc.reason, tc.field)
		})
	}
	f.wantRows(1, `conversions`)
	f.wantRows(1, `idempotency_keys`)
}

func TestIdempotencyKey_ParallelRepeatsGetOneResponse(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	const repeats = 50
	responses, replays := make([]*affiliatev1.ReportConversionResponse, repeats), make([]bool, repeats)
	calls := f.parallelCalls()
	for i := range repeats {
		calls.start("report", func() (err error) {
			responses[i], replays[i], err = f.reportWithKey("k-1", purchase("order-1", click.ID))
			return err
		})
	}
	calls.want(map[string]int{"report": repeats})
	firsts := 0
	for i, response := range responses {
		if !proto.Equal(response, responses[0]) {
			t.Errorf("repeat %d returned %v, want %v", i, response, responses[0])
		}
		if !replays[i] {
			firsts++
		}
	}
	if firsts != 1 {
		t.Errorf("%d responses are not replays, want 1", firsts)
	}
	f.wantRows(1, `conversions`)
	f.wantRows(1, `commissions`)
	f.wantRows(1, `events where type = 'conversion.created'`)
}

func TestIdempotencyKey_ParallelDifferentBodiesRecordOne(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	calls := f.parallelCalls()
	for i := range 50 {
		req := purchase("order-1", click.ID)
		req.AmountCents = new(int64(100 + i))
		calls.start("report", func() error {
			_, _, err := f.reportWithKey("k-1", req)
			return err
		})
	}
	calls.want(map[string]int{"report": 1, "report IDEMPOTENCY_KEY_REUSED": 49})
	f.wantRows(1, `conversions`)
}

// If a report fails with an internal error, a parallel report with the same key is
// recorded.
func TestIdempotencyKey_RepeatOfFailedReportIsRecorded(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	const repeats, failing = 20, 10
	// Reports with the same key are recorded in transactions of their own. A transaction that
	// fails is repeated once, so a report fails with its second transaction.
	var mu sync.Mutex
	attempts, failed := map[any]int{}, 0 // by conversion id, and the number of reports
	f.useHook(func(sql string, args []any) error {
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(sql, insertConversion) || failed == failing {
			return nil
		}
		if attempts[args[0]]++; attempts[args[0]] == 2 {
			failed++
		}
		return errors.New("the connection was lost")
	})
	errs := make([]error, repeats)
	var group sync.WaitGroup
	for i := range repeats {
		group.Go(func() { _, _, errs[i] = f.reportWithKey("k-1", purchase("order-1", click.ID)) })
	}
	group.Wait()
	failures := 0
	for _, err := range errs {
		if err != nil {
			wantInternalError(t, "a repeat", err)
			failures++
		}
	}
	if failures != failing {
		t.Errorf("%d reports failed, want %d", failures, failing)
	}
	f.wantRows(1, `conversions`)
}
