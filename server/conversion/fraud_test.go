package conversion_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/commission"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// The network of the partner, another network, and the buyer's IP address and browser.
const (
	partnerNetwork = "203.0.113.0/24"
	otherNetwork   = "198.51.100.0/24"
	buyerAddress   = "203.0.113.77"
	browser        = "Browser/77"
)

// withPolicy returns the column for the fraud policy of a programme.
func withPolicy(policy fraud.Policy) pgtest.Row { return pgtest.Row{"fraud_policy": policy} }

// olderClick stores a click from two minutes ago. A purchase right after its click would
// be a fraud signal.
func (f *fixture) olderClick(p pgtest.Participant, change ...func(*click.Click)) click.Click {
	f.Helper()
	return f.NewClick(p, append([]func(*click.Click){f.ago(2 * time.Minute)}, change...)...)
}

// withBuyer sets the buyer's data in a report. Empty values are not set.
func withBuyer(r *reportRequest, email, address, agent string) *reportRequest {
	for field, value := range map[**string]string{&r.CustomerEmail: email, &r.CustomerIp: address, &r.CustomerUserAgent: agent} {
		if value != "" {
			*field = &value
		}
	}
	return r
}

// useAccount stores that Pat used the partner account from a network. ago is the age of
// this use.
func (f *fixture) useAccount(network, agent string, ago time.Duration) {
	f.Helper()
	at := f.clock.Now().Add(-ago)
	origin := fraud.Origin{User: f.pat.Partner, IPPrefix: network, SeenAt: at}
	if agent != "" {
		origin.AgentHash = fraud.AgentHash(affiliate.HashKeys{[]byte(hashKey)}, agent, at).First()
	}
	if err := accounts.StoreOrigin(f.Context(), f.DB, origin); err != nil {
		f.Fatal(err)
	}
}

// wantSignals compares the rules of the fraud signals of a conversion.
func (f *fixture) wantSignals(r *affiliatev1.ReportConversionResponse, want ...string) {
	f.Helper()
	var got []string
	for _, s := range r.GetFraud().GetSignals() {
		got = append(got, s.GetRule())
	}
	if !slices.Equal(got, want) {
		f.Errorf("the fraud signals of %s are %q, want %q", r.GetExternalTransactionId(), got, want)
	}
}

func TestFraud_ComparesBuyerWithPartner(t *testing.T) {
	type accountUse struct {
		network, agent string
		ago            time.Duration
	}
	for name, tc := range map[string]struct {
		lastUse               *accountUse // last use of the partner's account
		email, address, agent string      // of the buyer
		signals               []string
	}{
		"buyer without data":            {},
		"email of the partner":          {email: "Pat+me@Corp.example", signals: []string{"self_referral_email", "self_referral_domain"}},
		"email in the partner's domain": {email: "ann@corp.example", signals: []string{"self_referral_domain"}},
		"email in another domain":       {email: "ann@elsewhere.example"},
		"disposable email":              {email: "x@mailinator.com", signals: []string{"disposable_email"}},
		"network of the partner": {
			lastUse: &accountUse{network: partnerNetwork, ago: time.Hour}, address: buyerAddress, signals: []string{"same_ip_prefix_as_partner"},
		},
		"network of the partner 25 hours ago": {lastUse: &accountUse{network: partnerNetwork, ago: 25 * time.Hour}, address: buyerAddress},
		"device of the partner 20 days ago": {
			lastUse: &accountUse{partnerNetwork, browser, 20 * day}, address: buyerAddress, agent: browser,
			signals: []string{"same_device_as_partner"},
		},
		"device and network of the partner": {
			lastUse: &accountUse{partnerNetwork, browser, time.Hour}, address: buyerAddress, agent: browser,
			signals: []string{"same_device_as_partner", "same_ip_prefix_as_partner"},
		},
		"browser of the partner in another network": {
			lastUse: &accountUse{otherNetwork, browser, time.Hour}, address: buyerAddress, agent: browser,
		},
		"another browser 2 days ago": {
			lastUse: &accountUse{partnerNetwork, "Other/1", 2 * day}, address: buyerAddress, agent: browser,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, withPolicy(fraud.Observe))
			if tc.lastUse != nil {
				f.useAccount(tc.lastUse.network, tc.lastUse.agent, tc.lastUse.ago)
			}
			r := f.mustReport(withBuyer(purchase("order-1", f.olderClick(f.pat).ID), tc.email, tc.address, tc.agent))
			f.wantSignals(r, tc.signals...)
			if r.GetFraud().GetFlagged() || r.GetCommission().GetNeedsReview() {
				t.Errorf("under the policy observe, flagged is %t and needs_review is %t, want false",
					r.GetFraud().GetFlagged(), r.GetCommission().GetNeedsReview())
			}
		})
	}
}

