package conversion_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func TestReport_PurchaseAfterClickEarns(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	r := w.mustReport(purchase("order-1", click.ID))

	a := r.GetAttribution()
	if !r.GetAttributed() || a.GetReasonCode() != "CLICK_MATCHED" || a.GetMethod() != "click" ||
		a.GetClickId() != click.ID.String() || a.GetProgramId() != w.program.String() || a.GetParticipantId() != w.participant.String() ||
		!a.GetClickedAt().AsTime().Equal(click.ReceivedAt) || !a.GetExpiresAt().AsTime().Equal(click.ExpiresAt) || a.GetExplanation() == "" {
		t.Errorf("attribution: %v", a)
	}
	if r.GetAmountCents() != 10_000 || r.GetCurrency() != "EUR" || r.GetMode() != affiliatev1.Mode_MODE_TEST || r.GetFraud() == nil {
		t.Errorf("response: %v", r)
	}
	c := r.GetCommission()
	if c.GetAmountCents() != 3_000 || c.GetCurrency() != "EUR" || c.GetStatus() != affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING ||
		c.GetHoldUntil().AsTime() != r.GetCreatedAt().AsTime().Add(30*24*time.Hour) {
		t.Errorf("commission: %v", c)
	}

	w.wantCount(1, `conversions where attributed and reason_code = 'CLICK_MATCHED' and program_id = $1 and participant_id = $2 and version = 1`, w.program, w.participant)
	w.wantCount(1, `attribution_decisions d join conversions c on c.decision_id = d.id where d.id = $1 and d.method = 'click' and d.supersedes is null`, a.GetDecisionId())
	w.wantCount(1, `commissions where id = $1 and partner_id = $2 and amount_cents = 3000 and (rule_snapshot->>'version')::int = 4 and auto_approve_at = hold_until`, c.GetId(), w.partner)
	w.wantCount(1, `commission_history where commission_id = $1 and to_status = 'pending' and actor = 'system'`, c.GetId())
	w.wantCount(0, `awaited_clicks`)
	w.wantCount(0, `river.river_job`)

	types, objects := w.Events()
	if !slices.Equal(types, []string{"conversion.created", "commission.created"}) {
		t.Fatalf("events: %v", types)
	}
	if objects[0]["id"] != r.GetId() || objects[0]["attributed"] != true || objects[0]["refunded_amount_cents"] != 0.0 || objects[0]["version"] != 1.0 {
		t.Errorf("conversion.created: %v", objects[0])
	}
	if objects[1]["id"] != c.GetId() || objects[1]["conversion_id"] != r.GetId() || objects[1]["amount_cents"] != 3_000.0 {
		t.Errorf("commission.created: %v", objects[1])
	}

	var trace affiliate.Trace
	var stored []byte
	if err := w.SQL.QueryRow(t.Context(), `select trace from attribution_decisions`).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(stored, &trace); err != nil {
		t.Fatal(err)
	}
	if trace.Program.Model != affiliate.LastClick || trace.Program.WindowDays != 30 || len(trace.Candidates) != 1 ||
		trace.Calculation.AmountCents != 3_000 || trace.Rule.Version != 4 || len(trace.Steps) == 0 {
		t.Errorf("trace: %s", stored)
	}
}

