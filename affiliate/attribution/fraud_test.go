package attribution

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// suspectedInputs returns matchingInputs with a fraud policy and with facts about its
// participant.
func suspectedInputs(policy fraud.Policy, facts fraud.Facts) Inputs {
	in := matchingInputs()
	earner := &in.FoundClick.Earner
	earner.FraudPolicy = policy
	in.FraudFacts = map[affiliate.ParticipantID]fraud.Facts{earner.Participant: facts}
	return in
}

func TestAttribute_FraudPolicies(t *testing.T) {
	var (
		low          = fraud.Facts{SameNetwork: true}                                // score 40
		doubtful     = fraud.Facts{SameDevice: true}                                 // score 60
		certain      = fraud.Facts{SameDevice: true, SameNetwork: true}              // score 100
		selfReferral = fraud.Facts{SameEmail: true}                                  // score 100, a self-referral
		refunded     = fraud.Facts{ExaminedConversions: 20, RefundedConversions: 10} // score 0, but needs review
		both         = fraud.Facts{SameDevice: true, ExaminedConversions: 20, RefundedConversions: 10}
	)
	for name, tc := range map[string]struct {
		policy  fraud.Policy
		facts   fraud.Facts
		action  fraud.Action
		reason  Reason
		reviews []string
		signals int
	}{
		"off":                      {fraud.Off, selfReferral, "", WhyClickMatched, nil, 0},
		"no policy":                {"", selfReferral, "", WhyClickMatched, nil, 0},
		"observe, harmless":        {fraud.Observe, low, "", WhyClickMatched, nil, 1},
		"observe, doubtful":        {fraud.Observe, doubtful, fraud.Observed, WhyClickMatched, nil, 1},
		"observe, certain":         {fraud.Observe, selfReferral, fraud.Observed, WhyClickMatched, nil, 1},
		"observe, refunded":        {fraud.Observe, refunded, "", WhyClickMatched, nil, 1},
		"flag, harmless":           {fraud.Flag, low, "", WhyClickMatched, nil, 1},
		"flag, doubtful":           {fraud.Flag, doubtful, fraud.Flagged, WhyClickMatched, []string{"fraud"}, 1},
		"flag, certain":            {fraud.Flag, selfReferral, fraud.Flagged, WhyClickMatched, []string{"fraud"}, 1},
		"flag, refunded":           {fraud.Flag, refunded, "", WhyClickMatched, []string{"refund_rate"}, 1},
		"flag, refunded, doubtful": {fraud.Flag, both, fraud.Flagged, WhyClickMatched, []string{"fraud", "refund_rate"}, 2},
		"block, harmless":          {fraud.Block, low, "", WhyClickMatched, nil, 1},
		"block, doubtful":          {fraud.Block, doubtful, fraud.Flagged, WhyClickMatched, []string{"fraud"}, 1},
		"block, certain":           {fraud.Block, certain, fraud.Blocked, WhyFraudBlocked, nil, 2},
		"block, self-referral":     {fraud.Block, selfReferral, fraud.Blocked, WhySelfReferralBlocked, nil, 1},
		"block, refunded":          {fraud.Block, refunded, "", WhyClickMatched, []string{"refund_rate"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := Attribute(suspectedInputs(tc.policy, tc.facts))
			if !d.Attributed || d.Reason != tc.reason || d.FraudAction != tc.action || len(d.Trace.Fraud) != tc.signals {
				t.Fatalf("attributed %v, reason %s, fraud action %q, signals %v; want attributed, %s, %q and %d signals",
					d.Attributed, d.Reason, d.FraudAction, d.Trace.Fraud, tc.reason, tc.action, tc.signals)
			}
			blocked := tc.action == fraud.Blocked
			if (d.Earning == nil) != blocked || (d.Trace.Calculation == nil) != blocked {
				t.Fatalf("earns %v, calculation %v; want none of them: %v", d.Earning, d.Trace.Calculation, blocked)
			}
			if blocked && !strings.Contains(d.Explanation, "but earns no commission, because ") {
				t.Errorf("the explanation of a blocked conversion is %q", d.Explanation)
			}
			if !blocked && !slices.Equal(d.Earning.Calculation.ReviewReasons, tc.reviews) {
				t.Errorf("review reasons %q, want %q", d.Earning.Calculation.ReviewReasons, tc.reviews)
			}
			step := slices.IndexFunc(d.Trace.Steps, func(s Step) bool { return s.Check == "fraud.score" })
			if (step >= 0) != tc.policy.IsEnabled() {
				t.Fatalf("steps %+v; want a step fraud.score: %v", d.Trace.Steps, tc.policy.IsEnabled())
			}
			if wantFailed := blocked || tc.action == fraud.Flagged; step >= 0 && (d.Trace.Steps[step].Outcome == StepFailed) != wantFailed {
				t.Errorf("the step fraud.score has the outcome %s, want failed: %v", d.Trace.Steps[step].Outcome, wantFailed)
			}
		})
	}
}

