package conversion_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres/account"
)

// The partner's e-mail address and network, and the buyer's IP address and browser.
const (
	partnerEmail   = "pat@corp.example"
	partnerNetwork = "203.0.113.0/24"
	buyerAddress   = "203.0.113.77"
	browser        = "Browser/77"
)

// suspicious returns a world whose partner has the address partnerEmail and whose
// programme has the fraud policy.
func suspicious(t *testing.T, policy affiliate.FraudPolicy) *world {
	t.Helper()
	w := newWorld(t)
	w.Exec(`update participants set partner_email = $1`, partnerEmail)
	w.Exec(`update programs set fraud_policy = $1`, policy)
	return w
}

// aged stores and returns a click from two minutes ago. A purchase right after its click
// would be a fraud signal.
func (w *world) aged() affiliate.Click {
	w.Helper()
	return w.storeClick(w.clickAt(w.now().Add(-2 * time.Minute)))
}

// from sets the buyer's data in a report. It skips empty values.
func from(r *affiliatev1.ReportConversionRequest, email, address, agent string) *affiliatev1.ReportConversionRequest {
	for field, value := range map[**string]string{&r.CustomerEmail: email, &r.CustomerIp: address, &r.CustomerUserAgent: agent} {
		if value != "" {
			*field = ptr(value)
		}
	}
	return r
}

// seen stores that the partner used its account from a network some time ago.
func (w *world) seen(network, agent string, ago time.Duration) {
	w.Helper()
	at := w.now().Add(-ago)
	origin := affiliate.Origin{User: w.partner, IPPrefix: network, SeenAt: at}
	if agent != "" {
		origin.AgentHash = affiliate.AgentHash([]byte("key of the tests"), agent, at)
	}
	if err := account.NewStore(w.Store.DB).StoreOrigin(w.Context(), origin); err != nil {
		w.Fatal(err)
	}
}

func rulesOf(r *affiliatev1.ReportConversionResponse) []string {
	var rules []string
	for _, s := range r.GetFraud().GetSignals() {
		rules = append(rules, s.GetRule())
	}
	return rules
}

func TestFraud_ComparesBuyerWithPartner(t *testing.T) {
	for name, tc := range map[string]struct {
		seen                  func(*world)
		email, address, agent string
		fired                 []string
	}{
		"nothing known":           {fired: nil},
		"the partner's address":   {email: "Pat+me@Corp.example", fired: []string{"self_referral_email", "self_referral_domain"}},
		"a colleague":             {email: "ann@corp.example", fired: []string{"self_referral_domain"}},
		"a stranger":              {email: "ann@elsewhere.example"},
		"a throw-away address":    {email: "x@mailinator.com", fired: []string{"disposable_email"}},
		"the same network":        {seen: func(w *world) { w.seen(partnerNetwork, "", time.Hour) }, address: buyerAddress, fired: []string{"same_ip_prefix_as_partner"}},
		"the network of last day": {seen: func(w *world) { w.seen(partnerNetwork, "", 25*time.Hour) }, address: buyerAddress},
		"another network":         {seen: func(w *world) { w.seen("198.51.100.0/24", browser, time.Hour) }, address: buyerAddress, agent: browser},
		"the same device": {
			seen: func(w *world) { w.seen(partnerNetwork, browser, 20*24*time.Hour) }, address: buyerAddress, agent: browser,
			fired: []string{"same_device_as_partner"},
		},
		"the same device today": {
			seen: func(w *world) { w.seen(partnerNetwork, browser, time.Hour) }, address: buyerAddress, agent: browser,
			fired: []string{"same_device_as_partner", "same_ip_prefix_as_partner"},
		},
		"the same browser elsewhere": {
			seen: func(w *world) { w.seen("198.51.100.0/24", browser, time.Hour) }, address: buyerAddress, agent: browser,
		},
		"another browser": {
			seen: func(w *world) { w.seen(partnerNetwork, "Other/1", 2*24*time.Hour) }, address: buyerAddress, agent: browser,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := suspicious(t, affiliate.FraudObserve)
			if tc.seen != nil {
				tc.seen(w)
			}
			r := w.mustReport(from(purchase("order-1", w.aged().ID), tc.email, tc.address, tc.agent))
			if got := rulesOf(r); !slices.Equal(got, tc.fired) {
				t.Errorf("%q, want %q", got, tc.fired)
			}
			if r.GetFraud().GetFlagged() || r.GetCommission().GetNeedsReview() {
				t.Errorf("observed only: %v", r)
			}
		})
	}
}

