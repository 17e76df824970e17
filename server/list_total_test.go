package server_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	linkservice "github.com/tributary-hq/tributary/server/link"
	participantservice "github.com/tributary-hq/tributary/server/participant"
	programservice "github.com/tributary-hq/tributary/server/program"
	promocodeservice "github.com/tributary-hq/tributary/server/promocode"
	"github.com/tributary-hq/tributary/server/workspace"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// storedCount is the number of rows in the lists below. It is larger than every bound of a
// total.
const storedCount = affiliate.MaxTotal + 1

// fill copies the only row of a table until the table has storedCount rows. The copies are
// in a table that inherits from it and has no indexes, so that they can have equal keys and
// are inserted fast. set changes columns of the copies.
func fill(f *pgtest.Shop, table, set string) {
	f.Helper()
	f.Exec(`create table more_` + table + ` () inherits (` + table + `)`)
	f.Exec(`insert into more_`+table+` select t.* from `+table+` t, generate_series(1, $1::integer)`, storedCount-1)
	if set != "" {
		f.Exec(`update more_` + table + ` set ` + set)
	}
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
	pgtest.Slow(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	f := pgtest.Open(t, now).NewShop(affiliate.ModeLive, pgtest.Row{"name": "Alpha"})
	pat := f.Join("Ada", pgtest.Row{"referral_code": "ada"})
	f.NewPromoCode(pat, "ada10")
	group := f.NewGroup(f.Scope, f.Program, "Abc")
	f.Exec(`update participants set group_id = $1`, group.ID)
	f.NewCommission(pat, func(c *commission.Commission) { c.ExternalTransactionID = "a-1" })
	f.Insert("participant_invites", pgtest.Row{
		"workspace_id": f.Scope.Workspace, "id": affiliate.NewID[affiliate.InviteID](at), "program_id": f.Program, "mode": f.Scope.Mode, "email": "a@example.com",
		"digest": []byte("a"), "mail_digest": []byte("b"), "invited_by": pat.Partner, "created_at": at, "expires_at": at.Add(time.Hour),
	})
	f.Insert("member_invites", pgtest.Row{
		"workspace_id": f.Scope.Workspace, "id": affiliate.NewID[affiliate.InviteID](at), "email": "a@example.com", "role": "viewer",
		"digest": []byte("a"), "mail_digest": []byte("b"), "invited_by": pat.Partner, "created_at": at, "expires_at": at.Add(time.Hour),
	})
	for _, table := range []string{"commissions", "links", "promo_codes", "groups", "participant_invites", "members", "member_invites"} {
		fill(f, table, "")
	}
	fill(f, "programs", "id = gen_random_uuid()")
	fill(f, "participants", "id = gen_random_uuid(), partner_id = gen_random_uuid()")
	f.Exec(`analyze`)
	f.Exec(`update list_counts set n = $1`, storedCount)
	f.Exec(`update commission_counts set n = $1`, storedCount)
	var (
		commissions  = commissionservice.New(f.DB, now)
		links        = linkservice.New(f.DB, "", now)
		codes        = promocodeservice.New(f.DB, now)
		programs     = programservice.New(f.DB, now)
		participants = participantservice.New(participantservice.Config{DB: f.DB, Now: now})
		workspaces   = workspace.New(f.DB, nil, server.Invitations{}, now)

		programID     = f.Program.String()
		participantID = new(pat.ID.String())
		groupID       = new(group.ID.String())
		search        = new("a")
		caller        = server.Principal{Workspace: f.Scope.Workspace, Mode: f.Scope.Mode, User: pat.Partner}
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
		ctx := server.WithPrincipal(grpc.NewContextWithServerTransportStream(t.Context(), header), caller)
		total, err := tc.total(ctx)
		if err != nil || total != tc.want {
			t.Errorf("%s: the total is %d, error %v, want %d", name, total, err, tc.want)
		}
		if marked, capped := len(header.md.Get("total-capped")) == 1, tc.want != exact; marked != capped {
			t.Errorf("%s: the response has the header Total-Capped: %t, want %t", name, marked, capped)
		}
	}
}