func TestAttribute_FraudFactsOfTheSignal(t *testing.T) {
	promoCode := func(in *Inputs) {
		in.PromoCode = new("spring10")
		in.FoundPromoCode = &FoundPromoCode{Mode: in.Mode, Active: true, Earner: in.FoundClick.Earner}
		in.Click, in.FoundClick = nil, nil
	}
	for name, tc := range map[string]struct {
		change func(*Inputs)
		fired  []string
	}{
		"an ordinary click": {func(*Inputs) {}, nil},
		"a bot's click":     {func(in *Inputs) { in.FoundClick.Bot = true }, []string{"bot_click"}},
		"a purchase right after the click": {
			func(in *Inputs) { in.OccurredAt = clickedAt.Add(time.Second) }, []string{"click_to_convert"},
		},
		"many clicks from one address": {func(in *Inputs) { in.FoundClick.ClicksFromAddress = 101 }, []string{"click_velocity"}},
		"a blocked country": {
			func(in *Inputs) {
				in.FoundClick.Country, in.FoundClick.FraudSettings.BlockedCountries = "AQ", []string{"AQ"}
			},
			[]string{"blocked_country"},
		},
		"a search ad": {
			func(in *Inputs) {
				in.FoundClick.Referrer, in.FoundClick.UTM = "google.com", click.UTM{Medium: "cpc"}
			},
			[]string{"paid_search"},
		},
		"a search ad's click id": {
			func(in *Inputs) { in.FoundClick.PaidPlatform = "google" }, []string{"paid_search"},
		},
		"a brand term": {
			func(in *Inputs) {
				in.FoundClick.UTM, in.FoundClick.FraudSettings.BrandTerms = click.UTM{Source: "bing", Term: "acme"}, []string{"acme"}
			},
			[]string{"paid_search"},
		},
		"a disabled rule": {
			func(in *Inputs) {
				in.FoundClick.Bot, in.FoundClick.FraudSettings.DisabledRules = true, []string{"bot_click"}
			},
			nil,
		},
		"a coupon site's code without a click": {
			func(in *Inputs) {
				in.FoundClick.FraudSettings.CouponSites = []string{"coupons.example"}
				in.FraudFacts[in.FoundClick.Participant] = fraud.Facts{PartnerDomain: "coupons.example"}
				promoCode(in)
			},
			[]string{"no_click_signals"},
		},
		// The properties of a click do not matter for a conversion that another signal
		// attributes.
		"a promo code, and an expired click of a bot": {
			func(in *Inputs) {
				click := *in.FoundClick
				click.Bot, click.ExpiresAt = true, in.OccurredAt.Add(-time.Minute)
				id := in.Click
				in.FoundClick.FraudSettings.CouponSites = []string{"coupons.example"}
				in.FraudFacts[in.FoundClick.Participant] = fraud.Facts{PartnerDomain: "coupons.example"}
				promoCode(in)
				in.Click, in.FoundClick = id, &click
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := suspectedInputs(fraud.Flag, fraud.Facts{})
			tc.change(&in)
			d := Attribute(in)
			var fired []string
			for _, s := range d.Trace.Fraud {
				fired = append(fired, s.Rule)
			}
			if !d.Attributed || !slices.Equal(fired, tc.fired) {
				t.Errorf("attributed %v, fired %q, want %q", d.Attributed, fired, tc.fired)
			}
		})
	}
}