// The network and browser of the click are compared with the partner too, even if the
// merchant reports nothing about the buyer.
func TestFraud_ComparesClickWithPartner(t *testing.T) {
	w := suspicious(t, affiliate.FraudFlag)
	w.seen(partnerNetwork, browser, time.Hour)
	click := w.aged()
	w.Exec(`update clicks set ip_prefix = $1, ua_hash = $2`, partnerNetwork, affiliate.AgentHash([]byte("key of the tests"), browser, click.ReceivedAt))
	if got := rulesOf(w.mustReport(purchase("order-1", click.ID))); !slices.Equal(got, []string{"same_device_as_partner", "same_ip_prefix_as_partner"}) {
		t.Errorf("%q", got)
	}
}

func TestFraud_CountsEarlierEvents(t *testing.T) {
	t.Run("clicks from one address", func(t *testing.T) {
		w := suspicious(t, affiliate.FraudObserve)
		hash := []byte("0123456789abcdef")
		from := func(ago time.Duration, mode affiliate.Mode, n int) affiliate.Click {
			var c affiliate.Click
			for range n {
				c = w.clickAt(w.now().Add(-ago))
				c.Scope.Mode = mode
				w.storeClick(c)
			}
			w.Exec(`update clicks set ip_hash = $1 where ip_hash is null`, hash)
			return c
		}
		from(2*time.Hour, w.scope.Mode, 50)
		from(time.Minute, w.scope.Mode, 50)
		from(10*time.Minute, affiliate.ModeLive, 50)
		hundredth := from(5*time.Minute, w.scope.Mode, 100)
		last := from(3*time.Minute, w.scope.Mode, 1)
		if got := rulesOf(w.mustReport(purchase("order-1", hundredth.ID))); got != nil {
			t.Errorf("the hundredth click: %q", got)
		}
		if got := rulesOf(w.mustReport(purchase("order-2", last.ID))); !slices.Equal(got, []string{"click_velocity"}) {
			t.Errorf("the one after it: %q", got)
		}
	})
	t.Run("conversions of the partner", func(t *testing.T) {
		w := suspicious(t, affiliate.FraudObserve)
		click := w.aged()
		for i := range 12 {
			if i == 11 {
				// An hour later the first eleven conversions no longer count.
				w.offset.Add(int64(time.Hour))
			}
			var want []string
			if i == 10 {
				want = []string{"conversion_velocity"}
			}
			if got := rulesOf(w.mustReport(purchase(fmt.Sprintf("order-%d", i), click.ID))); !slices.Equal(got, want) {
				t.Errorf("conversion %d: %q", i+1, got)
			}
		}
	})
	t.Run("customers of another partner", func(t *testing.T) {
		w := suspicious(t, affiliate.FraudObserve)
		w.mustReport(from(purchase("order-1", w.aged().ID), "ann@elsewhere.example", "", ""))
		r := purchase("order-2", w.aged().ID)
		r.CustomerId = ptr("customer-1")
		w.mustReport(r)
		w.participant, w.partner = w.newParticipant(w.scope, w.program)
		for name, tc := range map[string]struct {
			email, id string
			fired     []string
		}{
			"a new customer":       {"bob@elsewhere.example", "customer-2", nil},
			"the same address":     {"Ann+2@elsewhere.example", "", []string{"duplicate_customer"}},
			"the same customer id": {"", "customer-1", []string{"duplicate_customer"}},
		} {
			// A click after the one that bound the customer wins.
			r := from(purchase("order of a customer "+name, w.aged().ID), tc.email, "", "")
			if tc.id != "" {
				r.CustomerId = ptr(tc.id)
			}
			if got := rulesOf(w.mustReport(r)); !slices.Equal(got, tc.fired) {
				t.Errorf("%s: %q", name, got)
			}
		}
		// The rule compares customers of one programme only.
		other := w.newProgram(w.scope)
		w.program = other
		w.participant, w.partner = w.newParticipant(w.scope, other)
		if got := rulesOf(w.mustReport(from(purchase("order-9", w.aged().ID), "ann@elsewhere.example", "", ""))); got != nil {
			t.Errorf("another programme: %q", got)
		}
	})
	t.Run("refunds", func(t *testing.T) {
		w := suspicious(t, affiliate.FraudFlag)
		click := w.aged()
		for i := range 20 {
			w.mustReport(purchase(fmt.Sprintf("order-%d", i), click.ID))
		}
		w.offset.Add(int64(2 * time.Hour))
		w.Exec(`update conversions set refunded_amount_cents = 1 where external_transaction_id in ('order-1', 'order-2', 'order-3', 'order-4', 'order-5', 'order-6')`)
		if r := w.mustReport(purchase("order-20", click.ID)); rulesOf(r) != nil || r.GetCommission().GetNeedsReview() {
			t.Errorf("6 of 20: %v", r.GetFraud())
		}
		w.Exec(`update conversions set refunded_amount_cents = 1 where external_transaction_id = 'order-7'`)
		r := w.mustReport(purchase("order-21", click.ID))
		if !slices.Equal(rulesOf(r), []string{"refund_rate"}) || !r.GetCommission().GetNeedsReview() || r.GetFraud().GetFlagged() {
			t.Errorf("7 of 20: %v", r)
		}
		// Now order-1 is no longer among the last 20.
		if r := w.mustReport(purchase("order-22", click.ID)); rulesOf(r) != nil {
			t.Errorf("6 of 20 again: %v", r.GetFraud())
		}
		w.wantCount(1, `commissions where review_reasons = '{refund_rate}'`)
		w.wantCount(0, `fraud_events`)
	})
}

