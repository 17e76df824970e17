package attribution

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
)

var clickedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// matchingInputs returns a purchase one hour after its click, with a window of 30 days
// and a rate of 30 percent.
func matchingInputs() Inputs {
	clickID := affiliate.NewID[affiliate.ClickID](clickedAt)
	rate := int64(3000)
	return Inputs{
		Mode: affiliate.ModeTest, EventType: affiliate.Purchase, OccurredAt: clickedAt.Add(time.Hour),
		Sale:  Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}},
		Click: &clickID,
		FoundClick: &FoundClick{
			Mode: affiliate.ModeTest, ReceivedAt: clickedAt, ExpiresAt: click.WindowEnd(clickedAt, 30), Link: affiliate.NewID[affiliate.LinkID](clickedAt),
			Earner: Earner{
				Program: affiliate.NewID[affiliate.ProgramID](clickedAt), ProgramName: "Spring", ProgramStatus: program.Active,
				Currency: "EUR", Model: program.FirstClick, Precedence: program.ClickFirst, WindowDays: 30,
				Rule:        RuleSnapshot{Version: 2, Rules: program.Rules{Type: program.Percentage, RateBps: &rate, NetBasis: program.Gross}},
				Participant: affiliate.NewID[affiliate.ParticipantID](clickedAt), Partner: affiliate.NewID[affiliate.UserID](clickedAt),
				ParticipantStatus: participant.Approved,
			},
		},
	}
}

func TestAttribute_Reasons(t *testing.T) {
	for name, tc := range map[string]struct {
		change      func(*Inputs)
		reason      Reason
		attributed  bool
		earns       bool
		failedStep  string
		explanation string
	}{
		"matched": {
			func(*Inputs) {},
			WhyClickMatched, true, true, "", "is credited to the partner whose link was clicked on 1 March 2026 at 12:00:00.000 UTC",
		},
		"renewal": {
			func(in *Inputs) { in.EventType = affiliate.Renewal },
			WhyClickMatched, true, true, "", "The renewal on",
		},
		"unknown": {
			func(in *Inputs) { in.FoundClick = nil },
			WhyClickUnknown, false, false, "click.known", "no click with the id",
		},
		"other mode": {
			func(in *Inputs) { in.FoundClick.Mode = affiliate.ModeLive },
			WhyClickUnknown, false, false, "click.known", "no click with the id",
		},
		"expired": {
			func(in *Inputs) { in.OccurredAt = clickedAt.Add(31 * 24 * time.Hour) },
			WhyClickExpired, false, false, "click.inside_window", "the window ended on 31 March 2026",
		},
		"later than the event": {
			func(in *Inputs) { in.OccurredAt = clickedAt.Add(-time.Hour) },
			WhyClickAfterConversion, false, false, "click.not_after_event", "the click was later",
		},
		"programme paused": {
			func(in *Inputs) { in.FoundClick.ProgramStatus = program.Paused },
			WhyProgramInactive, false, false, "program.active", `programme "Spring" is not active`,
		},
		"programme archived": {
			func(in *Inputs) { in.FoundClick.ProgramStatus = program.Archived },
			WhyProgramInactive, false, false, "program.active", "is not active",
		},
		"participant erased": {
			func(in *Inputs) { in.FoundClick.ParticipantErased = true },
			WhyParticipantErased, false, false, "participant.not_erased", "has been erased",
		},
		"participant pending": {
			func(in *Inputs) { in.FoundClick.ParticipantStatus = participant.Pending },
			WhyParticipantNotApproved, true, false, "participant.approved", "earns no commission, because the partner's participation in programme \"Spring\" is pending",
		},
		"participant suspended": {
			func(in *Inputs) { in.FoundClick.ParticipantStatus = participant.Suspended },
			WhyParticipantNotApproved, true, false, "participant.approved", "is suspended",
		},
		"signup": {
			func(in *Inputs) { in.EventType = affiliate.Signup },
			WhyRuleNotApplicable, true, false, "rules.pay_for_event", "pays for purchases and renewals only",
		},
		"promo code alone": {
			func(in *Inputs) { in.Click, in.FoundClick, in.PromoCode = nil, nil, new("spring10") },
			WhyPromoCodeUnknown, false, false, "promo_code.known", `no programme has the promo code "spring10"`,
		},
		"click and promo code unknown": {
			func(in *Inputs) { in.FoundClick, in.PromoCode = nil, new("spring10") },
			WhyClickUnknown, false, false, "click.known", `No programme has the reported promo code "spring10".`,
		},
		"click wins over an unknown promo code": {
			func(in *Inputs) { in.PromoCode = new("spring10") },
			WhyClickMatched, true, true, "promo_code.known", `No programme has the reported promo code`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := matchingInputs()
			tc.change(&in)
			d := Attribute(in)
			if d.EngineVersion != "3" {
				t.Errorf("engine version %s, want 3", d.EngineVersion)
			}
			if d.Reason != tc.reason || d.Attributed != tc.attributed || (d.Earning != nil) != tc.earns {
				t.Fatalf("reason %s, attributed %v, earns %v; want %s, %v, a commission: %v",
					d.Reason, d.Attributed, d.Earning, tc.reason, tc.attributed, tc.earns)
			}
			if d.Attributed != (d.Method != nil && d.Program != nil && d.Participant != nil && d.Click != nil && d.Link != nil) {
				t.Errorf("attributed %v, but method %v, programme %v, participant %v, click %v, link %v",
					d.Attributed, d.Method, d.Program, d.Participant, d.Click, d.Link)
			}
			if (d.Earning != nil) != (d.Trace.Rule != nil && d.Trace.Calculation != nil) {
				t.Errorf("earns %v, but the trace has rule %v and calculation %v", d.Earning, d.Trace.Rule, d.Trace.Calculation)
			}
			if !strings.Contains(d.Explanation, tc.explanation) || !strings.HasSuffix(d.Explanation, ".") {
				t.Errorf("the explanation is %q, want a sentence with %q", d.Explanation, tc.explanation)
			}
			if got := firstFailure(d.Trace.Steps); got != tc.failedStep {
				t.Errorf("the first failed step is %q, want %q", got, tc.failedStep)
			}
			for i, step := range d.Trace.Steps {
				if step.Order != i+1 {
					t.Errorf("step %d has Order %d", i+1, step.Order)
				}
			}
		})
	}
}

