package promocode_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestListPromoCodes(t *testing.T) {
	f := newFixture(t)
	jane, john := f.Join("Jane"), f.Join("John")
	newCode := func(p pgtest.Participant, code string) string {
		f.clock.Advance(time.Minute)
		return f.NewPromoCode(p, code).ID.String()
	}
	newCode(jane, "sale_1")
	inactive := newCode(john, "salex1")
	newCode(jane, "sale-2")
	newCode(john, "other")
	if _, err := f.updateCode(inactive, &affiliatev1.UpdatePromoCodeRequest{UpdateMask: mask("active")}); err != nil {
		t.Fatal(err)
	}
	elsewhere := f.NewParticipant(f.Scope, f.NewProgram(f.Scope), f.NewPartner("Jane"))
	newCode(elsewhere, "sale-elsewhere")

	for name, tc := range map[string]struct {
		req   *affiliatev1.ListPromoCodesRequest
		want  []string
		total int64
	}{
		"all":                            {&affiliatev1.ListPromoCodesRequest{}, []string{"other", "sale-2", "salex1", "sale_1"}, 4},
		"second page":                    {&affiliatev1.ListPromoCodesRequest{Page: new(int32(2)), PageSize: new(int32(3))}, []string{"sale_1"}, 4},
		"after the last page":            {&affiliatev1.ListPromoCodesRequest{Page: new(int32(9))}, nil, 4},
		"one participant":                {&affiliatev1.ListPromoCodesRequest{ParticipantId: new(jane.ID.String())}, []string{"sale-2", "sale_1"}, 2},
		"participant of other programme": {&affiliatev1.ListPromoCodesRequest{ParticipantId: new(elsewhere.ID.String())}, nil, 0},
		"active":                         {&affiliatev1.ListPromoCodesRequest{Active: new(true)}, []string{"other", "sale-2", "sale_1"}, 3},
		"not active":                     {&affiliatev1.ListPromoCodesRequest{Active: new(false)}, []string{"salex1"}, 1},
		"prefix in upper case":           {&affiliatev1.ListPromoCodesRequest{Search: new("SALE")}, []string{"sale-2", "salex1", "sale_1"}, 3},
		"underscore is not a wildcard":   {&affiliatev1.ListPromoCodesRequest{Search: new("sale_")}, []string{"sale_1"}, 1},
		"percent sign is not a wildcard": {&affiliatev1.ListPromoCodesRequest{Search: new("%")}, nil, 0},
		"first page of a search":         {&affiliatev1.ListPromoCodesRequest{Search: new("s"), PageSize: new(int32(1))}, []string{"sale-2"}, 3},
		"all filters": {
			&affiliatev1.ListPromoCodesRequest{Search: new("sale"), ParticipantId: new(john.ID.String()), Active: new(false)},
			[]string{"salex1"},
			1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if codes, total := f.listCodes(tc.req); total != tc.total || !slices.Equal(codes, tc.want) {
				t.Errorf("ListPromoCodes returned %q, total %d, want %q, total %d", codes, total, tc.want, tc.total)
			}
		})
	}
}

// A partner sees the codes of all programmes that it is in, in all workspaces.
func TestListPartnerPromoCodes(t *testing.T) {
	f := newFixture(t)
	jane := f.Join("Jane")
	f.NewPromoCode(jane, "first")
	f.NewPromoCode(f.Join("John"), "another")
	stranger, testMode := f.NewShop(affiliate.ModeLive), f.InOtherMode()
	f.clock.Advance(time.Minute)
	f.NewPromoCode(f.NewParticipant(stranger.Scope, stranger.Program, jane.Partner), "second")
	f.NewPromoCode(f.NewParticipant(testMode.Scope, testMode.Program, jane.Partner), "test-code")

	for name, tc := range map[string]struct {
		partner affiliate.UserID
		mode    affiliate.Mode
		req     *affiliatev1.ListPartnerPromoCodesRequest
		want    []string
		total   int64
	}{
		"all":                        {jane.Partner, affiliate.ModeLive, &affiliatev1.ListPartnerPromoCodesRequest{}, []string{"second", "first"}, 2},
		"second page":                {jane.Partner, affiliate.ModeLive, &affiliatev1.ListPartnerPromoCodesRequest{Page: new(int32(2)), PageSize: new(int32(1))}, []string{"first"}, 2},
		"one programme":              {jane.Partner, affiliate.ModeLive, &affiliatev1.ListPartnerPromoCodesRequest{ProgramId: new(f.Program.String())}, []string{"first"}, 1},
		"the other mode":             {jane.Partner, affiliate.ModeTest, &affiliatev1.ListPartnerPromoCodesRequest{}, []string{"test-code"}, 1},
		"partner without programmes": {f.NewPartner("New"), affiliate.ModeLive, &affiliatev1.ListPartnerPromoCodesRequest{}, nil, 0},
		"account of a merchant":      {f.Owner, affiliate.ModeLive, &affiliatev1.ListPartnerPromoCodesRequest{}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := f.service.ListPartnerPromoCodes(servertest.AsPartner(t, tc.partner, tc.mode), tc.req)
			if err != nil {
				t.Fatal(err)
			}
			if codes := codesOf(got.GetData()); !slices.Equal(codes, tc.want) || got.GetTotal() != tc.total {
				t.Errorf("ListPartnerPromoCodes returned %q, total %d, want %q, total %d", codes, got.GetTotal(), tc.want, tc.total)
			}
		})
	}
	_, err := f.service.ListPartnerPromoCodes(
		servertest.AsPartner(t, jane.Partner, affiliate.ModeTest), &affiliatev1.ListPartnerPromoCodesRequest{ProgramId: new(f.Program.String())})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

