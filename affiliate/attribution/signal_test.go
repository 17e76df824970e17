package attribution

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// everySignal returns a purchase with a click, a promo code and a bound customer. They
// lead to different participants of one programme, and all are eligible.
func everySignal() Inputs {
	in := matchingInputs()
	in.FoundClick.Model = program.LastClick
	code, bound := in.FoundClick.Earner, in.FoundClick.Earner
	code.Participant, bound.Participant = testParticipants[1], testParticipants[2]
	in.PromoCode = new("spring10")
	in.FoundPromoCode = &FoundPromoCode{ID: affiliate.NewID[affiliate.PromoCodeID](clickedAt), Mode: affiliate.ModeTest, Active: true, Earner: code}
	at := clickedAt.Add(-24 * time.Hour)
	in.Customer = &FoundCustomer{Binding: &Binding{BoundAt: at, SignalAt: at, WindowEndsAt: click.WindowEnd(at, 30), Earner: bound}}
	return in
}

func TestAttribute_OrderOfSignals(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Inputs)
		want   []Method
	}{
		"click first": {func(*Inputs) {}, []Method{ByClick, ByPromoCode, ByCustomer}},
		"promo code first": {
			func(in *Inputs) { in.FoundClick.Precedence = program.PromoCodeFirst },
			[]Method{ByPromoCode, ByClick, ByCustomer},
		},
		"the click's programme decides, not the promo code's": {
			func(in *Inputs) { in.FoundPromoCode.Precedence = program.PromoCodeFirst },
			[]Method{ByClick, ByPromoCode, ByCustomer},
		},
		"the promo code's programme decides if the click is unknown": {
			func(in *Inputs) { in.FoundClick, in.FoundPromoCode.Precedence = nil, program.PromoCodeFirst },
			[]Method{ByPromoCode, ByClick, ByCustomer},
		},
		"the promo code's programme decides if the click has the other mode": {
			func(in *Inputs) {
				in.FoundClick.Mode, in.FoundPromoCode.Precedence = affiliate.ModeLive, program.PromoCodeFirst
			},
			[]Method{ByPromoCode, ByClick, ByCustomer},
		},
		"the customer's programme decides if the others are unknown": {
			func(in *Inputs) {
				in.FoundClick, in.FoundPromoCode, in.Customer.Binding.Precedence = nil, nil, program.PromoCodeFirst
			},
			[]Method{ByPromoCode, ByClick, ByCustomer},
		},
		"the default order applies if all signals are unknown": {
			func(in *Inputs) { in.FoundClick, in.FoundPromoCode, in.Customer = nil, nil, nil },
			[]Method{ByClick, ByPromoCode},
		},
		"first click: an open binding comes before a later click": {
			func(in *Inputs) { in.Customer.Binding.Model = program.FirstClick },
			[]Method{ByCustomer, ByClick, ByPromoCode},
		},
		"first click, promo code first: the binding still comes before the click": {
			func(in *Inputs) {
				in.Customer.Binding.Model, in.FoundClick.Precedence = program.FirstClick, program.PromoCodeFirst
			},
			[]Method{ByPromoCode, ByCustomer, ByClick},
		},
		"the model first click of the click's programme has no effect": {
			func(in *Inputs) { in.FoundClick.Model = program.FirstClick },
			[]Method{ByClick, ByPromoCode, ByCustomer},
		},
		"first click, in the window's last instant": {
			func(in *Inputs) {
				in.Customer.Binding.Model, in.Customer.Binding.WindowEndsAt = program.FirstClick, in.OccurredAt
			},
			[]Method{ByCustomer, ByClick, ByPromoCode},
		},
		"first click, the window is over": {
			func(in *Inputs) {
				in.Customer.Binding.Model, in.Customer.Binding.WindowEndsAt = program.FirstClick, in.OccurredAt.Add(-time.Millisecond)
			},
			[]Method{ByClick, ByPromoCode, ByCustomer},
		},
		"first click, the click bound the customer": {
			func(in *Inputs) {
				in.Customer.Binding.Model, in.Customer.Binding.SignalAt = program.FirstClick, in.FoundClick.ReceivedAt
			},
			[]Method{ByClick, ByPromoCode, ByCustomer},
		},
		"first click, a click after the click that bound the customer, but before the binding": {
			func(in *Inputs) {
				in.Customer.Binding.Model, in.Customer.Binding.SignalAt = program.FirstClick, in.FoundClick.ReceivedAt.Add(-time.Minute)
				in.Customer.Binding.BoundAt = in.FoundClick.ReceivedAt.Add(time.Minute)
			},
			[]Method{ByCustomer, ByClick, ByPromoCode},
		},
		"first click, the click is unknown": {
			func(in *Inputs) { in.Customer.Binding.Model, in.FoundClick = program.FirstClick, nil },
			[]Method{ByClick, ByPromoCode, ByCustomer},
		},
		"first click, no click": {
			func(in *Inputs) {
				in.Customer.Binding.Model, in.Click, in.FoundClick = program.FirstClick, nil, nil
			},
			[]Method{ByPromoCode, ByCustomer},
		},
		"a customer who is not bound": {
			func(in *Inputs) { in.Customer.Binding = nil },
			[]Method{ByClick, ByPromoCode},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := everySignal()
			tc.change(&in)
			d := Attribute(in)
			var got []Method
			for _, c := range d.Trace.Candidates {
				got = append(got, c.Type)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("the candidates are %v, want %v", got, tc.want)
			}
		})
	}
}

