package affiliate_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

// exampleID returns a UUIDv7 with the time noon and n as its last byte.
func exampleID[I affiliate.AnyID](n byte) I {
	id := uuid.MustParse("019ca954-0400-7000-8000-000000000000")
	id[15] = n
	return I{id}
}

var exampleScope = affiliate.Scope{Workspace: exampleID[affiliate.WorkspaceID](1), Mode: affiliate.ModeLive}

func exampleCommission() affiliate.Commission {
	return affiliate.Commission{
		ExternalTransactionID: "order-1042",
		ID:                    exampleID[affiliate.CommissionID](2), Scope: exampleScope, Program: exampleID[affiliate.ProgramID](3),
		Participant: exampleID[affiliate.ParticipantID](4), Conversion: exampleID[affiliate.ConversionID](5),
		Status: affiliate.CommissionPending, AmountCents: 980, OriginalAmountCents: 980, Currency: "USD",
		HoldUntil: ptr(noon.AddDate(0, 0, 30)), ReviewReasons: []string{}, Dispute: affiliate.DisputeNone, Version: 1, CreatedAt: noon, UpdatedAt: noon,
	}
}

func exampleConversion() (affiliate.Conversion, affiliate.Decision) {
	c := affiliate.Conversion{
		ID: exampleID[affiliate.ConversionID](5), Scope: exampleScope, ExternalTransactionID: "order-1042", EventType: affiliate.Purchase,
		Sale: affiliate.Sale{Paid: affiliate.Money{Cents: 4900, Currency: "USD"}}, OccurredAt: noon.Add(-time.Minute), CreatedAt: noon,
		Click: ptr(exampleID[affiliate.ClickID](6)), Version: 1,
	}
	d := affiliate.Decision{
		ID: exampleID[affiliate.DecisionID](7), Conversion: c.ID, Attributed: true, Method: ptr(affiliate.ByClick), Reason: affiliate.WhyClickMatched,
		Explanation: `The purchase on 1 March 2026 is credited to the partner whose link was clicked on 27 February 2026.`,
		Program:     ptr(exampleID[affiliate.ProgramID](3)), Participant: ptr(exampleID[affiliate.ParticipantID](4)),
		DecidedAt: noon, ClickedAt: ptr(noon.AddDate(0, 0, -2)), ExpiresAt: ptr(noon.AddDate(0, 0, 28)),
	}
	return c, d
}

func exampleParticipant(status affiliate.ParticipantStatus) affiliate.Participant {
	return affiliate.Participant{
		ID: exampleID[affiliate.ParticipantID](4), Scope: exampleScope, Program: exampleID[affiliate.ProgramID](3),
		Partner: exampleID[affiliate.UserID](8), ExternalID: ptr("customer-17"), PartnerName: "Anna Jansen", ReferralCode: "anna-jansen", Status: status, Version: 2,
		RejectionReason: ptr("The site is not about gardening."), SuspensionReason: ptr("Bids on the name of the brand."),
	}
}

func exampleLink() affiliate.Link {
	return affiliate.Link{
		ID: exampleID[affiliate.LinkID](9), Scope: exampleScope, Program: exampleID[affiliate.ProgramID](3),
		Participant: exampleID[affiliate.ParticipantID](4), Code: "anna-jansen-k7f", Destination: ptr("https://shop.example/spades"),
		SubID: "newsletter", UTM: affiliate.UTM{Source: "anna", Campaign: "spring"}, Version: 1,
	}
}

func examplePromoCode() affiliate.PromoCode {
	return affiliate.PromoCode{
		ID: exampleID[affiliate.PromoCodeID](10), Scope: exampleScope, Program: exampleID[affiliate.ProgramID](3),
		Participant: exampleID[affiliate.ParticipantID](4), Code: "anna10", DiscountType: affiliate.DiscountPercentage, DiscountValue: 1050,
		MaxRedemptions: ptr(int64(500)), Redemptions: 12, ExpiresAt: ptr(noon.AddDate(0, 3, 0)), Active: true, SyncStatus: affiliate.SyncNone, Version: 1,
	}
}

