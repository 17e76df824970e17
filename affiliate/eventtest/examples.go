// Package eventtest has an example of each event, for tests of code that handles events.
package eventtest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/affiliatetest"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/event"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
)

// Commission returns a pending commission.
func Commission() commission.Commission {
	return commission.Commission{
		ExternalTransactionID: "order-1042",
		ID:                    affiliatetest.ID[affiliate.CommissionID](2), Scope: affiliatetest.Scope, Program: affiliatetest.ID[affiliate.ProgramID](3),
		Participant: affiliatetest.ID[affiliate.ParticipantID](4), Conversion: affiliatetest.ID[affiliate.ConversionID](5),
		Status: commission.Pending, AmountCents: 980, OriginalAmountCents: 980, Currency: "USD",
		HoldUntil: new(affiliatetest.Noon.AddDate(0, 0, 30)), ReviewReasons: []string{}, Dispute: commission.DisputeNone,
		Version: 1, CreatedAt: affiliatetest.Noon, UpdatedAt: affiliatetest.Noon,
	}
}

// Conversion returns a credited purchase and its decision.
func Conversion() (conversion.Conversion, attribution.Decision) {
	c := conversion.Conversion{
		ID: affiliatetest.ID[affiliate.ConversionID](5), Scope: affiliatetest.Scope, ExternalTransactionID: "order-1042", EventType: affiliate.Purchase,
		Sale: attribution.Sale{Money: affiliate.Money{Cents: 4900, Currency: "USD"}}, OccurredAt: affiliatetest.Noon.Add(-time.Minute), CreatedAt: affiliatetest.Noon,
		Click: new(affiliatetest.ID[affiliate.ClickID](6)), Version: 1,
	}
	d := attribution.Decision{
		ID: affiliatetest.ID[affiliate.DecisionID](7), Conversion: c.ID, Attributed: true, Method: new(attribution.ByClick), Reason: attribution.WhyClickMatched,
		Explanation: `The purchase on 1 March 2026 is credited to the partner whose link was clicked on 27 February 2026.`,
		Program:     new(affiliatetest.ID[affiliate.ProgramID](3)), Participant: new(affiliatetest.ID[affiliate.ParticipantID](4)),
		DecidedAt: affiliatetest.Noon, ClickedAt: new(affiliatetest.Noon.AddDate(0, 0, -2)), ExpiresAt: new(affiliatetest.Noon.AddDate(0, 0, 28)),
	}
	return c, d
}

// Participant returns a participant with the given status.
func Participant(status participant.Status) participant.Participant {
	return participant.Participant{
		ID: affiliatetest.ID[affiliate.ParticipantID](4), Scope: affiliatetest.Scope, Program: affiliatetest.ID[affiliate.ProgramID](3),
		Partner: affiliatetest.ID[affiliate.UserID](8), ExternalID: new("customer-17"), PartnerName: "Anna Jansen", ReferralCode: "anna-jansen", Status: status, Version: 2,
		RejectionReason: new("The site is not about gardening."), SuspensionReason: new("Bids on the name of the brand."),
	}
}

// Link returns a link with parameters.
func Link() link.Link {
	return link.Link{
		ID: affiliatetest.ID[affiliate.LinkID](9), Scope: affiliatetest.Scope, Program: affiliatetest.ID[affiliate.ProgramID](3),
		Participant: affiliatetest.ID[affiliate.ParticipantID](4), Code: "anna-jansen-k7f", Destination: new("https://shop.example/spades"),
		SubID: "newsletter", UTM: click.UTM{Source: "anna", Campaign: "spring"}, Version: 1,
	}
}

// PromoCode returns a promo code that has been used.
func PromoCode() promocode.PromoCode {
	return promocode.PromoCode{
		ID: affiliatetest.ID[affiliate.PromoCodeID](10), Scope: affiliatetest.Scope, Program: affiliatetest.ID[affiliate.ProgramID](3),
		Participant: affiliatetest.ID[affiliate.ParticipantID](4), Code: "anna10", DiscountType: promocode.DiscountPercentage, DiscountValue: 1050,
		MaxRedemptions: new(int64(500)), Redemptions: 12, ExpiresAt: new(affiliatetest.Noon.AddDate(0, 3, 0)), Active: true,
		SyncStatus: promocode.SyncNone, Version: 1,
	}
}