func TestAttribute_FirstEligibleSignalWins(t *testing.T) {
	pause := func(e *Earner) { e.ProgramStatus = program.Paused }
	for name, tc := range map[string]struct {
		change  func(*Inputs)
		reason  Reason
		losers  map[Method]Reason
		redeems bool
	}{
		"click": {
			func(*Inputs) {},
			WhyClickMatched,
			map[Method]Reason{ByPromoCode: whyOutranked, ByCustomer: whyOutranked},
			true,
		},
		"promo code, click unknown": {
			func(in *Inputs) { in.FoundClick = nil },
			WhyPromoCodeMatched,
			map[Method]Reason{ByClick: WhyClickUnknown, ByCustomer: whyOutranked},
			true,
		},
		"promo code, programme of the click paused": {
			func(in *Inputs) { pause(&in.FoundClick.Earner) },
			WhyPromoCodeMatched,
			map[Method]Reason{ByClick: WhyProgramInactive, ByCustomer: whyOutranked},
			true,
		},
		"customer, click expired and promo code inactive": {
			func(in *Inputs) {
				in.FoundClick.ExpiresAt, in.FoundPromoCode.Active = in.OccurredAt.Add(-time.Millisecond), false
			},
			WhyCustomerBound,
			map[Method]Reason{ByClick: WhyClickExpired, ByPromoCode: WhyPromoCodeInactive},
			false,
		},
		"customer, after its window": {
			func(in *Inputs) {
				in.Click, in.FoundClick, in.PromoCode, in.FoundPromoCode = nil, nil, nil, nil
				in.OccurredAt = in.Customer.Binding.WindowEndsAt.AddDate(5, 0, 0)
			},
			WhyCustomerBound,
			map[Method]Reason{},
			false,
		},
		"customer before a later click": {
			func(in *Inputs) { in.Customer.Binding.Model = program.FirstClick },
			WhyCustomerBound,
			map[Method]Reason{ByClick: whyOutranked, ByPromoCode: whyOutranked},
			true,
		},
		"no eligible signal: the decision has the reason of the first reported signal": {
			func(in *Inputs) {
				pause(&in.Customer.Binding.Earner)
				in.Customer.Binding.Model = program.FirstClick
				in.FoundClick.ParticipantErased, in.FoundPromoCode = true, nil
			},
			WhyParticipantErased,
			map[Method]Reason{ByCustomer: WhyProgramInactive, ByPromoCode: WhyPromoCodeUnknown},
			false,
		},
		"no eligible signal: promo code first": {
			func(in *Inputs) {
				pause(&in.Customer.Binding.Earner)
				in.FoundClick, in.FoundPromoCode.Precedence, in.FoundPromoCode.Active = nil, program.PromoCodeFirst, false
			},
			WhyPromoCodeInactive,
			map[Method]Reason{ByCustomer: WhyProgramInactive, ByClick: WhyClickUnknown},
			false,
		},
		"no eligible signal: only a binding": {
			func(in *Inputs) {
				in.Click, in.FoundClick, in.PromoCode, in.FoundPromoCode = nil, nil, nil, nil
				pause(&in.Customer.Binding.Earner)
			},
			WhyProgramInactive,
			map[Method]Reason{},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := everySignal()
			tc.change(&in)
			d := Attribute(in)
			if d.Reason != tc.reason || (d.Redeems != nil) != tc.redeems {
				t.Fatalf("reason %s, redeems %v; want %s, a promo code: %v", d.Reason, d.Redeems, tc.reason, tc.redeems)
			}
			for _, c := range d.Trace.Candidates {
				why, loses := tc.losers[c.Type]
				if loses && (c.Eligible || *c.RejectedBecause != why) || !loses && !c.Eligible && *c.RejectedBecause != tc.reason {
					t.Errorf("candidate %s is eligible: %v, rejected because %v; want to be rejected because of %q", c.Type, c.Eligible, c.RejectedBecause, why)
				}
			}
		})
	}
}

