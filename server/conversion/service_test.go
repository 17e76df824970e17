package conversion_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestReport_PurchaseAfterClickEarns(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	r := f.mustReport(purchase("order-1", click.ID))

	servertest.WantFields(t, "response", r, &affiliatev1.ReportConversionResponse{
		Attributed: true, AmountCents: 10_000, Currency: new("EUR"), Mode: affiliatev1.Mode_MODE_TEST,
		Attribution: &affiliatev1.ConversionAttribution{
			ReasonCode: "CLICK_MATCHED", Method: new("click"), ClickId: new(click.ID.String()),
			ProgramId: new(f.Program.String()), ParticipantId: new(f.pat.ID.String()),
			ClickedAt: timestamppb.New(click.ReceivedAt), ExpiresAt: timestamppb.New(click.ExpiresAt),
		},
		Commission: &affiliatev1.ConversionCommission{
			AmountCents: 3_000, Currency: "EUR", Status: pending,
			HoldUntil: timestamppb.New(r.GetCreatedAt().AsTime().Add(30 * day)),
		},
		Fraud: &affiliatev1.FraudVerdict{},
	})
	if r.GetAttribution().GetExplanation() == "" {
		t.Error("the attribution has no explanation")
	}

	decision, commission := r.GetAttribution().GetDecisionId(), r.GetCommission().GetId()
	f.wantRows(1, `conversions where attributed and reason_code = 'CLICK_MATCHED' and program_id = $1 and participant_id = $2 and version = 1`,
		f.Program, f.pat.ID)
	f.wantRows(1, `attribution_decisions d join conversions c on c.decision_id = d.id
		where d.id = $1 and d.method = 'click' and d.supersedes is null`, decision)
	f.wantRows(1, `commissions where id = $1 and partner_id = $2 and amount_cents = 3000 and (rule_snapshot->>'version')::int = 4
		and auto_approve_at = hold_until`, commission, f.pat.Partner)
	f.wantRows(1, `commission_history where commission_id = $1 and to_status = 'pending' and actor = 'system'`, commission)
	f.wantRows(0, `awaited_clicks`)
	f.wantRows(0, `river.river_job`)

	types, objects := f.Events()
	if want := []string{"conversion.created", "commission.created"}; !slices.Equal(types, want) {
		t.Fatalf("the report sent the events %q, want %q", types, want)
	}
	f.wantAttributes(types[0], objects[0], pgtest.Row{"id": r.GetId(), "attributed": true, "refunded_amount_cents": 0, "version": 1})
	f.wantAttributes(types[1], objects[1], pgtest.Row{"id": commission, "conversion_id": r.GetId(), "amount_cents": 3_000})

	trace := f.trace(decision)
	if trace.Program.Model != program.LastClick || trace.Program.WindowDays != 30 {
		t.Errorf("the trace has the model %s and a window of %d days, want last_click and 30", trace.Program.Model, trace.Program.WindowDays)
	}
	if trace.Calculation.AmountCents != 3_000 || trace.Rule.Version != 4 {
		t.Errorf("the trace has the amount %d and version %d of the rules, want 3000 and 4", trace.Calculation.AmountCents, trace.Rule.Version)
	}
	if len(trace.Candidates) != 1 || len(trace.Steps) == 0 {
		t.Errorf("the trace has %d candidates and %d steps, want 1 and some", len(trace.Candidates), len(trace.Steps))
	}
}