// The service also compares the network and browser of the click with those of the
// partner, even if the merchant reports nothing about the buyer.
func TestFraud_ComparesClickWithPartner(t *testing.T) {
	f := newFixture(t, withPolicy(fraud.Flag))
	f.useAccount(partnerNetwork, browser, 2*time.Minute) // in the month of the click, because hashes differ between months
	click := f.olderClick(f.pat, func(c *click.Click) {
		c.IPPrefix, c.UAHash = partnerNetwork, fraud.AgentHash(affiliate.HashKeys{[]byte(hashKey)}, browser, c.ReceivedAt).First()
	})
	f.wantSignals(f.mustReport(purchase("order-1", click.ID)), "same_device_as_partner", "same_ip_prefix_as_partner")
}

// The 100th click of one IP address within an hour is not suspicious, but the 101st click
// is. Clicks in the other mode do not count. Clicks that follow the click of the
// conversion do not count either.
func TestFraud_CountsClicksOfOneIPAddress(t *testing.T) {
	f := newFixture(t, withPolicy(fraud.Observe))
	lia := f.InOtherMode(pgtest.Rules()).Join("Lia")
	clicks := func(n int, p pgtest.Participant, ago time.Duration) (last click.Click) {
		for range n {
			last = f.NewClick(p, f.ago(ago), func(c *click.Click) { c.IPHash = []byte("0123456789abcdef") })
		}
		return last
	}
	clicks(50, f.pat, 2*time.Hour)
	clicks(50, f.pat, time.Minute)
	clicks(50, lia, 10*time.Minute)
	hundredth := clicks(100, f.pat, 5*time.Minute)
	next := clicks(1, f.pat, 3*time.Minute)
	f.wantSignals(f.mustReport(purchase("order-1", hundredth.ID)))
	f.wantSignals(f.mustReport(purchase("order-2", next.ID)), "click_velocity")
}

func TestFraud_CountsConversionsOfPartnerInOneHour(t *testing.T) {
	f := newFixture(t, withPolicy(fraud.Observe))
	click := f.olderClick(f.pat)
	for i := range 10 {
		f.wantSignals(f.mustReport(purchase(fmt.Sprint("order-", i), click.ID)))
	}
	f.wantSignals(f.mustReport(purchase("order-10", click.ID)), "conversion_velocity")
	f.clock.Advance(time.Hour)
	f.wantSignals(f.mustReport(purchase("order-11", click.ID)))
}

func TestFraud_DetectsCustomersOfAnotherPartner(t *testing.T) {
	f := newFixture(t, withPolicy(fraud.Observe))
	f.mustReport(withBuyer(purchase("order-1", f.olderClick(f.pat).ID), "ann@elsewhere.example", "", ""))
	f.mustReport(purchaseBy("customer-1", "order-2", f.olderClick(f.pat).ID))
	other := f.Join("Olga")
	for name, tc := range map[string]struct {
		email, customer string
		signals         []string
	}{
		"new customer":       {"bob@elsewhere.example", "customer-2", nil},
		"same email address": {"Ann+2@elsewhere.example", "", []string{"duplicate_customer"}},
		"same customer id":   {"", "customer-1", []string{"duplicate_customer"}},
	} {
		// This click is newer than the click that bound the customer, so the purchase is
		// attributed to this click.
		r := withBuyer(purchase("order of a "+name, f.olderClick(other).ID), tc.email, "", "")
		if tc.customer != "" {
			r.CustomerId = &tc.customer
		}
		f.wantSignals(f.mustReport(r), tc.signals...)
	}
	// Customers of different programmes are not compared.
	elsewhere := f.NewParticipant(f.Scope, f.NewProgram(f.Scope, pgtest.Rules(), withPolicy(fraud.Observe)), f.NewPartner("Pam"))
	f.wantSignals(f.mustReport(withBuyer(purchase("order-9", f.olderClick(elsewhere).ID), "ann@elsewhere.example", "", "")))
}

