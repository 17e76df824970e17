package partner_test

import (
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// propose stores a proposal of the merchant in place of the previous one.
func (f *fixture) propose(p programme, to pgtest.Participant, address string) payout.Proposal {
	f.Helper()
	account := payout.Account{Method: payout.PayPal, Account: address}
	proposal := payout.Proposal{
		ID: affiliate.NewID[payout.ProposalID](f.Now()), Scope: p.Scope, Program: p.Program, Participant: to.ID,
		Method: account.Method, Hint: account.Hint(), ProposedAt: f.Now(),
	}
	var err error
	if proposal.Account, err = account.Sealed(f.keys.Seal, proposal.ID); err != nil {
		f.Fatal(err)
	}
	if err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error { return payouts.Propose(f.Context(), tx, proposal) }); err != nil {
		f.Fatal(err)
	}
	return proposal
}

func (f *fixture) confirm(user affiliate.UserID, mode affiliate.Mode, id payout.ProposalID) (*affiliatev1.PayoutMethodDetails, error) {
	return f.service.ConfirmPayoutMethodProposal(f.asPartner(user, mode), &affiliatev1.ConfirmPayoutMethodProposalRequest{ProposalId: id.String()})
}

func (f *fixture) decline(user affiliate.UserID, mode affiliate.Mode, id payout.ProposalID) error {
	_, err := f.service.DeclinePayoutMethodProposal(f.asPartner(user, mode), &affiliatev1.DeclinePayoutMethodProposalRequest{ProposalId: id.String()})
	return err
}

func (f *fixture) proposals(user affiliate.UserID, mode affiliate.Mode) []*affiliatev1.PayoutMethodProposal {
	f.Helper()
	list, err := f.service.ListPayoutMethodProposals(f.asPartner(user, mode), &affiliatev1.ListPayoutMethodProposalsRequest{})
	if err != nil {
		f.Fatal(err)
	}
	return list.Data
}

func TestPayoutMethodProposal_IsConfirmedOrDeclinedByThePartner(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	alpha := f.program(f.workspace("Shop"), "Alpha", nil)
	inAlpha := alpha.join(jane, nil)
	alpha.join(john, nil)
	old := f.propose(alpha, inAlpha, "old@mail.example")
	current := f.propose(alpha, inAlpha, "jane@mail.example")
	got := f.proposals(jane, "live")
	if len(got) != 1 || got[0].Id != current.ID.String() || got[0].GetProgramName() != "Alpha" || got[0].GetMerchantName() != "Shop" || got[0].GetAccount() != "jane@mail.example" {
		t.Fatalf("ListPayoutMethodProposals returned %v, want the last proposal", got)
	}
	if n := len(f.proposals(john, "live")) + len(f.proposals(jane, "test")); n != 0 {
		t.Errorf("another partner and the other mode see %d proposals, want none", n)
	}
	for _, tc := range []struct {
		name string
		user affiliate.UserID
		mode affiliate.Mode
		id   payout.ProposalID
	}{
		{"a replaced proposal", jane, "live", old.ID},
		{"another partner", john, "live", current.ID},
		{"the other mode", jane, "test", current.ID},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := f.confirm(tc.user, tc.mode, tc.id)
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			pgtest.RequireRefusal(t, f.decline(tc.user, tc.mode, tc.id), affiliate.ReasonNotFound)
		})
	}
	f.WantCount(0, "payout methods", `select count(*) from payout_methods`)

	details, err := f.confirm(jane, "live", current.ID)
	if err != nil || details.Method != paypal || details.GetAccountHint() != "j***@mail.example" {
		t.Fatalf("ConfirmPayoutMethodProposal returned %v, %v", details, err)
	}
	// Payouts use the confirmed account. Another account is held, as after each change.
	repeated, err := f.setMethod(jane, &affiliatev1.SetPayoutMethodRequest{Method: paypal, Account: new("jane@mail.example")})
	if err != nil || repeated.HeldUntil != nil {
		t.Errorf("SetPayoutMethod with the confirmed account returned %v, %v; want no change", repeated, err)
	}
	details, err = f.confirm(jane, "live", f.propose(alpha, inAlpha, "new@mail.example").ID)
	if err != nil || details.HeldUntil == nil {
		t.Errorf("the confirmation of another account returned %v, %v; want it to be held", details, err)
	}
	if err := f.decline(jane, "live", f.propose(alpha, inAlpha, "declined@mail.example").ID); err != nil {
		t.Fatal(err)
	}
	profile := f.profile(jane)
	if hint := profile.PayoutMethod.GetAccountHint(); hint != "n***@mail.example" || len(f.proposals(jane, "live")) != 0 {
		t.Errorf("after the proposal was declined, the account is %q and there are %d proposals", hint, len(f.proposals(jane, "live")))
	}
	f.propose(alpha, inAlpha, "open@mail.example")
	shown := f.dump() + protojson.Format(profile)
	for _, account := range []string{"jane@mail.example", "new@mail.example", "declined@mail.example", "open@mail.example"} {
		if strings.Contains(shown, account) || strings.Contains(shown, hex.EncodeToString([]byte(account))) {
			t.Errorf("the database or a response contains %s", account)
		}
	}
	f.WantCount(2, "confirmations", `select count(*) from account_audit_log where action = 'payout_method.confirm_proposal' and before ->> 'workspace_id' is not null`)
	f.Exec(`update participants set partner_consent = 'awaited', status = 'pending', approved_at = null`)
	if n := len(f.proposals(jane, "live")); n != 0 {
		t.Errorf("a partner who has not accepted the participation sees %d proposals, want none", n)
	}
}