// Program returns an active programme.
func Program() program.Program {
	return program.Program{
		ID: affiliatetest.ID[affiliate.ProgramID](3), Scope: affiliatetest.Scope, Name: "Garden Friends", Slug: "garden-friends", Status: program.Active,
		WebsiteURL: new("https://shop.example/"), AllowedDomains: []string{"shop.example", "*.shop.example"}, Currency: "USD", WindowDays: 30,
		Model: program.LastClick, Precedence: program.ClickFirst, LinkParam: "via", IsPublic: true,
		Rules: program.Rules{
			Type: program.Percentage, RateBps: new(int64(2000)), HoldDays: 30, AutoApproval: true, NetBasis: program.NetOfTax,
			Tiers: []program.Tier{{MinConversions: new(int64(100)), RateBps: 2500}},
			Products: []program.ProductRate{
				{ProductID: "spade-01", Rate: program.Rate{FlatCents: new(int64(300))}},
			},
			Events: []program.EventRate{{EventType: affiliate.Purchase}},
		},
		RulesVersion: 2, MinPayoutCents: 5000, PayoutTermDays: 14, FraudPolicy: fraud.Flag,
		TermsURL: new("https://shop.example/terms"), TermsVersion: 1, Version: 3,
	}
}

// Payout returns a payout.
func Payout() payout.Payout {
	return payout.Payout{
		ID: affiliatetest.ID[affiliate.PayoutID](11), Scope: affiliatetest.Scope, Batch: affiliatetest.ID[payout.BatchID](12),
		Payee: payout.Payee{Participant: affiliatetest.ID[affiliate.ParticipantID](4), Currency: "USD"}, AmountCents: 1960, CommissionCount: 2,
		Status: payout.Draft, Method: payout.PayPal, Version: 1, CreatedAt: affiliatetest.Noon,
	}
}

// Changed returns an event with the object after. Its previous attributes are the values in
// before of the fields that differ.
func Changed(t testing.TB, name affiliate.EventName, before, after any) affiliate.Event {
	t.Helper()
	oldValues, _, err := affiliate.ChangedFields(before, after)
	if err != nil || oldValues == nil {
		t.Fatalf("%s: no difference, error %v", name, err)
	}
	return affiliate.NewEvent(affiliatetest.Scope, name, affiliatetest.Noon, after, oldValues)
}

// Examples returns an example event for each event name. The examples are always the
// same, because docs/events.md shows them.
func Examples(t testing.TB) map[affiliate.EventName]affiliate.Event {
	t.Helper()
	all := map[affiliate.EventName]affiliate.Event{}
	add := func(events ...affiliate.Event) {
		for _, event := range events {
			event.ID = affiliatetest.ID[affiliate.EventID](99)
			all[event.Name] = event
		}
	}
	conversionExamples(add)
	commissionExamples(t, add)
	payoutExamples(t, add)

	pending := Participant(participant.Pending)
	pending.Version = 1
	add(affiliate.NewEvent(affiliatetest.Scope, affiliate.EventParticipantApplied, affiliatetest.Noon, pending.Object(), nil))
	add(privacy.ParticipantErased(Participant(participant.Approved), affiliatetest.Noon))
	for _, move := range []participant.Move{
		participant.ApproveParticipant, participant.RejectParticipant, participant.SuspendParticipant, participant.ReinstateParticipant,
	} {
		before, after := Participant(move.From()[0]), Participant(move.To())
		before.Version--
		add(Changed(t, move.Event(), before.Object(), after.Object()))
	}

	link, moved := Link(), Link()
	moved.Destination, moved.Campaign, moved.Version = new("https://shop.example/rakes"), "summer", 2
	add(affiliate.NewEvent(affiliatetest.Scope, affiliate.EventLinkCreated, affiliatetest.Noon, link.Object(), nil))
	add(Changed(t, affiliate.EventLinkUpdated, link.Object(), moved.Object()))

	code, inactive := PromoCode(), PromoCode()
	inactive.Active, inactive.Version = false, 2
	add(affiliate.NewEvent(affiliatetest.Scope, affiliate.EventPromoCodeCreated, affiliatetest.Noon, code.Object(), nil))
	add(Changed(t, affiliate.EventPromoCodeDeactivated, code.Object(), inactive.Object()))

	program, lower := Program(), Program()
	lower.MinPayoutCents, lower.FraudPolicy = 10000, fraud.Observe
	add(Changed(t, affiliate.EventProgramUpdated, lower.Object(), program.Object()))

	erasure := privacy.BuyerErasure{ID: affiliatetest.ID[privacy.BuyerErasureID](15), Workspace: affiliatetest.Scope.Workspace}
	add(erasure.Event(privacy.BuyerErasureDone, affiliatetest.Noon))
	export := privacy.NewExport(privacy.WorkspaceSubject(affiliatetest.Scope.Workspace), affiliate.ModeLive, true, affiliatetest.Noon.Add(-time.Hour))
	add(export.Complete(affiliatetest.Noon).ReadyEvent(affiliatetest.Noon)...)

	ping := event.PingObject{Endpoint: affiliatetest.ID[affiliate.EndpointID](13), Description: new("Orders, production")}
	add(affiliate.NewEvent(affiliatetest.Scope, affiliate.EventWebhookPing, affiliatetest.Noon, ping, nil))
	return all
}