func TestAttribute_PromoCodeAtTheTimeOfTheEvent(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*FoundPromoCode, time.Time)
		reason Reason
	}{
		"active":                     {func(*FoundPromoCode, time.Time) {}, WhyPromoCodeMatched},
		"inactive":                   {func(c *FoundPromoCode, _ time.Time) { c.Active = false }, WhyPromoCodeInactive},
		"at its expiry":              {func(c *FoundPromoCode, at time.Time) { c.ExpiresAt = &at }, WhyPromoCodeMatched},
		"1 ms after its expiry":      {func(c *FoundPromoCode, at time.Time) { c.ExpiresAt = new(at.Add(-time.Millisecond)) }, WhyPromoCodeInactive},
		"its last redemption":        {func(c *FoundPromoCode, _ time.Time) { c.MaxRedemptions, c.Redemptions = new(int64(3)), 2 }, WhyPromoCodeMatched},
		"used up":                    {func(c *FoundPromoCode, _ time.Time) { c.MaxRedemptions, c.Redemptions = new(int64(3)), 3 }, WhyPromoCodeInactive},
		"of the other mode":          {func(c *FoundPromoCode, _ time.Time) { c.Mode = affiliate.ModeLive }, WhyPromoCodeUnknown},
		"of a paused programme":      {func(c *FoundPromoCode, _ time.Time) { c.ProgramStatus = program.Paused }, WhyProgramInactive},
		"of an erased participant":   {func(c *FoundPromoCode, _ time.Time) { c.ParticipantErased = true }, WhyParticipantErased},
		"of a suspended participant": {func(c *FoundPromoCode, _ time.Time) { c.ParticipantStatus = participant.Suspended }, WhyParticipantNotApproved},
	} {
		t.Run(name, func(t *testing.T) {
			in := everySignal()
			in.Click, in.FoundClick, in.Customer = nil, nil, nil
			tc.change(in.FoundPromoCode, in.OccurredAt)
			d := Attribute(in)
			if d.Reason != tc.reason {
				t.Fatalf("reason %s, want %s; explanation: %s", d.Reason, tc.reason, d.Explanation)
			}
			if d.Attributed != (d.PromoCode != nil && *d.PromoCode == "spring10" && *d.Method == ByPromoCode) || d.Click != nil || d.Link != nil ||
				d.ClickedAt != nil || d.ExpiresAt != nil {
				t.Errorf("decision %+v\nwant the promo code if attributed, and no data of a click", d)
			}
			if d.Trace.Program != nil && d.Trace.Program.WindowDays != 30 {
				t.Errorf("the window in the trace has %d days, want 30", d.Trace.Program.WindowDays)
			}
		})
	}
}