func TestReport_ReturnsEachReasonCode(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	foreign := w.click()
	foreign.Scope.Workspace = w.NewWorkspace()
	foreign.Program = w.newProgram(foreign.Scope)
	foreign.Participant, _ = w.newParticipant(foreign.Scope, foreign.Program)

	program := func(status string) func() affiliate.Click {
		return func() affiliate.Click {
			c := w.click()
			c.Program = w.newProgram(w.scope)
			c.Participant, _ = w.newParticipant(w.scope, c.Program)
			w.Exec(`update programs set status = $2 where id = $1`, c.Program, status)
			return c
		}
	}
	participant := func(change string) func() affiliate.Click {
		return func() affiliate.Click {
			c := w.click()
			c.Participant, _ = w.newParticipant(w.scope, w.newProgram(w.scope))
			w.Exec(`update participants set program_id = $2, `+change+` where id = $1`, c.Participant, c.Program)
			return c
		}
	}
	at := func(when time.Time) func(*affiliatev1.ReportConversionRequest) {
		return func(r *affiliatev1.ReportConversionRequest) { r.OccurredAt = timestamppb.New(when) }
	}
	same := func(*affiliatev1.ReportConversionRequest) {}
	old := w.clickAt(now.Add(-40 * 24 * time.Hour))

	for name, tc := range map[string]struct {
		click      func() affiliate.Click
		unstored   bool
		change     func(*affiliatev1.ReportConversionRequest)
		reason     string
		attributed bool
		commission bool
		awaited    int
	}{
		"matched":          {w.click, false, same, "CLICK_MATCHED", true, true, 0},
		"unknown":          {func() affiliate.Click { return w.clickAt(now.Add(-time.Hour)) }, true, same, "CLICK_UNKNOWN", false, false, 1},
		"other version":    {func() affiliate.Click { c := w.click(); c.ID.UUID = uuid.New(); return c }, true, same, "CLICK_UNKNOWN", false, false, 0},
		"from the future":  {func() affiliate.Click { return w.clickAt(now.Add(time.Hour)) }, true, same, "CLICK_UNKNOWN", false, false, 0},
		"other workspace":  {func() affiliate.Click { return foreign }, false, same, "CLICK_UNKNOWN", false, false, 1},
		"window's end":     {func() affiliate.Click { return old }, false, at(old.ExpiresAt), "CLICK_MATCHED", true, true, 0},
		"1 ms too late":    {func() affiliate.Click { return w.clickAt(old.ReceivedAt) }, false, at(old.ExpiresAt.Add(time.Millisecond)), "CLICK_EXPIRED", false, false, 0},
		"long expired":     {func() affiliate.Click { return w.clickAt(old.ReceivedAt) }, false, same, "CLICK_EXPIRED", false, false, 0},
		"before its click": {w.click, false, at(now.Add(-time.Hour)), "CLICK_AFTER_CONVERSION", false, false, 0},
		"paused":           {program("paused"), false, same, "PROGRAM_INACTIVE", false, false, 0},
		"archived":         {program("archived"), false, same, "PROGRAM_INACTIVE", false, false, 0},
		"erased":           {participant(`erased_at = now()`), false, same, "PARTICIPANT_ERASED", false, false, 0},
		"pending":          {participant(`status = 'pending'`), false, same, "PARTICIPANT_NOT_APPROVED", true, false, 0},
		"rejected":         {participant(`status = 'rejected'`), false, same, "PARTICIPANT_NOT_APPROVED", true, false, 0},
		"suspended":        {participant(`status = 'suspended'`), false, same, "PARTICIPANT_NOT_APPROVED", true, false, 0},
		"lead": {w.click, false, func(r *affiliatev1.ReportConversionRequest) {
			r.EventType, r.AmountCents, r.Currency = affiliatev1.EventType_EVENT_TYPE_LEAD, nil, nil
		}, "RULE_NOT_APPLICABLE", true, false, 0},
		"promo code alone": {w.click, true, func(r *affiliatev1.ReportConversionRequest) {
			r.ClickId, r.PromoCode = ptr(""), ptr("SPRING10")
		}, "PROMO_CODE_UNKNOWN", false, false, 0},
		"click and promo code": {w.click, false, func(r *affiliatev1.ReportConversionRequest) { r.PromoCode = ptr("SPRING10") }, "CLICK_MATCHED", true, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			click := tc.click()
			if !tc.unstored {
				w.storeClick(click)
			}
			req := purchase(name, click.ID)
			tc.change(req)
			if found := w.service.Check(req); len(found) > 0 {
				t.Fatalf("not valid: %v", found)
			}
			r := w.mustReport(req)
			a := r.GetAttribution()
			if a.GetReasonCode() != tc.reason || r.GetAttributed() != tc.attributed || (r.GetCommission() != nil) != tc.commission {
				t.Errorf("%v", r)
			}
			if a.GetExplanation() == "" || tc.attributed != (a.Method != nil && a.ProgramId != nil && a.ParticipantId != nil) {
				t.Errorf("attribution: %v", a)
			}
			w.wantCount(tc.awaited, `awaited_clicks where conversion_id = $1 and expires_at = created_at + interval '24 hours'`, r.GetId())
			w.wantCount(1, `conversions c join attribution_decisions d on d.id = c.decision_id where c.id = $1 and c.reason_code = $2 and d.reason_code = $2`, r.GetId(), tc.reason)
			w.wantCount(map[bool]int{true: 1}[tc.commission], `commissions where conversion_id = $1`, r.GetId())
		})
	}
}

