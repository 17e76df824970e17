package affiliate

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What holds for every decision, whatever was reported and found.
func TestLawsOfAttribution(t *testing.T) {
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
					t.Fatalf("%s wins for %s, but the decision says %s for %s", c.Type, c.Participant, *d.Method, d.Participant)
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

func TestSameInputsGiveTheSameDecisionAndStayAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := worlds().Draw(t, "inputs")
		before := encoded(t, in)
		a, b := Attribute(in), Attribute(in)
		if !reflect.DeepEqual(a, b) || !bytes.Equal(encoded(t, a), encoded(t, b)) || !bytes.Equal(encoded(t, a.Trace), encoded(t, b.Trace)) {
			t.Fatalf("%+v\n%+v", a, b)
		}
		if !bytes.Equal(encoded(t, in), before) {
			t.Fatal("deciding changed what it decided by")
		}
	})
}

// The binding alone is a signal; what the customer has paid is a fact and stays.
func TestLosingSignalsNeverChangeTheWinnersMoney(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := worlds().Draw(t, "inputs")
		d := Attribute(in)
		if !d.Attributed || *d.Method == ByHand {
			return // nobody could have lost
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
		undisputed := Attribute(alone)
		if undisputed.Reason != d.Reason || *undisputed.Participant != *d.Participant || !reflect.DeepEqual(undisputed.Earns, d.Earns) {
			t.Fatalf("alone %s: %+v\nwith the others %s: %+v", undisputed.Reason, undisputed.Earns, d.Reason, d.Earns)
		}
	})
}

// A promo code that can be used is used up by one, whoever wins.
func TestUsablePromoCodesAreRedeemed(t *testing.T) {
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

// Support sends explanations on to partners: nothing in them may be internal,
// or about anybody else.
func TestExplanationsAreFitForPartners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := worlds().Draw(t, "inputs")
		d := Attribute(in)
		says := d.Explanation
		if !strings.HasPrefix(says, "The ") || !strings.HasSuffix(says, ".") || strings.Contains(says, "..") || strings.Contains(says, "%!") {
			t.Fatalf("no sentences: %q", says)
		}
		for _, internal := range []string{"participant ", "signal", "bps", "_", "null", "outrank", string(d.Reason)} {
			if strings.Contains(says, internal) {
				t.Fatalf("%q is in %q", internal, says)
			}
		}
		for _, participant := range testParticipants {
			if strings.Contains(says, participant.String()) {
				t.Fatalf("%q names a partner", says)
			}
		}
		for id, name := range testProgramNames {
			if (d.Trace.Program == nil || d.Trace.Program.ID != id) && strings.Contains(says, name) {
				t.Fatalf("%q speaks of another programme, %s", says, name)
			}
		}
		if d.Attributed && d.Earns == nil != strings.Contains(says, "but earns no commission, because ") {
			t.Fatalf("earns %v: %q", d.Earns, says)
		}
	})
}

func encoded(t *rapid.T, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