func TestHasSignalOfOtherMode(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Inputs)
		want   bool
	}{
		"both of this mode": {func(*Inputs) {}, false},
		"click":             {func(in *Inputs) { in.FoundClick.Mode = affiliate.ModeLive }, true},
		"promo code":        {func(in *Inputs) { in.FoundPromoCode.Mode = affiliate.ModeLive }, true},
		"unknown":           {func(in *Inputs) { in.FoundClick, in.FoundPromoCode = nil, nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := everySignal()
			tc.change(&in)
			if got := in.HasSignalOfOtherMode(); got != tc.want {
				t.Errorf("HasSignalOfOtherMode() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestAttribute_Assigned(t *testing.T) {
	for name, tc := range map[string]struct {
		change     func(*Earner)
		reason     Reason
		attributed bool
		earns      bool
	}{
		"to a participant":           {func(*Earner) {}, WhyReassigned, true, true},
		"in a paused programme":      {func(e *Earner) { e.ProgramStatus = program.Paused }, WhyReassigned, true, true},
		"in an archived programme":   {func(e *Earner) { e.ProgramStatus = program.Archived }, WhyReassigned, true, true},
		"to a suspended participant": {func(e *Earner) { e.ParticipantStatus = participant.Suspended }, WhyParticipantNotApproved, true, false},
		"event type earns nothing":   {func(e *Earner) { e.Rule.Rules.Events = []program.EventRate{{EventType: affiliate.Lead}} }, WhyRuleNotApplicable, true, false},
		"to an erased participant":   {func(e *Earner) { e.ParticipantErased = true }, WhyParticipantErased, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := everySignal()
			earner := in.FoundClick.Earner
			earner.Participant = testParticipants[0]
			in.Customer.Payments = map[affiliate.ProgramID]CustomerPayments{earner.Program: {2, clickedAt}}
			tc.change(&earner)
			in.Assigned = &earner
			d := Attribute(in)
			if d.Reason != tc.reason || d.Attributed != tc.attributed || (d.Earning != nil) != tc.earns {
				t.Fatalf("reason %s, attributed %v, earns %v; want %s, %v, a commission: %v",
					d.Reason, d.Attributed, d.Earning, tc.reason, tc.attributed, tc.earns)
			}
			if d.Click != nil || d.PromoCode != nil || d.Link != nil || d.Redeems != nil || d.ClickedAt != nil {
				t.Errorf("decision %+v\nwant no data of a click or promo code", d)
			}
			if d.Attributed && (*d.Participant != earner.Participant || *d.Method != ByAssignment || *d.RecurringIndex != 3) {
				t.Errorf("attributed to %s by %s as payment %d, want %s by %s as payment 3",
					d.Participant, *d.Method, *d.RecurringIndex, earner.Participant, ByAssignment)
			}
			if len(d.Trace.Candidates) != 1 || d.Trace.Candidates[0].Type != ByAssignment || *d.Trace.Candidates[0].Participant != earner.Participant {
				t.Errorf("candidates %+v, want only %s by %s", d.Trace.Candidates, earner.Participant, ByAssignment)
			}
			if d.Trace.Steps[0].Check != "participant.not_erased" || d.Trace.Program.WindowDays != 30 {
				t.Errorf("first check %s, window of %d days; want participant.not_erased, 30", d.Trace.Steps[0].Check, d.Trace.Program.WindowDays)
			}
		})
	}
}

// Decisions are kept when a buyer's data is erased. The trace may therefore contain when
// the customer was bound and the number of the payment, but nothing that identifies the
// customer.
func TestTrace_DoesNotIdentifyTheCustomer(t *testing.T) {
	in := everySignal()
	in.Click, in.FoundClick, in.PromoCode, in.FoundPromoCode = nil, nil, nil, nil
	in.Customer.Binding.WindowDays = 45 // changed after the customer was bound
	d := Attribute(in)
	b, err := json.Marshal(d.Trace)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Program    map[string]any   `json:"program"`
		Candidates []map[string]any `json:"candidates"`
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	binding := in.Customer.Binding
	want := []map[string]any{{
		"type": "customer", "participant_id": binding.Participant.String(), "at": "2026-02-28T12:00:00Z", "expires_at": "2026-03-30T12:00:00Z",
		"eligible": true, "rejected_because": nil,
	}}
	if !reflect.DeepEqual(got.Candidates, want) {
		t.Errorf("candidates %v, want %v", got.Candidates, want)
	}
	if got.Program["window_days"] != 45.0 {
		t.Errorf("program %v, want window_days 45", got.Program)
	}
}

func TestTrace_HasSourceOfTheRate(t *testing.T) {
	in := matchingInputs()
	group := &GroupRate{ID: affiliate.NewID[affiliate.GroupID](clickedAt), Name: "Friends", Rate: bps(400)}
	in.FoundClick.Rule.Override, in.FoundClick.Rule.Group = new(flat(250)), group
	d := Attribute(in)
	rule := d.Trace.Rule
	if rule.Source != FromParticipant || *rule.Override.FlatCents != 250 || *rule.Group != *group || rule.Version != 2 {
		t.Errorf("rule %+v; want source %s, override 250, group %+v, version 2", rule, FromParticipant, *group)
	}
	if !reflect.DeepEqual(d.Earning.Earner.Rule, *rule) || d.Trace.Calculation.Source != FromParticipant {
		t.Errorf("earns with rule %+v and source %s, want the rule of the trace and %s", d.Earning.Earner.Rule, d.Trace.Calculation.Source, FromParticipant)
	}
	if in.FoundClick.Rule.Source != "" {
		t.Error("Attribute changed its inputs")
	}
}