// A participant is suspicious if more than 30 percent of the last 20 conversions were
// refunded.
func TestFraud_CountsRefunds(t *testing.T) {
	f := newFixture(t, withPolicy(fraud.Flag))
	click := f.olderClick(f.pat)
	for i := range 20 {
		f.mustReport(purchase(fmt.Sprint("order-", i), click.ID))
	}
	f.clock.Advance(2 * time.Hour)
	for i := range 6 {
		f.mustRefund(fmt.Sprint("order-", 1+i), fmt.Sprint("refund-", i), 1)
	}
	r := f.mustReport(purchase("order-20", click.ID))
	f.wantSignals(r)
	if r.GetCommission().GetNeedsReview() {
		t.Error("with 6 of 20 conversions refunded, the commission needs a review")
	}
	f.mustRefund("order-7", "refund-7", 1)
	r = f.mustReport(purchase("order-21", click.ID))
	f.wantSignals(r, "refund_rate")
	if !r.GetCommission().GetNeedsReview() || r.GetFraud().GetFlagged() {
		t.Errorf("with 7 of 20 conversions refunded, needs_review is %t and flagged is %t, want true and false",
			r.GetCommission().GetNeedsReview(), r.GetFraud().GetFlagged())
	}
	// The refunded order-1 is no longer among the last 20 conversions.
	f.wantSignals(f.mustReport(purchase("order-22", click.ID)))
	f.wantRows(1, `commissions where review_reasons = '{refund_rate}'`)
	f.wantRows(0, `fraud_events`)
}

func TestFraud_StoresSignalsAndSendsEvents(t *testing.T) {
	for _, tc := range []struct {
		policy fraud.Policy
		email  string
		action string // of the event, or empty if there is no event
		reason string
		review bool
	}{
		{fraud.Off, partnerEmail, "", "CLICK_MATCHED", false},
		{fraud.Observe, partnerEmail, "observed", "CLICK_MATCHED", false},
		{fraud.Flag, partnerEmail, "flagged", "CLICK_MATCHED", true},
		{fraud.Flag, "x@mailinator.com", "", "CLICK_MATCHED", false},
		{fraud.Block, "ann@corp.example", "flagged", "CLICK_MATCHED", true},
		{fraud.Block, partnerEmail, "blocked", "SELF_REFERRAL_BLOCKED", false},
	} {
		t.Run(string(tc.policy)+" "+tc.email, func(t *testing.T) {
			f := newFixture(t, withPolicy(tc.policy))
			r := f.mustReport(withBuyer(purchase("order-1", f.olderClick(f.pat).ID), tc.email, "", ""))
			blocked := tc.action == "blocked"
			f.wantAttribution(r, tc.reason, f.pat)
			if earns := r.GetCommission() != nil; earns == blocked {
				t.Errorf("the conversion earns a commission: %t, want %t", earns, !blocked)
			}
			if got := r.GetCommission().GetNeedsReview(); got != tc.review {
				t.Errorf("needs_review is %t, want %t", got, tc.review)
			}
			if got, want := r.GetFraud().GetFlagged(), tc.review || blocked; got != want {
				t.Errorf("flagged is %t, want %t", got, want)
			}
			if tc.action == "" {
				f.wantRows(0, `fraud_events`)
				f.wantRows(0, `events where type = 'conversion.fraud_detected'`)
				return
			}
			f.wantRows(1, `fraud_events f join conversions c on c.id = f.conversion_id and c.decision_id = f.id
				left join commissions m on m.conversion_id = c.id
				where f.action = $1 and f.status = 'open' and f.score = c.fraud_score and f.signals = c.fraud_signals and f.participant_id = $2
					and f.commission_id is not distinct from m.id`, tc.action, f.pat.ID)
			object, _ := f.LastEvent(affiliate.EventConversionFraudDetected)
			f.wantAttributes("conversion.fraud_detected", object, pgtest.Row{"id": r.GetId(), "action": tc.action})
			if got, want := len(object["signals"].([]any)), len(r.GetFraud().GetSignals()); got != want {
				t.Errorf("the event has %d signals, want %d", got, want)
			}
			if score := object["score"].(float64); score < 50 {
				t.Errorf("the event has the score %v, want at least 50", score)
			}
			reviews := map[bool]int{true: 1}[tc.review]
			f.wantRows(reviews, `commissions where needs_review and review_reasons = '{fraud}' and status = 'pending'`)
			f.wantRows(reviews, `events where type = 'commission.review_required'`)
			f.wantRows(1, `attribution_decisions
				where trace -> 'fraud' = (select signals from fraud_events) and trace -> 'steps' @> '[{"check": "fraud.score"}]'`)
			for _, text := range f.Texts(`select signals::text from fraud_events union all select trace::text from attribution_decisions
				union all select explanation from attribution_decisions union all select convert_from(body, 'utf8') from events`) {
				if strings.Contains(text, "corp.example") || strings.Contains(text, "@") {
					t.Errorf("personal data is stored in %s", text)
				}
			}
		})
	}
}