func conversionExamples(add func(...affiliate.Event)) {
	c, d := Conversion()
	add(c.Event(affiliate.EventConversionCreated, d, affiliatetest.Noon))

	refunded := c
	refunded.RefundedAmountCents, refunded.Version = 1900, 2
	add(refunded.RefundedEvent(c, d, affiliatetest.Noon))

	d.FraudAction, d.Trace.Fraud = fraud.Flagged, []fraud.Signal{
		{Rule: "click_to_convert", Score: 40, Evidence: "The conversion happened less than 5 seconds after the click."},
		{Rule: "duplicate_customer", Score: 40, Evidence: "The customer has converted for another partner of the programme before."},
	}
	add(c.FraudDetectedEvent(d))

	c.Version, d.Trace.Fraud = 2, nil
	d.Method, d.Reason, d.ClickedAt, d.ExpiresAt = new(attribution.ByAssignment), attribution.WhyReassigned, nil, nil
	d.Explanation = `The purchase on 1 March 2026 has been assigned by hand to a partner of programme "Garden Friends".`
	add(c.Event(affiliate.EventConversionReattributed, d, affiliatetest.Noon))
}

func commissionExamples(t testing.TB, add func(...affiliate.Event)) {
	t.Helper()
	pending := Commission()
	add(commission.NewChange(pending, affiliate.System, nil).Events()...)

	approved, flagged := pending, pending
	approved.Status, approved.HoldUntil = commission.Approved, new(affiliatetest.Noon.AddDate(0, 0, -1))
	flagged.NeedsReview, flagged.ReviewReasons = true, []string{attribution.ReviewFraud}
	disputed := approved
	disputed.Dispute, disputed.NeedsReview, disputed.ReviewReasons = commission.DisputeOpen, true, []string{commission.ReviewDispute}
	person := affiliate.Actor{User: new(affiliatetest.ID[affiliate.UserID](14))}
	for _, example := range []struct {
		commission commission.Commission
		move       commission.Transition
	}{
		{approved, commission.Transition{Move: commission.MoveReject, Reason: new("The order was a test."), Code: new("test_order")}},
		{approved, commission.Transition{Move: commission.MovePay, PaidAt: affiliatetest.Noon, Payout: new(affiliatetest.ID[affiliate.PayoutID](11))}},
		{approved, commission.Transition{Move: commission.MoveRefund, AmountCents: 600, RefundReason: commission.RefundedSale}},
		{pending, commission.Transition{Move: commission.MoveFlag, ReviewReasons: []string{attribution.ReviewFraud}}},
		{flagged, commission.Transition{Move: commission.MoveClearReview}},
		{flagged, commission.Transition{Move: commission.MoveApprove}},
		{approved, commission.Transition{Move: commission.MoveDispute}},
		{disputed, commission.Transition{Move: commission.MoveResolveDispute, Dispute: commission.DisputeWon}},
	} {
		if example.move.Move == commission.MoveApprove {
			example.commission.HoldUntil = new(affiliatetest.Noon.AddDate(0, 0, -1))
		}
		example.move.Actor, example.move.At = person, affiliatetest.Noon
		after, refusal := example.move.Apply(example.commission)
		if refusal != nil {
			t.Fatalf("%s: %v", example.move.Move, refusal)
		}
		add(commission.Change{Before: &example.commission, After: after, Transition: example.move}.Events()...)
	}
}

func payoutExamples(t testing.TB, add func(...affiliate.Event)) {
	t.Helper()
	commissions := []affiliate.CommissionID{affiliatetest.ID[affiliate.CommissionID](2), affiliatetest.ID[affiliate.CommissionID](15)}
	sample := Payout()
	add(sample.CreatedEvent(commissions))
	for _, step := range []struct {
		from payout.Status
		move payout.Transition
	}{
		{payout.Pending, payout.Transition{Move: payout.MoveProcess}},
		{payout.Processing, payout.Transition{Move: payout.MoveMarkPaid, PaidAt: affiliatetest.Noon}},
		{payout.Processing, payout.Transition{Move: payout.MoveMarkFailed, Reason: new("The account is closed.")}},
		{payout.Draft, payout.Transition{Move: payout.MoveCancel}},
	} {
		before := sample
		before.Status = step.from
		step.move.At = affiliatetest.Noon
		change, refusal := step.move.Apply(before)
		if refusal != nil {
			t.Fatalf("%s: %v", step.move.Move, refusal)
		}
		event, ok := change.Event(commissions)
		if !ok {
			t.Fatalf("%s has no event", step.move.Move)
		}
		add(event)
	}
}

// DecodeBody returns a body as a tree that a test can modify.
func DecodeBody(t testing.TB, body []byte) map[string]any {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal(body, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}