func TestReport_OrderOfErrors(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	w.mustReport(purchase("order-1", click.ID))

	live := affiliate.Scope{Workspace: w.scope.Workspace, Mode: affiliate.ModeLive}
	other := w.click()
	other.Scope = live
	other.Program = w.newProgram(live)
	other.Participant, _ = w.newParticipant(live, other.Program)
	w.storeClick(other)
	inTail := other
	inTail.ID = affiliate.NewID[affiliate.Click](time.Now())
	w.tail.clicks = append(w.tail.clicks, inTail)

	noSignal := purchase("order-1", click.ID)
	noSignal.ClickId, noSignal.PromoCode = ptr(""), ptr("")
	for name, tc := range map[string]struct {
		req  *affiliatev1.ReportConversionRequest
		want affiliate.Reason
	}{
		"no signal, before the duplicate":  {noSignal, affiliate.ReasonNoAttributionSignal},
		"other mode, before the duplicate": {purchase("order-1", other.ID), affiliate.ReasonModeMismatch},
		"other mode":                       {purchase("order-2", other.ID), affiliate.ReasonModeMismatch},
		"other mode, not stored yet":       {purchase("order-2", inTail.ID), affiliate.ReasonModeMismatch},
		"duplicate":                        {purchase("order-1", click.ID), affiliate.ReasonConversionDuplicate},
		"duplicate that is not attributed": {purchase("order-1", w.clickAt(time.Now().Add(-time.Hour)).ID), affiliate.ReasonConversionDuplicate},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := w.report(tc.req); !refused(err, tc.want) {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
	// A rejected report stores nothing.
	w.wantCount(1, `conversions`)
	w.wantCount(1, `attribution_decisions`)
	w.wantCount(1, `commissions`)
	w.wantCount(2, `events`)
	w.wantCount(0, `awaited_clicks`)

	t.Run("the same external id can be used in the other mode", func(t *testing.T) {
		if _, err := w.service.ReportConversion(as(live), purchase("order-1", other.ID)); err != nil {
			t.Error(err)
		}
	})
}

func TestReport_ParallelDuplicatesRecordOne(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	var recorded, duplicates atomic.Int64
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			switch _, err := w.report(purchase("order-1", click.ID)); {
			case err == nil:
				recorded.Add(1)
			case refused(err, affiliate.ReasonConversionDuplicate):
				duplicates.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if recorded.Load() != 1 || duplicates.Load() != 99 {
		t.Errorf("%d recorded, %d duplicates", recorded.Load(), duplicates.Load())
	}
	w.wantCount(1, `conversions`)
	w.wantCount(1, `attribution_decisions`)
	w.wantCount(1, `commissions`)
	w.wantCount(2, `events`)
}

func TestReport_CommissionKeepsItsRules(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	first := w.mustReport(purchase("order-1", click.ID)).GetCommission()
	w.Exec(`update programs set rules_version = 5, rules = '{"commission_type":"flat","flat_amount_cents":700,"hold_period_days":0,"auto_approval":true,"net_basis":"gross"}'`)
	second := w.mustReport(purchase("order-2", click.ID)).GetCommission()

	if second.GetAmountCents() != 700 || second.GetStatus() != affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED || second.GetHoldUntil() != nil {
		t.Errorf("under the new rules: %v", second)
	}
	w.wantCount(1, `commissions where id = $1 and amount_cents = 3000 and rate_bps = 3000 and (rule_snapshot->>'version')::int = 4 and rule_snapshot->'rules'->>'rate_bps' = '3000'`, first.GetId())
	w.wantCount(1, `commissions where id = $1 and status = 'approved' and approved_by = 'system' and flat_amount_cents = 700 and (rule_snapshot->>'version')::int = 5`, second.GetId())
	w.wantCount(1, `attribution_decisions where conversion_id = (select conversion_id from commissions where id = $1) and trace->'calculation'->>'rate_bps' = '3000'`, first.GetId())
	types, _ := w.Events()
	if want := []string{"conversion.created", "commission.created", "conversion.created", "commission.created", "commission.approved"}; !slices.Equal(types, want) {
		t.Errorf("events: %v", types)
	}
}

func TestReport_FlagsCurrencyWithoutRate(t *testing.T) {
	w := newWorld(t)
	w.Exec(`update programs set rules = jsonb_set(rules, '{hold_period_days}', '0')`)
	click := w.storeClick(w.click())
	req := purchase("order-1", click.ID)
	req.Currency = ptr("usd")
	c := w.mustReport(req).GetCommission()
	if c.GetCurrency() != "USD" || c.GetAmountCents() != 3_000 || !c.GetNeedsReview() || c.GetStatus() != affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING {
		t.Errorf("commission: %v", c)
	}
	w.wantCount(1, `commissions where review_reasons = '{fx_rate_missing}' and sale_currency = 'USD' and fx_rate is null and auto_approve_at = created_at and hold_until is null`)
}

func TestReport_StoresBuyerAsHashes(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	metadata, err := structpb.NewStruct(map[string]any{"plan": "pro", "seats": 3.0})
	if err != nil {
		t.Fatal(err)
	}
	full := func(external, email string) *affiliatev1.ReportConversionRequest {
		r := purchase(external, click.ID)
		r.CustomerId, r.CustomerEmail = ptr("customer-77"), ptr(email)
		r.CustomerIp, r.CustomerUserAgent = ptr("203.0.113.77"), ptr("Browser/77")
		r.TaxCents, r.ShippingCents, r.FeeCents, r.DiscountCents = ptr(int64(1)), ptr(int64(2)), ptr(int64(3)), ptr(int64(4))
		r.SubscriptionId, r.SubId, r.IsRecurring = ptr("sub-1"), ptr("banner"), ptr(true)
		r.ProductIds = []string{"a", "b"}
		r.LineItems = []*affiliatev1.LineItem{{ProductId: "a", AmountCents: 5}}
		r.Metadata = metadata
		return r
	}
	w.mustReport(full("order-1", "Ann+shop@Example.com"))
	w.mustReport(full("order-2", "ann@example.com"))

	w.wantCount(2, `conversions where customer_email_domain = 'example.com' and length(customer_email_hash) = 32 and length(customer_ref) = 64
		and length(customer_ip_hash) = 32 and length(customer_ua_hash) = 16
		and tax_cents = 1 and shipping_cents = 2 and fee_cents = 3 and discount_cents = 4 and is_recurring and subscription_id = 'sub-1' and sub_id = 'banner'
		and product_ids = '{a,b}' and line_items = '[{"product_id":"a","quantity":1,"amount_cents":5}]' and metadata = '{"plan":"pro","seats":3}'`)
	w.wantCount(1, `(select distinct customer_email_hash, customer_ref from conversions) x`)
	w.wantCount(2, `commissions where customer_ref = (select distinct customer_ref from conversions)`)

	var everything string
	if err := w.SQL.QueryRow(t.Context(), `
		select string_agg(x, ' ') from (
			select c::text as x from conversions c union all select d::text from attribution_decisions d
			union all select m::text from commissions m union all select convert_from(body, 'utf8') from events) as rows`).Scan(&everything); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"customer-77", "Ann", "ann@", "203.0.113.77", "Browser/77"} {
		if strings.Contains(everything, secret) {
			t.Errorf("%q is stored", secret)
		}
	}
}

func TestReport_LooksUpStoredClickOnce(t *testing.T) {
	w := newWorld(t)
	w.mustReport(purchase("order-1", w.storeClick(w.click()).ID))
	if n, m := w.store.looks.Load(), w.tail.looks.Load(); n != 1 || m != 0 {
		t.Errorf("%d look-ups in Postgres, %d in the tail", n, m)
	}
}

func TestReport_TruncatesTimesToMilliseconds(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	req := purchase("order-1", click.ID)
	req.OccurredAt = timestamppb.New(click.ReceivedAt.Add(1500 * time.Microsecond))
	r := w.mustReport(req)
	if got := r.GetOccurredAt().AsTime(); !got.Equal(click.ReceivedAt.Add(time.Millisecond)) {
		t.Errorf("occurred at %v", got)
	}
	if ns := r.GetCreatedAt().AsTime().Nanosecond(); ns%int(time.Millisecond) != 0 {
		t.Errorf("created at has %d ns", ns)
	}
}

func TestReport_LostDatabaseIsInternalError(t *testing.T) {
	w := newWorld(t)
	click := w.storeClick(w.click())
	w.Store.Close()
	_, err := w.report(purchase("order-1", click.ID))
	var refusal *affiliate.Error
	if err == nil || errors.As(err, &refusal) {
		t.Errorf("%v", err)
	}
}