func TestConfirmPayoutMethodProposal_ChangesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(f *fixture, p programme, proposal payout.Proposal, partner pgtest.Participant) error
		want      affiliate.Reason
		left      int // proposals
	}{
		"with a wrong password": {
			func(*fixture, programme, payout.Proposal, pgtest.Participant) error {
				return affiliate.Refuse(affiliate.ReasonInvalidCredentials)
			}, affiliate.ReasonInvalidCredentials, 1,
		},
		"when the proposal is withdrawn at the same time": {
			func(f *fixture, _ programme, proposal payout.Proposal, _ pgtest.Participant) error {
				return f.DB.InTx(f.Context(), func(tx *postgres.Tx) error { return payouts.EndProposal(f.Context(), tx, proposal) })
			}, affiliate.ReasonNotFound, 0,
		},
		"when the proposal is replaced at the same time": {
			func(f *fixture, p programme, _ payout.Proposal, partner pgtest.Participant) error {
				f.propose(p, partner, "mallory@mail.example")
				return nil
			}, affiliate.ReasonNotFound, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			jane := f.user("Jane")
			alpha := f.program(f.workspace("Shop"), "Alpha", nil)
			inAlpha := alpha.join(jane, nil)
			proposal := f.propose(alpha, inAlpha, "jane@mail.example")
			f.owner.check = func() error { return tc.meanwhile(f, alpha, proposal, inAlpha) }
			_, err := f.confirm(jane, "live", proposal.ID)
			pgtest.RequireRefusal(t, err, tc.want)
			f.WantCount(0, "payout methods", `select count(*) from payout_methods`)
			f.WantCount(0, "notifications", `select count(*) from notifications`)
			f.WantCount(0, "audit records", `select count(*) from account_audit_log`)
			if n := len(f.proposals(jane, "live")); n != tc.left {
				t.Errorf("there are %d proposals, want %d", n, tc.left)
			}
		})
	}
}

func TestConfirmPayoutMethodProposal_AppliesOneOfParallelCalls(t *testing.T) {
	f := newFixture(t)
	jane := f.user("Jane")
	alpha := f.program(f.workspace("Shop"), "Alpha", nil)
	id := f.propose(alpha, alpha.join(jane, nil), "jane@mail.example").ID
	var confirmed atomic.Int32
	var calls sync.WaitGroup
	for i := range 12 {
		calls.Go(func() {
			if _, err := f.confirm(jane, "live", id); err == nil {
				confirmed.Add(1)
			} else if reason := pgtest.ReasonOf(t, err); reason != affiliate.ReasonNotFound {
				t.Errorf("call %d returned %v, want NOT_FOUND", i, err)
			}
		})
	}
	calls.Wait()
	if n := confirmed.Load(); n != 1 {
		t.Errorf("%d calls succeeded, want 1", n)
	}
	f.WantCount(1, "audit records", `select count(*) from account_audit_log where action = 'payout_method.set'`)
	f.WantCount(1, "notifications", `select count(*) from notifications where type = 'security.payout_method_changed'`)
}