func TestReport_ReturnsEachReasonCode(t *testing.T) {
	f := newFixture(t)
	now := f.clock.Now()
	elsewhere := f.NewShop(affiliate.ModeTest, pgtest.Rules())
	inProgram := func(status program.Status) affiliate.ClickID {
		program := f.NewProgram(f.Scope, pgtest.Rules(), pgtest.Row{"status": status})
		return f.NewClick(f.NewParticipant(f.Scope, program, f.NewPartner("Pam"))).ID
	}
	clickOf := func(changes pgtest.Row) affiliate.ClickID { return f.NewClick(f.Join("Pip", changes)).ID }
	newClick := func() affiliate.ClickID { return f.NewClick(f.pat).ID }
	old := f.NewClick(f.pat, f.ago(40*day))
	occurredAt := func(instant time.Time) func(*reportRequest) {
		return func(r *reportRequest) { r.OccurredAt = timestamppb.New(instant) }
	}

	for name, tc := range map[string]struct {
		click      affiliate.ClickID
		change     func(*reportRequest)
		reason     string
		attributed bool
		earns      bool
		awaits     int // number of clicks that the conversion waits for
	}{
		"click":                       {click: newClick(), reason: "CLICK_MATCHED", attributed: true, earns: true},
		"unknown click":               {click: f.unknownClick(), reason: "CLICK_UNKNOWN", awaits: 1},
		"click id without a time":     {click: affiliate.ClickID{UUID: uuid.New()}, reason: "CLICK_UNKNOWN"},
		"click id from the future":    {click: f.UnstoredClick(f.pat, f.ago(-25*time.Hour)).ID, reason: "CLICK_UNKNOWN"},
		"click of another workspace":  {click: f.NewClick(elsewhere.Join("Pia")).ID, reason: "CLICK_UNKNOWN", awaits: 1},
		"end of the window":           {click: old.ID, change: occurredAt(old.ExpiresAt), reason: "CLICK_MATCHED", attributed: true, earns: true},
		"1 ms after the window":       {click: old.ID, change: occurredAt(old.ExpiresAt.Add(time.Millisecond)), reason: "CLICK_EXPIRED"},
		"10 days after the window":    {click: old.ID, reason: "CLICK_EXPIRED"},
		"conversion before the click": {click: newClick(), change: occurredAt(now.Add(-time.Hour)), reason: "CLICK_AFTER_CONVERSION"},
		"paused programme":            {click: inProgram(program.Paused), reason: "PROGRAM_INACTIVE"},
		"archived programme":          {click: inProgram(program.Archived), reason: "PROGRAM_INACTIVE"},
		"erased participant":          {click: clickOf(pgtest.Row{"erased_at": now}), reason: "PARTICIPANT_ERASED"},
		"participant with a pending application": {
			click: clickOf(pgtest.Row{"status": "pending"}), reason: "PARTICIPANT_NOT_APPROVED", attributed: true,
		},
		"rejected participant":  {click: clickOf(pgtest.Row{"status": "rejected"}), reason: "PARTICIPANT_NOT_APPROVED", attributed: true},
		"suspended participant": {click: clickOf(pgtest.Row{"status": "suspended"}), reason: "PARTICIPANT_NOT_APPROVED", attributed: true},
		"lead": {
			click: newClick(), reason: "RULE_NOT_APPLICABLE", attributed: true,
			change: func(r *reportRequest) {
				r.EventType, r.AmountCents, r.Currency = affiliatev1.EventType_EVENT_TYPE_LEAD, nil, nil
			},
		},
		"unknown promo code": {
			reason: "PROMO_CODE_UNKNOWN",
			change: func(r *reportRequest) { r.ClickId, r.PromoCode = new(""), new("SPRING10") },
		},
		"click and unknown promo code": {
			click: newClick(), reason: "CLICK_MATCHED", attributed: true, earns: true,
			change: func(r *reportRequest) { r.PromoCode = new("SPRING10") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := purchase(name, tc.click)
			if tc.change != nil {
				tc.change(req)
			}
			if err := servertest.Check(f.service, req); err != nil {
				t.Fatalf("the request is not valid: %v", err)
			}
			r := f.mustReport(req)
			a := r.GetAttribution()
			if a.GetReasonCode() != tc.reason || r.GetAttributed() != tc.attributed {
				t.Errorf("the reason is %s and attributed is %t, want %s and %t", a.GetReasonCode(), r.GetAttributed(), tc.reason, tc.attributed)
			}
			if earns := r.GetCommission() != nil; earns != tc.earns {
				t.Errorf("the conversion earns a commission: %t, want %t", earns, tc.earns)
			}
			if a.GetExplanation() == "" {
				t.Error("the attribution has no explanation")
			}
			if complete := a.Method != nil && a.ProgramId != nil && a.ParticipantId != nil; complete != tc.attributed {
				t.Errorf("the attribution has a method, programme and participant: %t, want %t: %v", complete, tc.attributed, a)
			}
			f.wantRows(tc.awaits, `awaited_clicks where conversion_id = $1 and expires_at = created_at + interval '24 hours'`, r.GetId())
			f.wantRows(1, `conversions c join attribution_decisions d on d.id = c.decision_id
				where c.id = $1 and c.reason_code = $2 and d.reason_code = $2`, r.GetId(), tc.reason)
			f.wantRows(map[bool]int{true: 1}[tc.earns], `commissions where conversion_id = $1`, r.GetId())
		})
	}
}

