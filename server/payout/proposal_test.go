package payout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// propose proposes a PayPal account to a participant as a member of the shop f.
func (f *fixture) propose(p pgtest.Participant, account string) (*affiliatev1.PayoutMethodProposal, error) {
	return f.service.ProposePayoutMethod(f.asFinance(), &affiliatev1.ProposePayoutMethodRequest{
		ProgramId: f.Program.String(), ParticipantId: p.ID.String(), Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_PAYPAL, Account: &account,
	})
}

func (f *fixture) withdraw(p pgtest.Participant) error {
	_, err := f.service.WithdrawPayoutMethodProposal(f.asFinance(), &affiliatev1.WithdrawPayoutMethodProposalRequest{
		ProgramId: f.Program.String(), ParticipantId: p.ID.String(),
	})
	return err
}

func TestProposePayoutMethod_StoresTheAccountOnlyEncrypted(t *testing.T) {
	f := newFixture(t)
	anna := f.Join("Anna")
	first, err := f.propose(anna, "anna@mail.example")
	if err != nil || first.GetAccountHint() != "a***@mail.example" || first.Id == "" || first.ProgramName != nil {
		t.Fatalf("ProposePayoutMethod returned %v, %v; want the hint a***@mail.example", first, err)
	}
	again, err := f.propose(anna, "anna@mail.example")
	if err != nil || again.Id != first.Id {
		t.Errorf("the same proposal again has the id %s, %v; want %s", again.GetId(), err, first.Id)
	}
	other, err := f.propose(anna, "other@mail.example")
	if err != nil || other.Id == first.Id {
		t.Errorf("another proposal has the id %s, %v; want a new one", other.GetId(), err)
	}
	f.WantCount(2, "notifications", `select count(*) from notifications where type = 'payout.method_proposed' and feed_id = $1`, anna.Partner)
	f.WantCount(0, "events", `select count(*) from events`)
	f.WantCount(0, "payout methods", `select count(*) from payout_methods`)
	if err := f.withdraw(anna); err != nil {
		t.Fatal(err)
	}
	pgtest.RequireRefusal(t, f.withdraw(anna), affiliate.ReasonNotFound)
	const values = `select count(*) from participants where num_nonnulls(proposal_id, proposed_method, proposed_account, proposed_account_hint, proposed_at) > 0`
	f.WantCount(0, "proposals", values)

	const paypal, otherPaypal = `{"method": "paypal", "account_hint": "a***@mail.example"}`, `{"method": "paypal", "account_hint": "o***@mail.example"}`
	got := f.Texts(`select concat(action, ' ', before, ' → ', after) from audit_log where resource_id = $1 order by action, before is not null`, anna.ID)
	if want := []string{
		"payout_method.propose  → " + paypal, "payout_method.propose " + paypal + " → " + otherPaypal, "payout_method.withdraw_proposal " + otherPaypal + " → ",
	}; !slices.Equal(got, want) {
		t.Errorf("the audit log is\n%q\nwant\n%q", got, want)
	}
	if _, err := f.propose(anna, "third@mail.example"); err != nil {
		t.Fatal(err)
	}
	for _, row := range f.Texts(`select audit_log::text from audit_log union all select participants::text from participants union all select notifications::text from notifications`) {
		if strings.Contains(row, "third@mail.example") || strings.Contains(row, "other@mail.example") {
			t.Errorf("a row contains the account: %s", row)
		}
	}
}

func TestProposePayoutMethod_Refuses(t *testing.T) {
	f := newFixture(t)
	anna, erased, rejected, foreign := f.Join("Anna"), f.Join("Erased"), f.Join("Rejected"), f.otherShop().Join("Foreign")
	added := f.Join("Added")
	f.Exec(`update participants set partner_consent = 'awaited', status = 'pending' where id = $1`, added.ID)
	f.Exec(`update participants set erased_at = now() where id = $1`, erased.ID)
	f.Exec(`update participants set status = 'rejected' where id = $1`, rejected.ID)
	for name, tc := range map[string]struct {
		to      pgtest.Participant
		account string
		want    affiliate.Reason
		fields  []string
	}{
		"an invalid account":                 {anna, "not an address", affiliate.ReasonValidation, []string{"account"}},
		"an erased participant":              {erased, "a@mail.example", affiliate.ReasonParticipantErased, nil},
		"a rejected participant":             {rejected, "a@mail.example", affiliate.ReasonParticipantState, nil},
		"a partner who has not accepted":     {added, "a@mail.example", affiliate.ReasonParticipantState, nil},
		"a participant of another workspace": {foreign, "a@mail.example", affiliate.ReasonNotFound, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.propose(tc.to, tc.account)
			pgtest.RequireRefusal(t, err, tc.want, tc.fields...)
		})
	}
	_, err := f.service.ProposePayoutMethod(
		servertest.AsMember(f, affiliate.Scope{Workspace: f.Scope.Workspace, Mode: affiliate.ModeTest}, f.Owner, affiliate.RoleFinance),
		&affiliatev1.ProposePayoutMethodRequest{ProgramId: f.Program.String(), ParticipantId: anna.ID.String(), Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_MANUAL},
	)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	f.WantCount(0, "proposals", `select count(*) from participants where proposal_id is not null`)
	f.WantCount(0, "notifications", `select count(*) from notifications`)
	f.WantCount(0, "audit records", `select count(*) from audit_log`)
}