func exampleProgram() affiliate.Program {
	return affiliate.Program{
		ID: exampleID[affiliate.ProgramID](3), Scope: exampleScope, Name: "Garden Friends", Slug: "garden-friends", Status: affiliate.ProgramActive,
		WebsiteURL: ptr("https://shop.example/"), AllowedDomains: []string{"shop.example", "*.shop.example"}, Currency: "USD", WindowDays: 30,
		Model: affiliate.LastClick, Precedence: affiliate.ClickFirst, LinkParam: "via", IsPublic: true,
		Rules: affiliate.Rules{
			Type: affiliate.Percentage, RateBps: ptr(int64(2000)), HoldDays: 30, AutoApproval: true, NetBasis: affiliate.NetOfTax,
			Tiers: []affiliate.Tier{{MinConversions: ptr(int64(100)), RateBps: 2500}},
			Products: []affiliate.ProductRate{
				{ProductID: "spade-01", Rate: affiliate.Rate{FlatCents: ptr(int64(300))}},
			},
			Events: []affiliate.EventRate{{EventType: affiliate.Purchase}},
		},
		RulesVersion: 2, MinPayoutCents: 5000, PayoutTermDays: 14, FraudPolicy: affiliate.FraudFlag,
		TermsURL: ptr("https://shop.example/terms"), Version: 3,
	}
}

func examplePayout() affiliate.Payout {
	return affiliate.Payout{
		ID: exampleID[affiliate.PayoutID](11), Scope: exampleScope, Batch: exampleID[affiliate.PayoutBatchID](12),
		Participant: exampleID[affiliate.ParticipantID](4), AmountCents: 1960, Currency: "USD", CommissionCount: 2,
		Status: affiliate.PayoutDraft, Method: affiliate.PayoutPayPal, Version: 1, CreatedAt: noon,
	}
}

// changedEvent returns an event with the differences of before and after as previous
// attributes.
func changedEvent(t testing.TB, name affiliate.EventName, before, after any) affiliate.Event {
	t.Helper()
	oldValues, _, err := affiliate.ChangedFields(before, after)
	if err != nil || oldValues == nil {
		t.Fatalf("%s: no difference, error %v", name, err)
	}
	return affiliate.NewEvent(exampleScope, name, noon, after, oldValues)
}

// examples returns an example event for each event name. The examples are always the
// same, because docs/events.md shows them.
func examples(t testing.TB) map[affiliate.EventName]affiliate.Event {
	t.Helper()
	all := map[affiliate.EventName]affiliate.Event{}
	add := func(events ...affiliate.Event) {
		for _, event := range events {
			event.ID = exampleID[affiliate.EventID](99)
			all[event.Name] = event
		}
	}
	conversionExamples(add)
	commissionExamples(t, add)
	payoutExamples(t, add)

	pending := exampleParticipant(affiliate.ParticipantPending)
	pending.Version = 1
	add(affiliate.NewEvent(exampleScope, affiliate.EventParticipantApplied, noon, pending.Object(), nil))
	add(affiliate.ParticipantErased(exampleParticipant(affiliate.ParticipantApproved), noon))
	for _, move := range []affiliate.ParticipantMove{
		affiliate.ApproveParticipant, affiliate.RejectParticipant, affiliate.SuspendParticipant, affiliate.ReinstateParticipant,
	} {
		before, after := exampleParticipant(move.From()[0]), exampleParticipant(move.To())
		before.Version--
		add(changedEvent(t, move.Event(), before.Object(), after.Object()))
	}

	link, moved := exampleLink(), exampleLink()
	moved.Destination, moved.UTM.Campaign, moved.Version = ptr("https://shop.example/rakes"), "summer", 2
	add(affiliate.NewEvent(exampleScope, affiliate.EventLinkCreated, noon, link.Object(), nil))
	add(changedEvent(t, affiliate.EventLinkUpdated, link.Object(), moved.Object()))

	code, inactive := examplePromoCode(), examplePromoCode()
	inactive.Active, inactive.Version = false, 2
	add(affiliate.NewEvent(exampleScope, affiliate.EventPromoCodeCreated, noon, code.Object(), nil))
	add(changedEvent(t, affiliate.EventPromoCodeDeactivated, code.Object(), inactive.Object()))

	program, lower := exampleProgram(), exampleProgram()
	lower.MinPayoutCents, lower.FraudPolicy = 10000, affiliate.FraudObserve
	add(changedEvent(t, affiliate.EventProgramUpdated, lower.Object(), program.Object()))

	erasure := affiliate.BuyerErasure{ID: exampleID[affiliate.BuyerErasureID](15), Workspace: exampleScope.Workspace}
	add(erasure.Event(affiliate.BuyerErasureDone, noon))
	export := affiliate.NewExport(affiliate.WorkspaceSubject(exampleScope.Workspace), affiliate.ModeLive, true, noon.Add(-time.Hour))
	add(export.Complete(noon).ReadyEvent(noon)...)

	ping := affiliate.PingObject{Endpoint: exampleID[affiliate.EndpointID](13), Description: ptr("Orders, production")}
	add(affiliate.NewEvent(exampleScope, affiliate.EventWebhookPing, noon, ping, nil))
	return all
}