func TestMerchant_AccessesOwnPromoCodesOnly(t *testing.T) {
	f := newFixture(t)
	jane := f.Join("Jane")
	id := f.NewPromoCode(jane, "may").ID.String()
	before, err := f.getCode(id)
	if err != nil {
		t.Fatal(err)
	}
	stranger, testMode := f.in(f.NewShop(affiliate.ModeLive)), f.in(f.InOtherMode())

	program := f.Program.String()
	for name, tc := range map[string]struct {
		caller        context.Context
		program, id   string
		allowedInList bool // the caller may list and create codes in this programme
	}{
		"another workspace":    {stranger.asOwner(), program, id, false},
		"the other mode":       {testMode.asOwner(), program, id, false},
		"invalid programme id": {f.asOwner(), "programme", id, false},
		"unknown programme":    {f.asOwner(), affiliate.NewID[affiliate.ProgramID](f.Now()).String(), id, false},
		"another programme":    {f.asOwner(), f.NewProgram(f.Scope).String(), id, true},
		"invalid id":           {f.asOwner(), program, "may", true},
		"unknown id":           {f.asOwner(), program, affiliate.NewID[affiliate.PromoCodeID](f.Now()).String(), true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.GetPromoCode(tc.caller, &affiliatev1.GetPromoCodeRequest{ProgramId: tc.program, PromoCodeId: tc.id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.UpdatePromoCode(tc.caller, &affiliatev1.UpdatePromoCodeRequest{ProgramId: tc.program, PromoCodeId: tc.id, UpdateMask: mask("active")})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.DeletePromoCode(tc.caller, &affiliatev1.DeletePromoCodeRequest{ProgramId: tc.program, PromoCodeId: tc.id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			if tc.allowedInList {
				return
			}
			_, err = f.service.ListPromoCodes(tc.caller, &affiliatev1.ListPromoCodesRequest{ProgramId: tc.program})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.CreatePromoCode(tc.caller, &affiliatev1.CreatePromoCodeRequest{
				ProgramId: tc.program, ParticipantId: jane.ID.String(), Code: "x", DiscountType: fixed, DiscountValue: new(1.0),
			})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	if after, err := f.getCode(id); err != nil || !proto.Equal(after, before) {
		t.Errorf("after refused calls the code is %v, error %v, want %v", after, err, before)
	}
	if codes, total := f.listCodes(&affiliatev1.ListPromoCodesRequest{}); total != 1 {
		t.Errorf("after refused calls the codes are %q, total %d, want 1", codes, total)
	}
	if n := f.Count(`select count(*) from audit_log`); n != 0 {
		t.Errorf("after refused calls the audit log has %d records, want none", n)
	}
}

func TestCreatePromoCode_CodeIsUniqueInWorkspaceAndMode(t *testing.T) {
	f := newFixture(t)
	for name, shop := range map[string]*pgtest.Shop{
		"the workspace": f.Shop, "the other mode": f.InOtherMode(), "another workspace": f.NewShop(affiliate.ModeLive),
	} {
		shop := f.in(shop)
		if _, err := shop.createCode(shop.Join("Jane"), "MAY"); err != nil {
			t.Errorf("CreatePromoCode with the same code in %s: %v", name, err)
		}
	}
}
