package server_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	linkservice "github.com/tributary-hq/tributary/server/link"
	participantservice "github.com/tributary-hq/tributary/server/participant"
	programservice "github.com/tributary-hq/tributary/server/program"
	promocodeservice "github.com/tributary-hq/tributary/server/promocode"
	"github.com/tributary-hq/tributary/server/workspace"
)

// storedCount is the number of rows that the stores below report. It is larger than every
// bound of a total.
const storedCount = affiliate.MaxTotal + 1

type commissionStore struct{ commissionservice.Store }

func (commissionStore) Commissions(context.Context, affiliate.Scope, commission.Filter, commission.Order, affiliate.Page) ([]commission.Item, int64, error) {
	return nil, storedCount, nil
}

type linkStore struct{ linkservice.Store }

func (linkStore) Links(context.Context, affiliate.Scope, affiliate.ProgramID, link.Filter, affiliate.Page) ([]link.Link, int64, error) {
	return nil, storedCount, nil
}

func (linkStore) PartnerLinks(context.Context, affiliate.UserID, affiliate.Mode, *affiliate.ProgramID, affiliate.Page) ([]link.Link, int64, error) {
	return nil, storedCount, nil
}

type promoCodeStore struct{ promocodeservice.Store }

func (promoCodeStore) PromoCodes(context.Context, affiliate.Scope, affiliate.ProgramID, promocode.Filter, affiliate.Page) ([]promocode.PromoCode, int64, error) {
	return nil, storedCount, nil
}

func (promoCodeStore) PartnerPromoCodes(context.Context, affiliate.UserID, affiliate.Mode, *affiliate.ProgramID, affiliate.Page) ([]promocode.PromoCode, int64, error) {
	return nil, storedCount, nil
}

type programStore struct{ programservice.Store }

func (programStore) ListPrograms(context.Context, affiliate.Scope, program.Filter, affiliate.Page) ([]program.Program, int64, error) {
	return nil, storedCount, nil
}

func (programStore) ListGroups(context.Context, affiliate.Scope, affiliate.ProgramID, affiliate.Page) ([]program.Group, int64, error) {
	return nil, storedCount, nil
}

type participantStore struct{ participantservice.Store }

func (participantStore) ListParticipants(
	context.Context, affiliate.Scope, affiliate.ProgramID, participant.Filter, participant.Order, affiliate.Page,
) ([]participant.Participant, int64, error) {
	return nil, storedCount, nil
}

func (participantStore) ListParticipantInvites(context.Context, affiliate.Scope, affiliate.ProgramID, time.Time, affiliate.Page) ([]participant.Invite, int64, error) {
	return nil, storedCount, nil
}

type workspaceStore struct{ workspace.Store }

func (workspaceStore) Members(context.Context, affiliate.WorkspaceID, affiliate.Page) ([]account.TeamMember, int64, error) {
	return nil, storedCount, nil
}

func (workspaceStore) OpenInvites(context.Context, affiliate.WorkspaceID, time.Time, affiliate.Page) ([]account.MemberInvite, int64, error) {
	return nil, storedCount, nil
}

// totalOf returns a function that calls a list method and returns the response's total.
func totalOf[Request any, Response interface{ GetTotal() int64 }](
	call func(context.Context, Request) (Response, error), req Request,
) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		res, err := call(ctx, req)
		return res.GetTotal(), err
	}
}

