package server_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/server/link"
	"github.com/tributary-hq/tributary/server/participant"
	"github.com/tributary-hq/tributary/server/program"
	"github.com/tributary-hq/tributary/server/promocode"
	"github.com/tributary-hq/tributary/server/workspace"
)

// counted is what the stores below have counted: more than any bound of a total.
const counted = affiliate.MaxTotal + 1

type commissionStore struct{ commission.Store }

func (commissionStore) Commissions(context.Context, affiliate.Scope, affiliate.CommissionFilter, affiliate.CommissionOrder, affiliate.Page) ([]affiliate.CommissionItem, int64, error) {
	return nil, counted, nil
}

type linkStore struct{ link.Store }

func (linkStore) Links(context.Context, affiliate.Scope, affiliate.ProgramID, affiliate.LinkFilter, affiliate.Page) ([]affiliate.Link, int64, error) {
	return nil, counted, nil
}

func (linkStore) PartnerLinks(context.Context, affiliate.UserID, affiliate.Mode, *affiliate.ProgramID, affiliate.Page) ([]affiliate.Link, int64, error) {
	return nil, counted, nil
}

type promoCodeStore struct{ promocode.Store }

func (promoCodeStore) PromoCodes(context.Context, affiliate.Scope, affiliate.ProgramID, affiliate.PromoCodeFilter, affiliate.Page) ([]affiliate.PromoCode, int64, error) {
	return nil, counted, nil
}

func (promoCodeStore) PartnerPromoCodes(context.Context, affiliate.UserID, affiliate.Mode, *affiliate.ProgramID, affiliate.Page) ([]affiliate.PromoCode, int64, error) {
	return nil, counted, nil
}

type programStore struct{ program.Store }

func (programStore) ListPrograms(context.Context, affiliate.Scope, affiliate.ProgramFilter, affiliate.Page) ([]affiliate.Program, int64, error) {
	return nil, counted, nil
}

func (programStore) ListGroups(context.Context, affiliate.Scope, affiliate.ProgramID, affiliate.Page) ([]affiliate.Group, int64, error) {
	return nil, counted, nil
}

type participantStore struct{ participant.Store }

func (participantStore) ListParticipants(
	context.Context, affiliate.Scope, affiliate.ProgramID, affiliate.ParticipantFilter, affiliate.ParticipantOrder, affiliate.Page,
) ([]affiliate.Participant, int64, error) {
	return nil, counted, nil
}

func (participantStore) ListParticipantInvites(context.Context, affiliate.Scope, affiliate.ProgramID, time.Time, affiliate.Page) ([]affiliate.ParticipantInvite, int64, error) {
	return nil, counted, nil
}

type workspaceStore struct{ workspace.Store }

func (workspaceStore) Members(context.Context, affiliate.WorkspaceID, affiliate.Page) ([]affiliate.TeamMember, int64, error) {
	return nil, counted, nil
}

func (workspaceStore) OpenInvites(context.Context, affiliate.WorkspaceID, time.Time, affiliate.Page) ([]affiliate.MemberInvite, int64, error) {
	return nil, counted, nil
}

// list makes a case of TestTotalsOfListsStopAtTheirBounds.
func list[Request any, Response interface{ GetTotal() int64 }](
	call func(context.Context, Request) (Response, error), req Request,
) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		res, err := call(ctx, req)
		return res.GetTotal(), err
	}
}

// A total is the bound of its list and carries the header Total-Capped, unless the
// number of rows is kept.
func TestTotalsOfListsStopAtTheirBounds(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	var (
		commissions  = commission.New(commissionStore{}, now)
		links        = link.New(linkStore{}, "", now)
		codes        = promocode.New(promoCodeStore{}, now)
		programs     = program.New(programStore{}, now)
		participants = participant.New(participantStore{}, now)
		workspaces   = workspace.New(workspaceStore{}, now)

		in, of, search, active = affiliate.NewID[affiliate.Program](at).String(), ptr(affiliate.NewID[affiliate.Participant](at).String()), ptr("a"), true
		group                  = ptr(affiliate.NewID[affiliate.Group](at).String())
	)
	const kept, most, mostFound = counted, affiliate.MaxTotal, affiliate.MaxSearchTotal
	for name, tc := range map[string]struct {
		total func(context.Context) (int64, error)
		want  int64
	}{
		"commissions":                 {list(commissions.ListCommissions, &affiliatev1.ListCommissionsRequest{}), kept},
		"found commissions":           {list(commissions.ListCommissions, &affiliatev1.ListCommissionsRequest{Search: search}), mostFound},
		"links":                       {list(links.ListLinks, &affiliatev1.ListLinksRequest{ProgramId: in}), kept},
		"a participant's links":       {list(links.ListLinks, &affiliatev1.ListLinksRequest{ProgramId: in, ParticipantId: of}), most},
		"found links":                 {list(links.ListLinks, &affiliatev1.ListLinksRequest{ProgramId: in, Search: search}), mostFound},
		"a partner's links":           {list(links.ListPartnerLinks, &affiliatev1.ListPartnerLinksRequest{}), most},
		"promo codes":                 {list(codes.ListPromoCodes, &affiliatev1.ListPromoCodesRequest{ProgramId: in}), kept},
		"a participant's promo codes": {list(codes.ListPromoCodes, &affiliatev1.ListPromoCodesRequest{ProgramId: in, ParticipantId: of}), most},
		"active promo codes":          {list(codes.ListPromoCodes, &affiliatev1.ListPromoCodesRequest{ProgramId: in, Active: &active}), most},
		"found promo codes":           {list(codes.ListPromoCodes, &affiliatev1.ListPromoCodesRequest{ProgramId: in, Search: search}), mostFound},
		"a partner's promo codes":     {list(codes.ListPartnerPromoCodes, &affiliatev1.ListPartnerPromoCodesRequest{}), most},
		"programmes":                  {list(programs.ListPrograms, &affiliatev1.ListProgramsRequest{}), most},
		"found programmes":            {list(programs.ListPrograms, &affiliatev1.ListProgramsRequest{Search: search}), mostFound},
		"groups":                      {list(programs.ListGroups, &affiliatev1.ListGroupsRequest{ProgramId: in}), most},
		"participants":                {list(participants.ListParticipants, &affiliatev1.ListParticipantsRequest{ProgramId: in}), kept},
		"a group's participants":      {list(participants.ListParticipants, &affiliatev1.ListParticipantsRequest{ProgramId: in, GroupId: group}), most},
		"found participants":          {list(participants.ListParticipants, &affiliatev1.ListParticipantsRequest{ProgramId: in, Search: search}), mostFound},
		"participants' invitations":   {list(participants.ListParticipantInvites, &affiliatev1.ListParticipantInvitesRequest{ProgramId: in}), most},
		"members":                     {list(workspaces.ListMembers, &affiliatev1.ListMembersRequest{}), most},
		"members' invitations":        {list(workspaces.ListInvites, &affiliatev1.ListInvitesRequest{}), most},
	} {
		header := &responseHeader{}
		ctx := server.WithPrincipal(grpc.NewContextWithServerTransportStream(t.Context(), header), server.Principal{Mode: affiliate.ModeLive})
		total, err := tc.total(ctx)
		if capped := len(header.md.Get("total-capped")) == 1; err != nil || total != tc.want || capped != (tc.want != kept) {
			t.Errorf("%s: total %d, want %d, capped %v, %v", name, total, tc.want, capped, err)
		}
	}
}
