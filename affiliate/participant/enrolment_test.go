package participant

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/program"
)

func TestEnrolment_Join(t *testing.T) {
	at, id, terms := time.UnixMilli(1).UTC(), "customer-17", "https://shop.example/terms"
	e := Enrolment{Email: "jane@example.com", Name: "Jane", ExternalID: &id, Group: new(affiliate.NewID[affiliate.GroupID](at))}
	user := e.Account(at)
	if user.Kind != affiliate.Partner || !user.Unclaimed || user.EmailVerified || user.Email != e.Email || user.Name != e.Name {
		t.Errorf("Account returned %+v, want an unclaimed partner", user)
	}
	for _, hadAccount := range []bool{false, true} {
		p := e.Join(program.Program{TermsURL: &terms}, user.ID, hadAccount, at)
		if p.PartnerName != "Jane" || p.PartnerEmail != e.Email || p.ExternalID != &id || p.Group != e.Group || p.TermsAcceptedAt != nil {
			t.Errorf("Join returned %+v, want the values of the request and no accepted terms", p)
		}
		if waits := p.Status == Pending && p.Consent == ConsentAwaited && p.ApprovedAt == nil; waits != hadAccount {
			t.Errorf("the participant of an existing account (%v) is %s with the consent %q", hadAccount, p.Status, p.Consent)
		}
		if visible := p.VisiblePartner() != nil && p.Object().Partner != nil && p.Joined().Partner != nil && p.Event(affiliate.EventParticipantApproved, at, nil).Partner != nil; visible == hadAccount {
			t.Errorf("the participant of an existing account (%v) shows the account: %v", hadAccount, visible)
		}
	}
}

// Accept and Decline are possible only while the consent of the partner is missing.
func TestParticipant_AcceptAndDecline(t *testing.T) {
	at, terms := time.UnixMilli(9).UTC(), "https://shop.example/terms"
	for name, tc := range map[string]struct {
		p                  Participant
		accepted, declined *affiliate.Error // nil if the call succeeds
	}{
		"waits":     {Participant{Status: Pending, Consent: ConsentAwaited}, nil, nil},
		"declined":  {Participant{Status: Rejected, Consent: ConsentDeclined}, nil, affiliate.Refuse(affiliate.ReasonParticipantState)},
		"withdrawn": {Participant{Status: Rejected, Consent: ConsentAwaited}, affiliate.Refuse(affiliate.ReasonParticipantState), affiliate.Refuse(affiliate.ReasonParticipantState)},
		"applied":   {Participant{Status: Pending}, affiliate.Refuse(affiliate.ReasonParticipantState), affiliate.Refuse(affiliate.ReasonParticipantState)},
		"approved":  {Participant{Status: Approved}, affiliate.Refuse(affiliate.ReasonParticipantState), affiliate.Refuse(affiliate.ReasonParticipantState)},
		"erased":    {Participant{Status: Pending, Consent: ConsentAwaited, ErasedAt: &at}, affiliate.Refuse(affiliate.ReasonParticipantErased), affiliate.Refuse(affiliate.ReasonParticipantErased)},
	} {
		t.Run(name, func(t *testing.T) {
			wantReason := func(call string, err error, want *affiliate.Error) {
				t.Helper()
				if want == nil && err != nil || want != nil && !want.Is(err) {
					t.Errorf("%s returned the error %v, want %v", call, err, want)
				}
			}
			tc.p.RejectedAt = &at
			got, err := tc.p.Accept(program.Program{}, account.User{Name: "Jane", Email: "jane@example.com"}, TermsAcceptance{}, at)
			wantReason("Accept", err, tc.accepted)
			if err == nil && (got.Status != Approved || got.Consent != "" || got.ApprovedAt == nil || got.RejectedAt != nil ||
				got.PartnerName != "Jane" || got.PartnerEmail != "jane@example.com" || got.Version != tc.p.Version+1) {
				t.Errorf("Accept returned %+v, want an approved participant with the data of the account", got)
			}
			if tc.accepted == nil {
				_, err = tc.p.Accept(program.Program{TermsURL: &terms}, account.User{}, TermsAcceptance{}, at)
				wantReason("Accept without the terms", err, affiliate.Refuse(affiliate.ReasonValidation))
				if got, err = tc.p.Accept(program.Program{TermsURL: &terms}, account.User{}, TermsAcceptance{Accepted: true}, at); err != nil || got.TermsAcceptedAt == nil {
					t.Errorf("Accept with the terms returned %+v, %v", got, err)
				}
			}
			got, err = tc.p.Decline(at)
			wantReason("Decline", err, tc.declined)
			if err == nil && (got.Status != Rejected || got.Consent != ConsentDeclined || got.RejectedAt == nil || got.Version != tc.p.Version+1) {
				t.Errorf("Decline returned %+v, want a declined participant", got)
			}
		})
	}
}