// The database stores the number of rows of some lists, so the totals of these lists are
// exact. The total of any other list has an upper bound. If the list has more rows, the
// response has the header Total-Capped.
func TestLists_CapTheirTotals(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	var (
		commissions  = commissionservice.New(commissionStore{}, now)
		links        = linkservice.New(linkStore{}, "", now)
		codes        = promocodeservice.New(promoCodeStore{}, now)
		programs     = programservice.New(programStore{}, now)
		participants = participantservice.New(participantservice.Config{Store: participantStore{}, Now: now})
		workspaces   = workspace.New(workspaceStore{}, nil, server.Invitations{}, now)

		programID     = affiliate.NewID[affiliate.ProgramID](at).String()
		participantID = new(affiliate.NewID[affiliate.ParticipantID](at).String())
		groupID       = new(affiliate.NewID[affiliate.GroupID](at).String())
		search        = new("a")
	)
	const exact, capped, cappedSearch = storedCount, affiliate.MaxTotal, affiliate.MaxSearchTotal
	for name, tc := range map[string]struct {
		total func(context.Context) (int64, error)
		want  int64
	}{
		"commissions":                 {totalOf(commissions.ListCommissions, &affiliatev1.ListCommissionsRequest{}), exact},
		"search for commissions":      {totalOf(commissions.ListCommissions, &affiliatev1.ListCommissionsRequest{Search: search}), cappedSearch},
		"links":                       {totalOf(links.ListLinks, &affiliatev1.ListLinksRequest{ProgramId: programID}), exact},
		"a participant's links":       {totalOf(links.ListLinks, &affiliatev1.ListLinksRequest{ProgramId: programID, ParticipantId: participantID}), capped},
		"search for links":            {totalOf(links.ListLinks, &affiliatev1.ListLinksRequest{ProgramId: programID, Search: search}), cappedSearch},
		"a partner's links":           {totalOf(links.ListPartnerLinks, &affiliatev1.ListPartnerLinksRequest{}), capped},
		"promo codes":                 {totalOf(codes.ListPromoCodes, &affiliatev1.ListPromoCodesRequest{ProgramId: programID}), exact},
		"a participant's promo codes": {totalOf(codes.ListPromoCodes, &affiliatev1.ListPromoCodesRequest{ProgramId: programID, ParticipantId: participantID}), capped},
		"active promo codes":          {totalOf(codes.ListPromoCodes, &affiliatev1.ListPromoCodesRequest{ProgramId: programID, Active: new(true)}), capped},
		"search for promo codes":      {totalOf(codes.ListPromoCodes, &affiliatev1.ListPromoCodesRequest{ProgramId: programID, Search: search}), cappedSearch},
		"a partner's promo codes":     {totalOf(codes.ListPartnerPromoCodes, &affiliatev1.ListPartnerPromoCodesRequest{}), capped},
		"programmes":                  {totalOf(programs.ListPrograms, &affiliatev1.ListProgramsRequest{}), capped},
		"search for programmes":       {totalOf(programs.ListPrograms, &affiliatev1.ListProgramsRequest{Search: search}), cappedSearch},
		"groups":                      {totalOf(programs.ListGroups, &affiliatev1.ListGroupsRequest{ProgramId: programID}), capped},
		"participants":                {totalOf(participants.ListParticipants, &affiliatev1.ListParticipantsRequest{ProgramId: programID}), exact},
		"a group's participants":      {totalOf(participants.ListParticipants, &affiliatev1.ListParticipantsRequest{ProgramId: programID, GroupId: groupID}), capped},
		"search for participants":     {totalOf(participants.ListParticipants, &affiliatev1.ListParticipantsRequest{ProgramId: programID, Search: search}), cappedSearch},
		"participants' invitations":   {totalOf(participants.ListParticipantInvites, &affiliatev1.ListParticipantInvitesRequest{ProgramId: programID}), capped},
		"members":                     {totalOf(workspaces.ListMembers, &affiliatev1.ListMembersRequest{}), capped},
		"members' invitations":        {totalOf(workspaces.ListInvites, &affiliatev1.ListInvitesRequest{}), capped},
	} {
		header := &responseHeader{}
		ctx := server.WithPrincipal(grpc.NewContextWithServerTransportStream(t.Context(), header), server.Principal{Mode: affiliate.ModeLive})
		total, err := tc.total(ctx)
		if err != nil || total != tc.want {
			t.Errorf("%s: the total is %d, error %v, want %d", name, total, err, tc.want)
		}
		if marked, capped := len(header.md.Get("total-capped")) == 1, tc.want != exact; marked != capped {
			t.Errorf("%s: the response has the header Total-Capped: %t, want %t", name, marked, capped)
		}
	}
}