func TestFraud_StoresSignalsAndSendsEvents(t *testing.T) {
	for _, tc := range []struct {
		policy affiliate.FraudPolicy
		email  string
		action string // of the event, or empty if there is no event
		reason string
		review bool
	}{
		{affiliate.FraudOff, partnerEmail, "", "CLICK_MATCHED", false},
		{affiliate.FraudObserve, partnerEmail, "observed", "CLICK_MATCHED", false},
		{affiliate.FraudFlag, partnerEmail, "flagged", "CLICK_MATCHED", true},
		{affiliate.FraudFlag, "x@mailinator.com", "", "CLICK_MATCHED", false},
		{affiliate.FraudBlock, "ann@corp.example", "flagged", "CLICK_MATCHED", true},
		{affiliate.FraudBlock, partnerEmail, "blocked", "SELF_REFERRAL_BLOCKED", false},
	} {
		t.Run(string(tc.policy)+" "+tc.email, func(t *testing.T) {
			w := suspicious(t, tc.policy)
			r := w.mustReport(from(purchase("order-1", w.aged().ID), tc.email, "", ""))
			blocked := tc.action == "blocked"
			if !r.GetAttributed() || r.GetAttribution().GetReasonCode() != tc.reason || (r.GetCommission() == nil) != blocked ||
				r.GetCommission().GetNeedsReview() != tc.review || r.GetFraud().GetFlagged() != (tc.review || blocked) {
				t.Fatalf("%v", r)
			}
			if tc.action == "" {
				w.wantCount(0, `fraud_events`)
				w.wantCount(0, `events where type = 'conversion.fraud_detected'`)
				return
			}
			w.wantCount(1, `fraud_events f join conversions c on c.id = f.conversion_id and c.decision_id = f.id
				left join commissions m on m.conversion_id = c.id
				where f.action = $1 and f.status = 'open' and f.score = c.fraud_score and f.signals = c.fraud_signals and f.participant_id = $2
					and f.commission_id is not distinct from m.id`, tc.action, w.participant)
			object, _ := w.LastEvent(affiliate.EventConversionFraudDetected)
			if object["id"] != r.GetId() || object["action"] != tc.action || len(object["signals"].([]any)) != len(rulesOf(r)) || object["score"].(float64) < 50 {
				t.Errorf("%v", object)
			}
			w.wantCount(map[bool]int{true: 1}[tc.review], `commissions where needs_review and review_reasons = '{fraud}' and status = 'pending'`)
			w.wantCount(map[bool]int{true: 1}[tc.review], `events where type = 'commission.review_required'`)
			w.wantCount(1, `attribution_decisions where trace -> 'fraud' = (select signals from fraud_events) and trace -> 'steps' @> '[{"check": "fraud.score"}]'`)
			for _, text := range w.Texts(`select signals::text from fraud_events union all select trace::text from attribution_decisions
				union all select explanation from attribution_decisions union all select convert_from(body, 'utf8') from events`) {
				if strings.Contains(text, "corp.example") || strings.Contains(text, "@") {
					t.Errorf("personal data in %s", text)
				}
			}
		})
	}
}