func conversionExamples(add func(...affiliate.Event)) {
	c, d := exampleConversion()
	add(c.Event(affiliate.EventConversionCreated, d, noon))

	refunded := c
	refunded.RefundedAmountCents, refunded.Version = 1900, 2
	add(refunded.RefundedEvent(c, d, noon))

	d.FraudAction, d.Fraud = affiliate.FraudFlagged, []affiliate.FraudSignal{
		{Rule: "click_to_convert", Score: 40, Evidence: "The conversion happened less than 5 seconds after the click."},
		{Rule: "duplicate_customer", Score: 40, Evidence: "The customer has converted for another partner of the programme before."},
	}
	add(c.FraudDetectedEvent(d))

	c.Version, d.Fraud = 2, nil
	d.Method, d.Reason, d.ClickedAt, d.ExpiresAt = ptr(affiliate.ByAssignment), affiliate.WhyReassigned, nil, nil
	d.Explanation = `The purchase on 1 March 2026 has been assigned by hand to a partner of programme "Garden Friends".`
	add(c.Event(affiliate.EventConversionReattributed, d, noon))
}

func commissionExamples(t testing.TB, add func(...affiliate.Event)) {
	t.Helper()
	pending := exampleCommission()
	add(affiliate.NewCommissionChange(pending, affiliate.System, nil).Events()...)

	approved, flagged := pending, pending
	approved.Status, approved.HoldUntil = affiliate.CommissionApproved, ptr(noon.AddDate(0, 0, -1))
	flagged.NeedsReview, flagged.ReviewReasons = true, []string{affiliate.ReviewFraud}
	disputed := approved
	disputed.Dispute, disputed.NeedsReview, disputed.ReviewReasons = affiliate.DisputeOpen, true, []string{affiliate.ReviewDispute}
	person := affiliate.Actor{User: ptr(exampleID[affiliate.UserID](14))}
	for _, example := range []struct {
		commission affiliate.Commission
		move       affiliate.CommissionTransition
	}{
		{approved, affiliate.CommissionTransition{Move: affiliate.MoveReject, Reason: ptr("The order was a test."), Code: ptr("test_order")}},
		{approved, affiliate.CommissionTransition{Move: affiliate.MovePay, PaidAt: noon, Payout: ptr(exampleID[affiliate.PayoutID](11))}},
		{approved, affiliate.CommissionTransition{Move: affiliate.MoveRefund, AmountCents: 600, RefundReason: affiliate.RefundedSale}},
		{pending, affiliate.CommissionTransition{Move: affiliate.MoveFlag, ReviewReasons: []string{affiliate.ReviewFraud}}},
		{flagged, affiliate.CommissionTransition{Move: affiliate.MoveClearReview}},
		{flagged, affiliate.CommissionTransition{Move: affiliate.MoveApprove}},
		{approved, affiliate.CommissionTransition{Move: affiliate.MoveDispute}},
		{disputed, affiliate.CommissionTransition{Move: affiliate.MoveResolveDispute, Dispute: affiliate.DisputeWon}},
	} {
		if example.move.Move == affiliate.MoveApprove {
			example.commission.HoldUntil = ptr(noon.AddDate(0, 0, -1))
		}
		example.move.Actor, example.move.At = person, noon
		after, refusal := example.move.Apply(example.commission)
		if refusal != nil {
			t.Fatalf("%s: %v", example.move.Move, refusal)
		}
		add(affiliate.CommissionChange{Before: &example.commission, After: after, Transition: example.move}.Events()...)
	}
}

func payoutExamples(t testing.TB, add func(...affiliate.Event)) {
	t.Helper()
	commissions := []affiliate.CommissionID{exampleID[affiliate.CommissionID](2), exampleID[affiliate.CommissionID](15)}
	payout := examplePayout()
	add(payout.CreatedEvent(commissions))
	for _, step := range []struct {
		from affiliate.PayoutStatus
		move affiliate.PayoutTransition
	}{
		{affiliate.PayoutPending, affiliate.PayoutTransition{Move: affiliate.MoveProcess}},
		{affiliate.PayoutProcessing, affiliate.PayoutTransition{Move: affiliate.MoveMarkPaid, PaidAt: noon}},
		{affiliate.PayoutProcessing, affiliate.PayoutTransition{Move: affiliate.MoveMarkFailed, Reason: ptr("The account is closed.")}},
		{affiliate.PayoutDraft, affiliate.PayoutTransition{Move: affiliate.MoveCancel}},
	} {
		before := payout
		before.Status = step.from
		step.move.At = noon
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

// decodeBody returns a body as a tree that a test can modify.
func decodeBody(t testing.TB, body []byte) map[string]any {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal(body, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}
