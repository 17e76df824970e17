package promocode_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestListPromoCodes(t *testing.T) {
	w := newWorld(t)
	jane, john := w.newParticipant(), w.newParticipant()
	for i, code := range []string{"sale_1", "salex1", "Sale-2", "other"} {
		w.advance()
		w.mustCreate([]string{jane, john}[i%2], code)
	}
	w.Exec(`update promo_codes set active = false where code = 'salex1'`)
	other := w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeLive})
	elsewhere := w.join(w.workspace, affiliate.ModeLive, other, w.NewPartner("Jane"))
	_, err := w.service.CreatePromoCode(w.asLiveMerchant(), &affiliatev1.CreatePromoCodeRequest{
		ProgramId: other.String(), ParticipantId: elsewhere, Code: "sale-elsewhere", DiscountType: percentage,
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		req   *affiliatev1.ListPromoCodesRequest
		want  []string
		total int64
	}{
		"all":                           {&affiliatev1.ListPromoCodesRequest{}, []string{"other", "sale-2", "salex1", "sale_1"}, 4},
		"a page":                        {&affiliatev1.ListPromoCodesRequest{Page: proto.Int32(2), PageSize: proto.Int32(3)}, []string{"sale_1"}, 4},
		"beyond the end":                {&affiliatev1.ListPromoCodesRequest{Page: proto.Int32(9)}, nil, 4},
		"one participant":               {&affiliatev1.ListPromoCodesRequest{ParticipantId: &jane}, []string{"sale-2", "sale_1"}, 2},
		"other programme's participant": {&affiliatev1.ListPromoCodesRequest{ParticipantId: &elsewhere}, nil, 0},
		"active":                        {&affiliatev1.ListPromoCodesRequest{Active: proto.Bool(true)}, []string{"other", "sale-2", "sale_1"}, 3},
		"not active":                    {&affiliatev1.ListPromoCodesRequest{Active: proto.Bool(false)}, []string{"salex1"}, 1},
		"prefix in upper case":          {&affiliatev1.ListPromoCodesRequest{Search: proto.String("SALE")}, []string{"sale-2", "salex1", "sale_1"}, 3},
		"underscore is literal":         {&affiliatev1.ListPromoCodesRequest{Search: proto.String("sale_")}, []string{"sale_1"}, 1},
		"percent sign is literal":       {&affiliatev1.ListPromoCodesRequest{Search: proto.String("%")}, nil, 0},
		"page of a search":              {&affiliatev1.ListPromoCodesRequest{Search: proto.String("s"), PageSize: proto.Int32(1)}, []string{"sale-2"}, 3},
		"all filters": {
			&affiliatev1.ListPromoCodesRequest{Search: proto.String("sale"), ParticipantId: &john, Active: proto.Bool(false)},
			[]string{"salex1"},
			1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if codes, total := w.listCodes(tc.req); total != tc.total || !slices.Equal(codes, tc.want) {
				t.Errorf("%v, total %d; want %v, %d", codes, total, tc.want, tc.total)
			}
		})
	}
}

