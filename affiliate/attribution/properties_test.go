package attribution

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The test checks conditions that must be true for every decision.
func TestAttribute_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := attributionInputs().Draw(t, "inputs")
		d := Attribute(in)

		winners := 0
		for _, c := range d.Trace.Candidates {
			if c.Eligible == (c.RejectedBecause != nil) {
				t.Fatalf("candidate %s is eligible: %v, but its rejection reason is %v", c.Type, c.Eligible, c.RejectedBecause)
			}
			if c.Eligible {
				winners++
				if c.Type != *d.Method || *c.Participant != *d.Participant {
					t.Fatalf("%s wins for %s, but the decision has %s for %s", c.Type, c.Participant, *d.Method, d.Participant)
				}
			}
		}
		switch {
		case d.Attributed && winners != 1, !d.Attributed && winners != 0:
			t.Fatalf("attributed %v with %d eligible candidates", d.Attributed, winners)
		case d.Attributed != (d.Method != nil), d.Attributed != (d.Program != nil), d.Attributed != (d.Participant != nil):
			t.Fatalf("attributed %v, but method %v, programme %v, participant %v", d.Attributed, d.Method, d.Program, d.Participant)
		case d.Earning != nil && !d.Attributed:
			t.Fatal("the conversion earns a commission, but is not attributed")
		case (d.Earning != nil) != (d.Trace.Rule != nil), (d.Earning != nil) != (d.Trace.Calculation != nil):
			t.Fatalf("earns %v, but rule %v and calculation %v", d.Earning, d.Trace.Rule, d.Trace.Calculation)
		case (d.Click != nil) != (d.Attributed && *d.Method == ByClick), (d.PromoCode != nil) != (d.Attributed && *d.Method == ByPromoCode):
			t.Fatalf("method %v, but click %v and promo code %v", d.Method, d.Click, d.PromoCode)
		case (d.Link != nil) != (d.Click != nil):
			t.Fatalf("click %v, but link %v", d.Click, d.Link)
		case (d.RecurringIndex != nil) != (d.Attributed && in.Customer != nil && in.EventType.Priced()):
			t.Fatalf("RecurringIndex is %v for a %s, attributed %v, customer %v", d.RecurringIndex, in.EventType, d.Attributed, in.Customer)
		case d.RecurringIndex != nil && *d.RecurringIndex != in.Customer.Payments[*d.Program].Count+1:
			t.Fatalf("RecurringIndex is %d after %d earlier payments", *d.RecurringIndex, in.Customer.Payments[*d.Program].Count)
		case d.Reason == "" || d.Reason == whyOutranked || d.Explanation == "":
			t.Fatalf("reason %q and explanation %q, want a reason of a decision and a text", d.Reason, d.Explanation)
		}
		for i, step := range d.Trace.Steps {
			if step.Order != i+1 {
				t.Fatalf("step %d has Order %d", i+1, step.Order)
			}
		}
	})
}

func TestAttribute_IsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := attributionInputs().Draw(t, "inputs")
		before := mustEncode(t, in)
		a, b := Attribute(in), Attribute(in)
		if !reflect.DeepEqual(a, b) || !bytes.Equal(mustEncode(t, a), mustEncode(t, b)) || !bytes.Equal(mustEncode(t, a.Trace), mustEncode(t, b.Trace)) {
			t.Fatalf("two calls with the same inputs return\n%+v\n%+v", a, b)
		}
		if !bytes.Equal(mustEncode(t, in), before) {
			t.Fatal("Attribute changed its inputs")
		}
	})
}

// The test removes the losing signals from the inputs. The decision must stay the same.
// The customer's payments are not removed, because they are not a signal.
func TestAttribute_LosingSignalsDoNotChangeTheAmount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := attributionInputs().Draw(t, "inputs")
		d := Attribute(in)
		if !d.Attributed || *d.Method == ByAssignment {
			return // no signal has lost
		}
		alone := in
		if *d.Method != ByClick {
			alone.Click, alone.FoundClick = nil, nil
		}
		if *d.Method != ByPromoCode {
			alone.PromoCode, alone.FoundPromoCode = nil, nil
		}
		if in.Customer != nil && *d.Method != ByCustomer {
			alone.Customer = &FoundCustomer{Payments: in.Customer.Payments}
		}
		withoutLosers := Attribute(alone)
		if withoutLosers.Reason != d.Reason || *withoutLosers.Participant != *d.Participant || !reflect.DeepEqual(withoutLosers.Earning, d.Earning) {
			t.Fatalf("without the losing signals, the decision is %s: %+v\nwant %s: %+v", withoutLosers.Reason, withoutLosers.Earning, d.Reason, d.Earning)
		}
	})
}

// A reported promo code that can be used is redeemed once, even if another signal wins.
func TestAttribute_RedeemsUsablePromoCodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := attributionInputs().Draw(t, "inputs")
		d := Attribute(in)
		usable := false
		for _, c := range d.Trace.Candidates {
			usable = usable || c.Type == ByPromoCode && (c.Eligible || *c.RejectedBecause == whyOutranked)
		}
		if usable != (d.Redeems != nil) || usable && *d.Redeems != in.FoundPromoCode.ID {
			t.Fatalf("the promo code can be used: %v, but Redeems is %v", usable, d.Redeems)
		}
	})
}

// Support staff send explanations to partners. They must not contain internal terms or
// data about other partners.
func TestExplain_ContainsNothingInternal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := attributionInputs().Draw(t, "inputs")
		d := Attribute(in)
		explanation := d.Explanation
		if !strings.HasPrefix(explanation, "The ") || !strings.HasSuffix(explanation, ".") || strings.Contains(explanation, "..") || strings.Contains(explanation, "%!") {
			t.Fatalf("the explanation does not consist of complete sentences: %q", explanation)
		}
		for _, internal := range []string{"participant ", "signal", "bps", "_", "null", "outrank", string(d.Reason)} {
			if strings.Contains(explanation, internal) {
				t.Fatalf("internal term %q in %q", internal, explanation)
			}
		}
		for _, participant := range testParticipants {
			if strings.Contains(explanation, participant.String()) {
				t.Fatalf("the explanation contains the id of a participant: %q", explanation)
			}
		}
		for id, name := range testProgramNames {
			if (d.Trace.Program == nil || d.Trace.Program.ID != id) && strings.Contains(explanation, name) {
				t.Fatalf("the explanation names the other programme %s: %q", name, explanation)
			}
		}
		if d.Attributed && d.Earning == nil != strings.Contains(explanation, "but earns no commission, because ") {
			t.Fatalf("Earning is %v, but the explanation is %q", d.Earning, explanation)
		}
	})
}

func mustEncode(t *rapid.T, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