func TestReport_ReturnsMostImportantError(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	f.mustReport(purchase("order-1", click.ID))

	live := f.InOtherMode(pgtest.Rules())
	lia := live.Join("Lia")
	stored, unstored := f.NewClick(lia), f.UnstoredClick(lia)
	f.stream.tail = append(f.stream.tail, unstored)

	withoutSignal := purchase("order-1", click.ID)
	withoutSignal.ClickId, withoutSignal.PromoCode = new(""), new("")
	for name, tc := range map[string]struct {
		req  *reportRequest
		want affiliate.Reason
	}{
		"duplicate without a signal":              {withoutSignal, affiliate.ReasonNoAttributionSignal},
		"duplicate with a click of another mode":  {purchase("order-1", stored.ID), affiliate.ReasonModeMismatch},
		"click of another mode":                   {purchase("order-2", stored.ID), affiliate.ReasonModeMismatch},
		"click of another mode, only in the tail": {purchase("order-2", unstored.ID), affiliate.ReasonModeMismatch},
		"duplicate":                       {purchase("order-1", click.ID), affiliate.ReasonConversionDuplicate},
		"duplicate with an unknown click": {purchase("order-1", f.unknownClick()), affiliate.ReasonConversionDuplicate},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.report(tc.req)
			pgtest.RequireRefusal(t, err, tc.want)
		})
	}
	// A rejected report stores nothing.
	f.wantRows(1, `conversions`)
	f.wantRows(1, `attribution_decisions`)
	f.wantRows(1, `commissions`)
	f.wantRows(2, `events`)
	f.wantRows(0, `awaited_clicks`)

	t.Run("the same external id can be used in the other mode", func(t *testing.T) {
		if _, err := f.service.ReportConversion(servertest.AsSecretKey(t, live.Scope), purchase("order-1", stored.ID)); err != nil {
			t.Errorf("ReportConversion in live mode: %v", err)
		}
	})
}

func TestReport_ParallelDuplicatesRecordOne(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	calls := f.parallelCalls()
	for range 100 {
		calls.start("report", func() error {
			_, err := f.report(purchase("order-1", click.ID))
			return err
		})
	}
	calls.want(map[string]int{"report": 1, "report CONVERSION_DUPLICATE": 99})
	f.wantRows(1, `conversions`)
	f.wantRows(1, `attribution_decisions`)
	f.wantRows(1, `commissions`)
	f.wantRows(2, `events`)
}

func TestReport_CommissionKeepsItsRules(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	first := f.mustReport(purchase("order-1", click.ID)).GetCommission()
	f.setRules(func(r *program.Rules) {
		r.Type, r.RateBps, r.FlatCents, r.HoldDays = program.Flat, nil, new(int64(700)), 0
	})
	second := f.mustReport(purchase("order-2", click.ID)).GetCommission()

	servertest.WantFields(t, "commission under the new rules", second, &affiliatev1.ConversionCommission{AmountCents: 700, Status: approved})
	if second.GetHoldUntil() != nil {
		t.Errorf("the commission without a hold period is held until %v", second.GetHoldUntil())
	}
	f.wantRows(1, `commissions where id = $1 and amount_cents = 3000 and rate_bps = 3000
		and (rule_snapshot->>'version')::int = 4 and rule_snapshot->'rules'->>'rate_bps' = '3000'`, first.GetId())
	f.wantRows(1, `commissions where id = $1 and status = 'approved' and approved_by = 'system' and flat_amount_cents = 700
		and (rule_snapshot->>'version')::int = 5`, second.GetId())
	f.wantRows(1, `attribution_decisions where conversion_id = (select conversion_id from commissions where id = $1)
		and trace->'calculation'->>'rate_bps' = '3000'`, first.GetId())
	types, _ := f.Events()
	want := []string{"conversion.created", "commission.created", "conversion.created", "commission.created", "commission.approved"}
	if !slices.Equal(types, want) {
		t.Errorf("the reports sent the events %q, want %q", types, want)
	}
}