func TestListPartnerPromoCodes(t *testing.T) {
	w := newWorld(t)
	partner := w.NewPartner("Jane")
	jane := w.join(w.workspace, affiliate.ModeLive, w.program, partner)
	w.mustCreate(jane, "first")
	w.mustCreate(w.newParticipant(), "another")
	stranger := w.NewWorkspace()
	elsewhere, inTestMode := w.NewProgram(affiliate.Scope{Workspace: stranger, Mode: affiliate.ModeLive}), w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeTest})
	for _, c := range []struct {
		ctx     context.Context
		program affiliate.ProgramID
		id      string
		code    string
	}{
		{w.asMerchant(stranger, affiliate.ModeLive), elsewhere, w.join(stranger, affiliate.ModeLive, elsewhere, partner), "second"},
		{w.asMerchant(w.workspace, affiliate.ModeTest), inTestMode, w.join(w.workspace, affiliate.ModeTest, inTestMode, partner), "test-code"},
	} {
		w.advance()
		_, err := w.service.CreatePromoCode(c.ctx, &affiliatev1.CreatePromoCodeRequest{
			ProgramId: c.program.String(), ParticipantId: c.id, Code: c.code, DiscountType: percentage,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	own := w.program.String()
	for name, tc := range map[string]struct {
		partner affiliate.UserID
		mode    affiliate.Mode
		req     *affiliatev1.ListPartnerPromoCodesRequest
		want    []string
		total   int64
	}{
		"all":               {partner, affiliate.ModeLive, &affiliatev1.ListPartnerPromoCodesRequest{}, []string{"second", "first"}, 2},
		"a page":            {partner, affiliate.ModeLive, &affiliatev1.ListPartnerPromoCodesRequest{Page: proto.Int32(2), PageSize: proto.Int32(1)}, []string{"first"}, 2},
		"one programme":     {partner, affiliate.ModeLive, &affiliatev1.ListPartnerPromoCodesRequest{ProgramId: &own}, []string{"first"}, 1},
		"the other mode":    {partner, affiliate.ModeTest, &affiliatev1.ListPartnerPromoCodesRequest{}, []string{"test-code"}, 1},
		"a stranger":        {w.NewPartner("Jane"), affiliate.ModeLive, &affiliatev1.ListPartnerPromoCodesRequest{}, nil, 0},
		"a merchant's user": {w.user, affiliate.ModeLive, &affiliatev1.ListPartnerPromoCodesRequest{}, nil, 0},
	} {
		res, err := w.service.ListPartnerPromoCodes(w.asPartner(tc.partner, tc.mode), tc.req)
		if err != nil {
			t.Fatal(err)
		}
		var codes []string
		for _, c := range res.GetData() {
			codes = append(codes, c.GetCode())
		}
		if !slices.Equal(codes, tc.want) || res.GetTotal() != tc.total {
			t.Errorf("%s: %v, total %d; want %v, %d", name, codes, res.GetTotal(), tc.want, tc.total)
		}
	}
	// The programme is in live mode, so a call in test mode does not find it.
	_, err := w.service.ListPartnerPromoCodes(w.asPartner(partner, affiliate.ModeTest), &affiliatev1.ListPartnerPromoCodesRequest{ProgramId: &own})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

func TestPromoCodes_OfOtherScopesAreNotFound(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant()
	c := w.mustCreate(jane, "may")
	second := w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeLive})
	stranger := w.NewWorkspace()
	for name, tc := range map[string]struct {
		ctx         context.Context
		program, id string
	}{
		"another workspace": {w.asMerchant(stranger, affiliate.ModeLive), w.program.String(), c.GetId()},
		"the other mode":    {w.asMerchant(w.workspace, affiliate.ModeTest), w.program.String(), c.GetId()},
		"bad programme id":  {w.asLiveMerchant(), "programme", c.GetId()},
		"unknown programme": {w.asLiveMerchant(), affiliate.NewID[affiliate.Program](w.now).String(), c.GetId()},
		"another programme": {w.asLiveMerchant(), second.String(), c.GetId()},
		"bad code id":       {w.asLiveMerchant(), w.program.String(), "may"},
		"unknown code":      {w.asLiveMerchant(), w.program.String(), affiliate.NewID[affiliate.PromoCode](w.now).String()},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.service.GetPromoCode(tc.ctx, &affiliatev1.GetPromoCodeRequest{ProgramId: tc.program, PromoCodeId: tc.id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = w.service.UpdatePromoCode(tc.ctx, &affiliatev1.UpdatePromoCodeRequest{ProgramId: tc.program, PromoCodeId: tc.id, UpdateMask: mask("active")})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = w.service.DeletePromoCode(tc.ctx, &affiliatev1.DeletePromoCodeRequest{ProgramId: tc.program, PromoCodeId: tc.id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			if tc.id != c.GetId() || tc.program == second.String() {
				return // the caller can list and create codes in this programme
			}
			_, err = w.service.ListPromoCodes(tc.ctx, &affiliatev1.ListPromoCodesRequest{ProgramId: tc.program})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = w.service.CreatePromoCode(tc.ctx, &affiliatev1.CreatePromoCodeRequest{
				ProgramId: tc.program, ParticipantId: jane, Code: "x", DiscountType: fixed, DiscountValue: proto.Float64(1),
			})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	if w.Count(`select count(*) from promo_codes where active and version = 1`) != 1 || w.Count(`select count(*) from audit_log`) != 1 {
		t.Error("something changed")
	}
	// The same code can be used in the other mode and in another workspace.
	for i, scope := range []affiliate.Scope{{Workspace: w.workspace, Mode: affiliate.ModeTest}, {Workspace: stranger, Mode: affiliate.ModeLive}} {
		program := w.NewProgram(scope)
		_, err := w.service.CreatePromoCode(w.asMerchant(scope.Workspace, scope.Mode), &affiliatev1.CreatePromoCodeRequest{
			ProgramId: program.String(), ParticipantId: w.join(scope.Workspace, scope.Mode, program, w.NewPartner("Jane")), Code: "MAY", DiscountType: fixed,
		})
		if err != nil {
			t.Error(fmt.Errorf("%d: %w", i, err))
		}
	}
}
