package payout

import (
	"errors"
	"slices"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
)

func TestBatchParticipants_OmitsExcludedParticipants(t *testing.T) {
	method := Manual
	payable := Due{
		Payee: Payee{Participant: affiliate.NewID[affiliate.ParticipantID](payoutTime)}, CommissionCents: 5, Method: &method, ParticipantStatus: participant.Approved,
	}
	excluded := payable
	excluded.Participant, excluded.Method = affiliate.NewID[affiliate.ParticipantID](payoutTime), nil
	due := []Due{excluded, payable}
	if got := BatchParticipants(due); !slices.Equal(got, []affiliate.ParticipantID{payable.Participant}) {
		t.Errorf("BatchParticipants returns %v, want only %s", got, payable.Participant)
	}
	if due[0].Participant != excluded.Participant || due[1].Participant != payable.Participant {
		t.Error("BatchParticipants changed its argument")
	}
	if got := BatchParticipants(due[:1]); len(got) != 0 {
		t.Errorf("BatchParticipants of an excluded participant returns %v, want none", got)
	}
}

func TestDraft_AddsCommissionsToPayoutOfTheirParticipantAndCurrency(t *testing.T) {
	method, user := Manual, affiliate.NewID[affiliate.UserID](payoutTime)
	selection := Selection{
		Scope: affiliate.Scope{Workspace: affiliate.NewID[affiliate.WorkspaceID](payoutTime), Mode: affiliate.ModeTest}, Cutoff: payoutTime, At: payoutTime,
	}
	actor := affiliate.Actor{User: &user}
	anna, bert := affiliate.NewID[affiliate.ParticipantID](payoutTime), affiliate.NewID[affiliate.ParticipantID](payoutTime)
	due := func(participantID affiliate.ParticipantID, currency string, adjustment int64) Due {
		return Due{
			// Draft must replace the count and the amount, which were computed without
			// locks.
			Payee: Payee{Participant: participantID, Currency: currency}, CommissionCount: 9, CommissionCents: 900, AdjustmentCents: adjustment,
			MinPayoutCents: 100, Method: &method, ParticipantStatus: participant.Approved,
		}
	}
	commission := func(participant affiliate.ParticipantID, currency string, cents int64) Candidate {
		return Candidate{
			ID: affiliate.NewID[affiliate.CommissionID](payoutTime), Participant: participant, Currency: currency, AmountCents: cents, ApprovedAt: payoutTime, Payable: true,
		}
	}
	free := []Candidate{
		commission(anna, "EUR", 60), commission(bert, "EUR", 99), commission(anna, "USD", 200), commission(anna, "EUR", 50),
	}
	draft, err := selection.Draft([]Due{due(anna, "EUR", -10), due(bert, "EUR", 0), due(anna, "USD", 0), due(bert, "USD", 100)}, free, actor)
	if err != nil {
		t.Fatal(err)
	}
	if b := draft.Batch; b.Status != BatchDraft || b.Scope != selection.Scope || b.CreatedBy.UUID != user.UUID || b.Version != 1 || len(draft.Payouts) != 3 {
		t.Fatalf("batch %+v with %d payouts; want a draft of %s with version 1 and 3 payouts", b, len(draft.Payouts), user)
	}
	for i, want := range []struct {
		participant        affiliate.ParticipantID
		cents, commissions int64
	}{{anna, 100, 2}, {anna, 200, 1}, {bert, 100, 0}} {
		p := draft.Payouts[i]
		if p.Participant != want.participant || p.AmountCents != want.cents || p.CommissionCount != want.commissions || p.Batch != draft.Batch.ID {
			t.Errorf("payout %d is %+v, want %d cents and %d commissions of %s", i, p, want.cents, want.commissions, want.participant)
		}
	}
	var ids []affiliate.CommissionID
	for _, c := range draft.Commissions {
		ids = append(ids, c.ID)
		if i := slices.IndexFunc(draft.Payouts, func(p Payout) bool { return p.ID == *c.Payout }); draft.Payouts[i].Currency != c.Currency ||
			draft.Payouts[i].Participant != c.Participant {
			t.Errorf("commission %+v is in the payout of another participant or currency: %+v", c, draft.Payouts[i])
		}
	}
	if want := []affiliate.CommissionID{free[0].ID, free[2].ID, free[3].ID}; !slices.Equal(ids, want) {
		t.Errorf("the payouts contain the commissions %v, want %v", ids, want)
	}
	if free[0].Payout != nil {
		t.Error("Draft changed its argument")
	}
	var listed []int
	for _, event := range draft.Events() {
		object, _ := event.Object.(Object)
		listed = append(listed, len(object.Commissions))
	}
	if !slices.Equal(listed, []int{2, 1, 0}) {
		t.Errorf("the events list %v commissions, want [2 1 0]", listed)
	}
	if _, err := selection.Draft([]Due{due(bert, "EUR", 0)}, free, actor); !errors.Is(err, NothingPayable(nil)) {
		t.Errorf("a batch without payouts: error %v, want %v", err, NothingPayable(nil))
	}
}