// A flagged commission is not approved automatically, even if it has no hold period.
func TestFraud_FlaggedCommissionIsNotApproved(t *testing.T) {
	w := suspicious(t, affiliate.FraudFlag)
	w.Exec(`update programs set rules = rules || '{"hold_period_days": 0}'`)
	r := w.mustReport(from(purchase("order-1", w.aged().ID), partnerEmail, "", ""))
	if r.GetCommission().GetStatus() != affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING {
		t.Errorf("%v", r.GetCommission())
	}
	sweep, err := commissionservice.ApproveDue(t.Context(), stores.Commission(w.Store), w.now().Add(time.Minute), 10)
	if err != nil || sweep.Approved != 0 {
		t.Errorf("%+v, %v", sweep, err)
	}
}

// A late attribution checks the fraud rules with the stored data of the conversion.
func TestFraud_ChecksLateAttribution(t *testing.T) {
	w := suspicious(t, affiliate.FraudFlag)
	w.seen(partnerNetwork, browser, time.Minute)
	click := w.clickAt(w.now().Add(-10 * time.Minute))
	if r := w.mustReport(from(purchase("order-1", click.ID), "ann@corp.example", buyerAddress, browser)); r.GetAttributed() {
		t.Fatalf("%v", r)
	}
	w.wantCount(0, `fraud_events`)
	w.storeClick(click)
	w.Exec(`update clicks set ip_prefix = $1, is_bot = true`, partnerNetwork)
	if err := w.service.AttributeAwaited(t.Context(), affiliate.AttributeLateClick{Workspace: w.scope.Workspace, Click: click.ID}); err != nil {
		t.Fatal(err)
	}
	w.wantCount(1, `commissions where needs_review and review_reasons = '{fraud}'`)
	w.wantCount(1, `fraud_events f join conversions c on c.decision_id = f.id and c.fraud_score = f.score and c.fraud_signals = f.signals
		where f.score = 100 and f.action = 'flagged'`)
	fired := w.Texts(`select s ->> 'rule' from conversions, jsonb_array_elements(fraud_signals) s order by 1`)
	for _, rule := range []string{"bot_click", "same_ip_prefix_as_partner", "self_referral_domain"} {
		if !slices.Contains(fired, rule) {
			t.Errorf("%s is not among %q", rule, fired)
		}
	}
	w.wantCount(1, `events where type = 'conversion.fraud_detected'`)
}

func TestFraud_SkipsReattribution(t *testing.T) {
	w := suspicious(t, affiliate.FraudBlock)
	r := w.mustReport(from(purchase("order-1", w.aged().ID), partnerEmail, "", ""))
	w.wantCount(0, `commissions`)
	friend, _ := w.newParticipant(w.scope, w.program)
	w.Exec(`update participants set partner_email = $1`, partnerEmail)
	if _, err := w.service.ReattributeConversion(asMerchant(w.scope), &affiliatev1.ReattributeConversionRequest{
		ConversionId: r.GetId(), ParticipantId: friend.String(), Reason: "It is a gift",
	}); err != nil {
		t.Fatal(err)
	}
	w.wantCount(1, `commissions where participant_id = $1 and not needs_review`, friend)
	w.wantCount(1, `fraud_events`)
}

// Suspicious reports run in parallel. Each recorded conversion is flagged exactly once.
func TestFraud_ParallelReportsAreFlaggedOnce(t *testing.T) {
	w := suspicious(t, affiliate.FraudFlag)
	click := w.aged()
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			_, err := w.report(from(purchase(fmt.Sprintf("order-%d", i/2), click.ID), partnerEmail, buyerAddress, browser))
			if err != nil && !refused(err, affiliate.ReasonConversionDuplicate) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.wantCount(6, `fraud_events f join commissions m on m.id = f.commission_id and m.needs_review`)
	w.wantCount(6, `fraud_events`)
	w.wantCount(6, `events where type = 'conversion.fraud_detected'`)
}