func TestAttribute_WindowEndIsInclusive(t *testing.T) {
	end := click.WindowEnd(clickedAt, 30)
	for name, tc := range map[string]struct {
		occurredAt time.Time
		reason     Reason
	}{
		"1 ms before the end":         {end.Add(-time.Millisecond), WhyClickMatched},
		"at the end":                  {end, WhyClickMatched},
		"1 ms after the end":          {end.Add(time.Millisecond), WhyClickExpired},
		"5 min before the click":      {clickedAt.Add(-5 * time.Minute), WhyClickMatched},
		"5 min 1 ms before the click": {clickedAt.Add(-5*time.Minute - time.Millisecond), WhyClickAfterConversion},
		"at the time of the click":    {clickedAt, WhyClickMatched},
	} {
		t.Run(name, func(t *testing.T) {
			in := matchingInputs()
			in.OccurredAt = tc.occurredAt
			if d := Attribute(in); d.Reason != tc.reason {
				t.Errorf("reason %s, want %s", d.Reason, tc.reason)
			}
		})
	}
}

func TestAttribute_ListsLosingSignalsAsCandidates(t *testing.T) {
	in := matchingInputs()
	in.PromoCode = new("spring10")
	d := Attribute(in)
	if len(d.Trace.Candidates) != 2 {
		t.Fatalf("%d candidates, want 2", len(d.Trace.Candidates))
	}
	click, promo := d.Trace.Candidates[0], d.Trace.Candidates[1]
	if !click.Eligible || click.RejectedBecause != nil || click.Type != ByClick || *click.Click != *in.Click {
		t.Errorf("the first candidate is %+v, want the eligible click %s", click, in.Click)
	}
	if promo.Eligible || promo.RejectedBecause == nil || *promo.RejectedBecause != WhyPromoCodeUnknown || *promo.PromoCode != "spring10" {
		t.Errorf("the second candidate is %+v, want spring10 rejected with %s", promo, WhyPromoCodeUnknown)
	}
}

func TestTrace_JSONKeys(t *testing.T) {
	d := Attribute(matchingInputs())
	encoded, err := json.Marshal(d.Trace)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"inputs", "program", "candidates", "steps", "rule", "calculation", "fraud"} {
		if _, ok := got[key]; !ok {
			t.Errorf("the trace has no key %s", key)
		}
	}
	program := got["program"].(map[string]any)
	if program["window_days"] != 30.0 || program["model"] != "first_click" || program["precedence"] != "click_first" {
		t.Errorf("program is %v, want window_days 30, first_click, click_first", program)
	}
	if rule := got["rule"].(map[string]any); rule["source"] != "program" || rule["version"] != 2.0 {
		t.Errorf("rule is %v, want source program and version 2", rule)
	}
	calculation := got["calculation"].(map[string]any)
	for key, want := range map[string]any{
		"base_amount_cents": 10_000.0, "source": "program", "rate_bps": 3_000.0, "rounding": "half_up", "amount_cents": 3_000.0,
		"capped_at_order_cap": false, "capped_at_base": false,
	} {
		if calculation[key] != want {
			t.Errorf("calculation.%s is %v, want %v", key, calculation[key], want)
		}
	}
}

func TestTrace_JSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Attribute(attributionInputs().Draw(t, "inputs"))
		stored, err := json.Marshal(d.Trace)
		if err != nil {
			t.Fatal(err)
		}
		var trace Trace
		if err := json.Unmarshal(stored, &trace); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(trace, d.Trace) {
			t.Fatalf("the decoded trace is %+v, want %+v", trace, d.Trace)
		}
	})
}

func TestFoldEmail(t *testing.T) {
	for in, want := range map[string]string{
		"Ann@Example.com":         "ann@example.com",
		"ann+shop@example.com":    "ann@example.com",
		"a.n.n+shop@gmail.com":    "ann@gmail.com",
		"A.nn@googlemail.com":     "ann@gmail.com",
		"a.nn@example.com":        "a.nn@example.com",
		"+tag@example.com":        "+tag@example.com",
		`"odd@local"@example.com`: `"odd@local"@example.com`,
		"":                        "", "ann": "", "@example.com": "", "ann@": "",
	} {
		local, domain, ok := affiliate.FoldEmail(in)
		if got := local + "@" + domain; ok != (want != "") || ok && got != want {
			t.Errorf("FoldEmail(%q) = %q, %v; want %q", in, got, ok, want)
		}
	}
}

func firstFailure(steps []Step) string {
	for _, step := range steps {
		if step.Outcome == StepFailed {
			return step.Check
		}
	}
	return ""
}
