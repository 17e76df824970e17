package affiliate

import (
	"testing"
	"time"
)

func TestEnrolment_Join(t *testing.T) {
	at, id, terms := time.UnixMilli(1).UTC(), "customer-17", "https://shop.example/terms"
	e := Enrolment{Email: "jane@example.com", Name: "Jane", ExternalID: &id, Group: new(NewID[GroupID](at))}
	user := e.Account(at)
	if user.Kind != Partner || !user.Unclaimed || user.EmailVerified || user.Email != e.Email || user.Name != e.Name {
		t.Errorf("Account returned %+v, want an unclaimed partner", user)
	}
	for _, hadAccount := range []bool{false, true} {
		p := e.Join(Program{TermsURL: &terms}, user.ID, hadAccount, at)
		if p.PartnerName != "Jane" || p.PartnerEmail != e.Email || p.ExternalID != &id || p.Group != e.Group || p.TermsAcceptedAt != nil {
			t.Errorf("Join returned %+v, want the values of the request and no accepted terms", p)
		}
		if waits := p.Status == ParticipantPending && p.Consent == ConsentAwaited && p.ApprovedAt == nil; waits != hadAccount {
			t.Errorf("the participant of an existing account (%v) is %s with the consent %q", hadAccount, p.Status, p.Consent)
		}
		if visible := p.VisiblePartner() != nil && p.Object().Partner != nil && p.Joined().Partner != nil && p.Event(EventParticipantApproved, at, nil).Partner != nil; visible == hadAccount {
			t.Errorf("the participant of an existing account (%v) shows the account: %v", hadAccount, visible)
		}
	}
}

// Accept and Decline are possible only while the consent of the partner is missing.
func TestParticipant_AcceptAndDecline(t *testing.T) {
	at, terms := time.UnixMilli(9).UTC(), "https://shop.example/terms"
	for name, tc := range map[string]struct {
		p                  Participant
		accepted, declined *Error // nil if the call succeeds
	}{
		"waits":     {Participant{Status: ParticipantPending, Consent: ConsentAwaited}, nil, nil},
		"declined":  {Participant{Status: ParticipantRejected, Consent: ConsentDeclined}, nil, Refuse(ReasonParticipantState)},
		"withdrawn": {Participant{Status: ParticipantRejected, Consent: ConsentAwaited}, Refuse(ReasonParticipantState), Refuse(ReasonParticipantState)},
		"applied":   {Participant{Status: ParticipantPending}, Refuse(ReasonParticipantState), Refuse(ReasonParticipantState)},
		"approved":  {Participant{Status: ParticipantApproved}, Refuse(ReasonParticipantState), Refuse(ReasonParticipantState)},
		"erased":    {Participant{Status: ParticipantPending, Consent: ConsentAwaited, ErasedAt: &at}, Refuse(ReasonParticipantErased), Refuse(ReasonParticipantErased)},
	} {
		t.Run(name, func(t *testing.T) {
			wantReason := func(call string, err error, want *Error) {
				t.Helper()
				if want == nil && err != nil || want != nil && !want.Is(err) {
					t.Errorf("%s returned the error %v, want %v", call, err, want)
				}
			}
			tc.p.RejectedAt = &at
			got, err := tc.p.Accept(Program{}, User{Name: "Jane", Email: "jane@example.com"}, false, at)
			wantReason("Accept", err, tc.accepted)
			if err == nil && (got.Status != ParticipantApproved || got.Consent != "" || got.ApprovedAt == nil || got.RejectedAt != nil ||
				got.PartnerName != "Jane" || got.PartnerEmail != "jane@example.com" || got.Version != tc.p.Version+1) {
				t.Errorf("Accept returned %+v, want an approved participant with the data of the account", got)
			}
			if tc.accepted == nil {
				_, err = tc.p.Accept(Program{TermsURL: &terms}, User{}, false, at)
				wantReason("Accept without the terms", err, Refuse(ReasonValidation))
				if got, err = tc.p.Accept(Program{TermsURL: &terms}, User{}, true, at); err != nil || got.TermsAcceptedAt == nil {
					t.Errorf("Accept with the terms returned %+v, %v", got, err)
				}
			}
			got, err = tc.p.Decline(at)
			wantReason("Decline", err, tc.declined)
			if err == nil && (got.Status != ParticipantRejected || got.Consent != ConsentDeclined || got.RejectedAt == nil || got.Version != tc.p.Version+1) {
				t.Errorf("Decline returned %+v, want a declined participant", got)
			}
		})
	}
}