func TestReport_FlagsCurrencyWithoutRate(t *testing.T) {
	f := newFixture(t, pgtest.Rules(withoutHoldPeriod))
	req := purchase("order-1", f.NewClick(f.pat).ID)
	req.Currency = new("usd")
	servertest.WantFields(t, "commission", f.mustReport(req).GetCommission(), &affiliatev1.ConversionCommission{
		Currency: "USD", AmountCents: 3_000, NeedsReview: true, Status: pending,
	})
	f.wantRows(1, `commissions where review_reasons = '{fx_rate_missing}' and sale_currency = 'USD' and fx_rate is null
		and auto_approve_at = created_at and hold_until is null`)
}

func TestReport_StoresBuyerAsHashes(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	metadata, err := structpb.NewStruct(map[string]any{"plan": "pro", "seats": 3.0})
	if err != nil {
		t.Fatal(err)
	}
	withAllFields := func(external, email string) *reportRequest {
		r := purchaseBy("customer-77", external, click.ID)
		r.CustomerEmail, r.CustomerIp, r.CustomerUserAgent = new(email), new("203.0.113.77"), new("Browser/77")
		r.TaxCents, r.ShippingCents, r.FeeCents, r.DiscountCents = new(int64(1)), new(int64(2)), new(int64(3)), new(int64(4))
		r.SubscriptionId, r.SubId, r.IsRecurring = new("sub-1"), new("banner"), new(true)
		r.ProductIds = []string{"a", "b"}
		r.LineItems = []*affiliatev1.LineItem{{ProductId: "a", AmountCents: 5}}
		r.Metadata = metadata
		return r
	}
	f.mustReport(withAllFields("order-1", "Ann+shop@Example.com"))
	f.mustReport(withAllFields("order-2", "ann@example.com"))

	f.wantRows(2, `conversions where customer_email_domain = 'example.com' and length(customer_email_hash) = 32 and length(customer_ref) = 64
		and length(customer_ip_hash) = 32 and length(customer_ua_hash) = 16
		and tax_cents = 1 and shipping_cents = 2 and fee_cents = 3 and discount_cents = 4
		and is_recurring and subscription_id = 'sub-1' and sub_id = 'banner'
		and product_ids = '{a,b}' and line_items = '[{"product_id":"a","quantity":1,"amount_cents":5}]' and metadata = '{"plan":"pro","seats":3}'`)
	f.wantRows(1, `(select distinct customer_email_hash, customer_ref from conversions) x`)
	f.wantRows(2, `commissions where customer_ref = (select distinct customer_ref from conversions)`)

	rows := f.Texts(`
		select c::text from conversions c union all select d::text from attribution_decisions d
		union all select m::text from commissions m union all select convert_from(body, 'utf8') from events`)
	for _, row := range rows {
		for _, secret := range []string{"customer-77", "Ann", "ann@", "203.0.113.77", "Browser/77"} {
			if strings.Contains(row, secret) {
				t.Errorf("%q is stored in %s", secret, row)
			}
		}
	}
}

func TestReport_LooksUpStoredClickOnce(t *testing.T) {
	f := newFixture(t)
	f.countLookups(nil)
	f.mustReport(purchase("order-1", f.NewClick(f.pat).ID))
	f.wantLookups(1, 0)
}

func TestReport_TruncatesTimesToMilliseconds(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	req := purchase("order-1", click.ID)
	req.OccurredAt = timestamppb.New(click.ReceivedAt.Add(1500 * time.Microsecond))
	r := f.mustReport(req)
	if got, want := r.GetOccurredAt().AsTime(), click.ReceivedAt.Add(time.Millisecond); !got.Equal(want) {
		t.Errorf("occurred_at is %v, want %v", got, want)
	}
	if created := r.GetCreatedAt().AsTime(); !created.Equal(created.Truncate(time.Millisecond)) {
		t.Errorf("created_at is %v, want full milliseconds", created)
	}
}

func TestReport_LostDatabaseIsInternalError(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	f.DB.Close()
	_, err := f.report(purchase("order-1", click.ID))
	var refusal *affiliate.Error
	if err == nil || errors.As(err, &refusal) {
		t.Errorf("ReportConversion without a database returned %v, want an error without an error code", err)
	}
}