func TestAttribute_UsesFraudPolicyOfTheWinner(t *testing.T) {
	in := suspectedInputs(fraud.Off, fraud.Facts{})
	strict := in.FoundClick.Earner
	strict.Participant, strict.FraudPolicy = affiliate.NewID[affiliate.ParticipantID](clickedAt), fraud.Block
	in.PromoCode = new("spring10")
	in.FoundPromoCode = &FoundPromoCode{Mode: in.Mode, Active: true, Earner: strict}
	in.FraudFacts[strict.Participant] = fraud.Facts{SameEmail: true}
	if d := Attribute(in); d.Reason != WhyClickMatched || len(d.Trace.Fraud) != 0 {
		t.Errorf("click without fraud policy: reason %s and fraud signals %v, want %s and no signals", d.Reason, d.Trace.Fraud, WhyClickMatched)
	}
	in.FoundClick.ExpiresAt = clickedAt
	if d := Attribute(in); d.Reason != WhySelfReferralBlocked || *d.Participant != strict.Participant {
		t.Errorf("promo code with a policy that blocks: reason %s, want %s", d.Reason, WhySelfReferralBlocked)
	}
}

func TestAttribute_AssignedConversionIsNotCheckedForFraud(t *testing.T) {
	in := suspectedInputs(fraud.Block, fraud.Facts{SameEmail: true})
	in.Assigned = &in.FoundClick.Earner
	if d := Attribute(in); d.Reason != WhyReassigned || len(d.Trace.Fraud) != 0 || d.FraudAction != "" {
		t.Errorf("reason %s, fraud signals %v, fraud action %q; want %s, no signals and no action", d.Reason, d.Trace.Fraud, d.FraudAction, WhyReassigned)
	}
}

func TestAttribute_ConversionWithoutCommissionIsNotCheckedForFraud(t *testing.T) {
	in := suspectedInputs(fraud.Flag, fraud.Facts{SameEmail: true})
	in.EventType = affiliate.Signup
	if d := Attribute(in); d.Reason != WhyRuleNotApplicable || len(d.Trace.Fraud) != 0 || d.FraudAction != "" {
		t.Errorf("reason %s, fraud signals %v, fraud action %q; want %s, no signals and no action",
			d.Reason, d.Trace.Fraud, d.FraudAction, WhyRuleNotApplicable)
	}
}

func TestFraudCandidates(t *testing.T) {
	inputsWith := func(change func(*Earner)) Inputs {
		in := suspectedInputs(fraud.Flag, fraud.Facts{})
		change(&in.FoundClick.Earner)
		return in
	}
	for name, in := range map[string]Inputs{
		"off":            inputsWith(func(e *Earner) { e.FraudPolicy = fraud.Off }),
		"paused":         inputsWith(func(e *Earner) { e.ProgramStatus = program.Paused }),
		"suspended":      inputsWith(func(e *Earner) { e.ParticipantStatus = participant.Suspended }),
		"erased":         inputsWith(func(e *Earner) { e.ParticipantErased = true }),
		"no such signal": {},
	} {
		if got := in.FraudCandidates(); len(got) != 0 {
			t.Errorf("%s: FraudCandidates() = %+v, want none", name, got)
		}
	}
	in := inputsWith(func(*Earner) {})
	in.PromoCode, in.FoundPromoCode = new("spring10"), &FoundPromoCode{Mode: in.Mode, Earner: in.FoundClick.Earner}
	in.Customer = &FoundCustomer{Binding: &Binding{Earner: in.FoundClick.Earner}}
	if got := in.FraudCandidates(); len(got) != 1 {
		t.Errorf("three signals that lead to one participant: %d candidates, want 1", len(got))
	}
	in.Customer.Binding.Participant = affiliate.NewID[affiliate.ParticipantID](clickedAt)
	if got := in.FraudCandidates(); len(got) != 2 {
		t.Errorf("signals that lead to two participants: %d candidates, want 2", len(got))
	}
}

// The expected hash was computed by the collector for the same user agent
// (collector/record.go).
func TestAgentHash_MatchesCollector(t *testing.T) {
	keys := affiliate.HashKeys{[]byte(strings.Repeat("k", 32))}
	hash := func(agent string, at time.Time) []byte { return fraud.AgentHash(keys, agent, at).First() }
	at := time.Date(2026, 3, 31, 23, 59, 59, 0, time.UTC)
	const want = "8475d3024b860507095e9df0dfbdb2bb"
	if got := hex.EncodeToString(hash("agent/1", at)); got != want {
		t.Errorf("AgentHash = %s, want %s", got, want)
	}
	next := hash("agent/1", at.Add(time.Second))
	if slices.Equal(next, hash("agent/1", at)) || slices.Equal(next, hash("agent/2", at.Add(time.Second))) {
		t.Error("hashes of different months or different user agents are equal")
	}
}
