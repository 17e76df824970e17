package partner_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// John calls every method with ids of Jane's data and with ids of the other mode. Both
// partners have joined the programme Shared. No response contains Jane's data or data of
// the other mode, and Jane's account does not change.
func TestPartnerService_ReturnsNoDataOfOtherPartnersOrModes(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	shop := f.workspace("Shop")
	private := f.program(shop, "Private", pgtest.Row{"is_public": false})
	shared := f.program(shop, "Shared", nil)
	test := f.program(shop, "Test", pgtest.Row{"mode": "test", "is_public": false})
	var foreign []string // texts that no response to John may contain
	var proposals []string
	for _, p := range []programme{private, shared} {
		id := p.join(jane, pgtest.Row{"referral_code": "foreign-" + p.Program.String()[30:]})
		p.addDelta(id, pgtest.Row{"clicks": 777, "revenue_cents": 777, "currency": "EUR"})
		c := p.addCommission(id, func(c *commission.Commission) { c.Status, c.AmountCents = "approved", 77 })
		foreign = append(foreign, id.ID.String(), c.String(), "foreign-", `"777"`, `"77"`)
		proposals = append(proposals, f.propose(p, id, "zoe@mail.example").ID.String())
	}
	// John's own data in the other mode.
	inTest := test.join(john, pgtest.Row{"referral_code": "foreign-test"})
	test.addDelta(inTest, pgtest.Row{"clicks": 777})
	proposals = append(proposals, f.propose(test, inTest, "john@mail.example").ID.String())
	c := test.addCommission(inTest, func(c *commission.Commission) { c.Status, c.AmountCents = "approved", 77 })
	shared.join(john, nil)
	foreign = append(foreign, inTest.ID.String(), c.String(), private.Program.String(), test.Program.String(), "jane", "Jane")
	if _, err := f.setMethod(jane, &affiliatev1.SetPayoutMethodRequest{Method: paypal, Account: new("zoe@mail.example")}); err != nil {
		t.Fatal(err)
	}
	foreign = append(foreign, "z***@")
	before := f.profile(jane)
	number := f.Texts(`select external_transaction_id from commissions where id = $1`, foreign[1])[0]

	// foreign begins with the ids of Jane's participant and commission.
	ids := []string{private.Program.String(), shared.Program.String(), test.Program.String(), foreign[0], foreign[1], jane.String(), shop.String()}
	ids, foreign = append(ids, proposals...), append(foreign, proposals...)
	calls := map[string]func(ctx context.Context, id string) (proto.Message, error){
		"ListPartnerPrograms mine": func(ctx context.Context, _ string) (proto.Message, error) {
			return f.service.ListPartnerPrograms(ctx, &affiliatev1.ListPartnerProgramsRequest{})
		},
		"ListPartnerPrograms public": func(ctx context.Context, _ string) (proto.Message, error) {
			return f.service.ListPartnerPrograms(ctx, &affiliatev1.ListPartnerProgramsRequest{Scope: scopePublic})
		},
		"GetPartnerProgram": func(ctx context.Context, id string) (proto.Message, error) {
			return f.service.GetPartnerProgram(ctx, &affiliatev1.GetPartnerProgramRequest{ProgramId: id})
		},
		"ListPartnerCommissions": func(ctx context.Context, id string) (proto.Message, error) {
			return f.service.ListPartnerCommissions(ctx, &affiliatev1.ListPartnerCommissionsRequest{ProgramId: &id})
		},
		"ListPartnerCommissions all": func(ctx context.Context, _ string) (proto.Message, error) {
			return f.service.ListPartnerCommissions(ctx, &affiliatev1.ListPartnerCommissionsRequest{})
		},
		"GetPartnerCommission": func(ctx context.Context, id string) (proto.Message, error) {
			return f.service.GetPartnerCommission(ctx, &affiliatev1.GetPartnerCommissionRequest{CommissionId: id})
		},
		"LookupPartnerConversion": func(ctx context.Context, id string) (proto.Message, error) {
			return f.service.LookupPartnerConversion(ctx, &affiliatev1.LookupPartnerConversionRequest{Date: new(f.Now().Format(time.DateOnly)), ProgramId: &id})
		},
		"LookupPartnerConversion by number": func(ctx context.Context, _ string) (proto.Message, error) {
			return f.service.LookupPartnerConversion(ctx, &affiliatev1.LookupPartnerConversionRequest{ExternalTransactionId: &number})
		},
		"GetPartnerBalances": func(ctx context.Context, _ string) (proto.Message, error) {
			return f.service.GetPartnerBalances(ctx, &affiliatev1.GetPartnerBalancesRequest{})
		},
		"GetPartnerProfile": func(ctx context.Context, _ string) (proto.Message, error) {
			return f.service.GetPartnerProfile(ctx, &affiliatev1.GetPartnerProfileRequest{})
		},
		"UpdatePartnerProfile": func(context.Context, string) (proto.Message, error) {
			return f.update(john, &affiliatev1.UpdatePartnerProfileRequest{Name: "Other"}, "name")
		},
		"ListPayoutMethodProposals": func(ctx context.Context, _ string) (proto.Message, error) {
			return f.service.ListPayoutMethodProposals(ctx, &affiliatev1.ListPayoutMethodProposalsRequest{})
		},
		"ConfirmPayoutMethodProposal": func(ctx context.Context, id string) (proto.Message, error) {
			return f.service.ConfirmPayoutMethodProposal(ctx, &affiliatev1.ConfirmPayoutMethodProposalRequest{ProposalId: id})
		},
		"DeclinePayoutMethodProposal": func(ctx context.Context, id string) (proto.Message, error) {
			return f.service.DeclinePayoutMethodProposal(ctx, &affiliatev1.DeclinePayoutMethodProposalRequest{ProposalId: id})
		},
		"SetPayoutMethod": func(ctx context.Context, _ string) (proto.Message, error) {
			return f.service.SetPayoutMethod(ctx, &affiliatev1.SetPayoutMethodRequest{Method: manual})
		},
	}
	testedMethods := map[string]bool{}
	for name, call := range calls {
		testedMethods[strings.Fields(name)[0]] = true
		for _, id := range ids {
			response, err := call(f.asLivePartner(john), id)
			if err != nil {
				mayBeRefused := slices.Contains([]string{
					"GetPartnerProgram", "GetPartnerCommission", "ListPartnerCommissions", "LookupPartnerConversion",
					"ConfirmPayoutMethodProposal", "DeclinePayoutMethodProposal",
				}, name)
				if reason := pgtest.ReasonOf(t, err); reason != affiliate.ReasonNotFound || !mayBeRefused {
					t.Errorf("%s with the id %s returned the error %v", name, id, err)
				}
				continue
			}
			text := protojson.Format(response)
			for _, secret := range foreign {
				if strings.Contains(text, secret) {
					t.Errorf("%s with the id %s shows %s: %s", name, id, secret, text)
				}
			}
		}
	}
	for _, method := range affiliatev1.PartnerService_ServiceDesc.Methods {
		if !testedMethods[method.MethodName] {
			t.Errorf("no call of the method %s is tested", method.MethodName)
		}
	}
	servertest.WantMessage(t, "GetPartnerProfile of the other partner", f.profile(jane), before)
}