// A flagged commission is not approved automatically, even if it has no hold period.
func TestFraud_FlaggedCommissionIsNotApproved(t *testing.T) {
	f := newFixture(t, withPolicy(fraud.Flag), pgtest.Rules(withoutHoldPeriod))
	r := f.mustReport(withBuyer(purchase("order-1", f.olderClick(f.pat).ID), partnerEmail, "", ""))
	if got := r.GetCommission().GetStatus(); got != pending {
		t.Errorf("the flagged commission is %s, want %s", got, pending)
	}
	sweep, err := commission.ApproveDue(t.Context(), f.DB, f.clock.Now().Add(time.Minute), 10)
	if err != nil || sweep.Approved != 0 {
		t.Errorf("ApproveDue returned %+v, %v; want no approved commission", sweep, err)
	}
}

// A late attribution checks the fraud rules with the stored data of the conversion.
func TestFraud_ChecksLateAttribution(t *testing.T) {
	f := newFixture(t, withPolicy(fraud.Flag))
	f.useAccount(partnerNetwork, browser, time.Minute)
	click := f.UnstoredClick(f.pat, f.ago(10*time.Minute), func(c *click.Click) { c.IPPrefix, c.IsBot = partnerNetwork, true })
	f.reportUnattributed(withBuyer(purchase("order-1", click.ID), "ann@corp.example", buyerAddress, browser))
	f.wantRows(0, `fraud_events`)
	f.attribute(f.storeLate(click))
	f.wantRows(1, `commissions where needs_review and review_reasons = '{fraud}'`)
	f.wantRows(1, `fraud_events f join conversions c on c.decision_id = f.id and c.fraud_score = f.score and c.fraud_signals = f.signals
		where f.score = 100 and f.action = 'flagged'`)
	signals := f.Texts(`select s ->> 'rule' from conversions, jsonb_array_elements(fraud_signals) s order by 1`)
	for _, rule := range []string{"bot_click", "same_ip_prefix_as_partner", "self_referral_domain"} {
		if !slices.Contains(signals, rule) {
			t.Errorf("the fraud signals are %q, want %s among them", signals, rule)
		}
	}
	f.wantRows(1, `events where type = 'conversion.fraud_detected'`)
}

func TestFraud_IsNotCheckedInReattribution(t *testing.T) {
	f := newFixture(t, withPolicy(fraud.Block))
	r := f.mustReport(withBuyer(purchase("order-1", f.olderClick(f.pat).ID), partnerEmail, "", ""))
	f.wantRows(0, `commissions`)
	friend := f.Join("Fay", pgtest.Row{"partner_email": partnerEmail})
	f.mustReattribute(r.GetId(), friend)
	f.wantRows(1, `commissions where participant_id = $1 and not needs_review`, friend.ID)
	f.wantRows(1, `fraud_events`)
}

func TestFraud_ParallelReportsAreFlaggedOnce(t *testing.T) {
	f := newFixture(t, withPolicy(fraud.Flag))
	click := f.olderClick(f.pat)
	const orders = 6
	calls := f.parallelCalls()
	for i := range 2 * orders {
		calls.start("report", func() error {
			_, err := f.report(withBuyer(purchase(fmt.Sprint("order-", i/2), click.ID), partnerEmail, buyerAddress, browser))
			return err
		})
	}
	calls.want(map[string]int{"report": orders, "report CONVERSION_DUPLICATE": orders})
	f.wantRows(orders, `fraud_events f join commissions m on m.id = f.commission_id and m.needs_review`)
	f.wantRows(orders, `fraud_events`)
	f.wantRows(orders, `events where type = 'conversion.fraud_detected'`)
}
