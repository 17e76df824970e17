package affiliate

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The test checks properties that hold for every decision.
func TestAttribute_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := worlds().Draw(t, "inputs")
		d := Attribute(in)

		winners := 0
		for _, c := range d.Candidates {
			if c.Eligible == (c.RejectedBecause != nil) {
				t.Fatalf("eligible %v, but rejected because %v", c.Eligible, c.RejectedBecause)
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
			t.Fatalf("attributed %v with %d winners", d.Attributed, winners)
		case d.Attributed != (d.Method != nil), d.Attributed != (d.Program != nil), d.Attributed != (d.Participant != nil):
			t.Fatalf("attributed %v: %v, %v, %v", d.Attributed, d.Method, d.Program, d.Participant)
		case d.Earns != nil && !d.Attributed:
			t.Fatal("earns without being attributed")
		case (d.Earns != nil) != (d.Rule != nil), (d.Earns != nil) != (d.Calculation != nil):
			t.Fatalf("earns %v, rule %v, calculation %v", d.Earns, d.Rule, d.Calculation)
		case (d.Click != nil) != (d.Attributed && *d.Method == ByClick), (d.PromoCode != nil) != (d.Attributed && *d.Method == ByPromoCode):
			t.Fatalf("method %v, click %v, promo code %v", d.Method, d.Click, d.PromoCode)
		case (d.Link != nil) != (d.Click != nil):
			t.Fatalf("link %v, click %v", d.Link, d.Click)
		case (d.RecurringIndex != nil) != (d.Attributed && in.Customer != nil && in.EventType.Priced()):
			t.Fatalf("payment %v", d.RecurringIndex)
		case d.RecurringIndex != nil && *d.RecurringIndex != in.Customer.Payments[*d.Program].Count+1:
			t.Fatalf("payment %d after %d", *d.RecurringIndex, in.Customer.Payments[*d.Program].Count)
		case d.Reason == "" || d.Reason == whyOutranked || d.Explanation == "":
			t.Fatalf("unexplained: %+v", d)
		}
		for i, step := range d.Steps {
			if step.Order != i+1 {
				t.Fatalf("step %d has order %d", i+1, step.Order)
			}
		}
	})
}

func TestAttribute_IsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := worlds().Draw(t, "inputs")
		before := mustEncode(t, in)
		a, b := Attribute(in), Attribute(in)
		if !reflect.DeepEqual(a, b) || !bytes.Equal(mustEncode(t, a), mustEncode(t, b)) || !bytes.Equal(mustEncode(t, a.Trace), mustEncode(t, b.Trace)) {
			t.Fatalf("%+v\n%+v", a, b)
		}
		if !bytes.Equal(mustEncode(t, in), before) {
			t.Fatal("Attribute changed its inputs")
		}
	})
}

// Losing signals are removed from the inputs. The customer's payments stay, because
// they are facts and not a signal.
func TestAttribute_LosingSignalsDoNotChangeTheAmount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := worlds().Draw(t, "inputs")
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
		if withoutLosers.Reason != d.Reason || *withoutLosers.Participant != *d.Participant || !reflect.DeepEqual(withoutLosers.Earns, d.Earns) {
			t.Fatalf("without losing signals %s: %+v\nwith them %s: %+v", withoutLosers.Reason, withoutLosers.Earns, d.Reason, d.Earns)
		}
	})
}

// A reported promo code that can be used is redeemed once, even if another signal wins.
func TestAttribute_RedeemsUsablePromoCodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := worlds().Draw(t, "inputs")
		d := Attribute(in)
		usable := false
		for _, c := range d.Candidates {
			usable = usable || c.Type == ByPromoCode && (c.Eligible || *c.RejectedBecause == whyOutranked)
		}
		if usable != (d.Redeems != nil) || usable && *d.Redeems != in.FoundPromoCode.ID {
			t.Fatalf("usable %v, redeems %v", usable, d.Redeems)
		}
	})
}

// Support staff send explanations to partners. They must not contain internal terms or
// data about other partners.
func TestExplain_ContainsNothingInternal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := worlds().Draw(t, "inputs")
		d := Attribute(in)
		explanation := d.Explanation
		if !strings.HasPrefix(explanation, "The ") || !strings.HasSuffix(explanation, ".") || strings.Contains(explanation, "..") || strings.Contains(explanation, "%!") {
			t.Fatalf("not well-formed sentences: %q", explanation)
		}
		for _, internal := range []string{"participant ", "signal", "bps", "_", "null", "outrank", string(d.Reason)} {
			if strings.Contains(explanation, internal) {
				t.Fatalf("internal term %q in %q", internal, explanation)
			}
		}
		for _, participant := range testParticipants {
			if strings.Contains(explanation, participant.String()) {
				t.Fatalf("%q names a partner", explanation)
			}
		}
		for id, name := range testProgramNames {
			if (d.Trace.Program == nil || d.Trace.Program.ID != id) && strings.Contains(explanation, name) {
				t.Fatalf("%q names another programme, %s", explanation, name)
			}
		}
		if d.Attributed && d.Earns == nil != strings.Contains(explanation, "but earns no commission, because ") {
			t.Fatalf("earns %v: %q", d.Earns, explanation)
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
