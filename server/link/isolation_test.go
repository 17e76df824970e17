package link_test

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMerchant_AccessesOwnLinksOnly(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant("jane")
	l := w.mustCreate(jane, "sale")
	second := w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeLive})
	stranger := w.NewWorkspace()
	before := w.Count(`select count(*) from audit_log`)

	type caller struct {
		ctx           context.Context
		program, link string
	}
	for name, c := range map[string]caller{
		"another workspace":  {w.asMerchant(stranger, affiliate.ModeLive), w.program.String(), l.GetId()},
		"the other mode":     {w.asMerchant(w.workspace, affiliate.ModeTest), w.program.String(), l.GetId()},
		"a partner":          {w.asPartner(jane.partner, affiliate.ModeLive), w.program.String(), l.GetId()},
		"bad programme id":   {w.asLiveMerchant(), "programme", l.GetId()},
		"unknown programme":  {w.asLiveMerchant(), affiliate.NewID[affiliate.Program](w.now).String(), l.GetId()},
		"another programme":  {w.asLiveMerchant(), second.String(), l.GetId()},
		"bad link id":        {w.asLiveMerchant(), w.program.String(), "link"},
		"unknown link":       {w.asLiveMerchant(), w.program.String(), affiliate.NewID[affiliate.Link](w.now).String()},
		"a participant's id": {w.asLiveMerchant(), w.program.String(), jane.id},
		"id in braces":       {w.asLiveMerchant(), w.program.String(), "{" + l.GetId() + "}"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.service.GetLink(c.ctx, &affiliatev1.GetLinkRequest{ProgramId: c.program, LinkId: c.link})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = w.service.UpdateLink(c.ctx, &affiliatev1.UpdateLinkRequest{
				ProgramId: c.program, LinkId: c.link, UpdateMask: mask("sub_id"), SubId: proto.String("x"),
			})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = w.service.DeleteLink(c.ctx, &affiliatev1.DeleteLinkRequest{ProgramId: c.program, LinkId: c.link})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			if c.link != l.GetId() || c.program == second.String() {
				return // the caller may list and create links in this programme
			}
			_, err = w.service.ListLinks(c.ctx, &affiliatev1.ListLinksRequest{ProgramId: c.program})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = w.service.CreateLink(c.ctx, &affiliatev1.CreateLinkRequest{ProgramId: c.program, ParticipantId: jane.id, DestinationUrl: page})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	if w.Count(`select count(*) from audit_log`) != before || w.Count(`select count(*) from links where deleted_at is null`) != 2 {
		t.Error("something changed")
	}
	// The same code can be used in the other mode and in another workspace.
	for _, scope := range []affiliate.Scope{{Workspace: w.workspace, Mode: affiliate.ModeTest}, {Workspace: stranger, Mode: affiliate.ModeLive}} {
		program := w.NewProgram(scope)
		p := w.addParticipant(scope.Workspace, scope.Mode, program, w.NewPartner("Jane"), "jane")
		_, err := w.service.CreateLink(w.asMerchant(scope.Workspace, scope.Mode), &affiliatev1.CreateLinkRequest{
			ProgramId: program.String(), ParticipantId: p.id, DestinationUrl: page, Code: proto.String("sale"),
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestPartner_AccessesOwnLinksOnly(t *testing.T) {
	w := newWorld(t)
	jane, john := w.newParticipant("jane"), w.newParticipant("john")
	ctx := w.asPartner(jane.partner, affiliate.ModeLive)
	w.advance()
	req := &affiliatev1.CreatePartnerLinkRequest{ProgramId: w.program.String(), DestinationUrl: page, Code: proto.String("Mine")}
	if err := w.check(req); err != nil {
		t.Fatal(err)
	}
	l, err := w.service.CreatePartnerLink(ctx, req)
	if err != nil || l.GetParticipantId() != jane.id || l.GetCode() != "mine" {
		t.Fatalf("%v, %v", l, err)
	}
	if w.Count(`select count(*) from audit_log where action = 'link.create' and actor = $1 and workspace_id = $2`, jane.partner.String(), w.workspace) != 1 {
		t.Error("the merchant's audit log does not name the partner")
	}
	change := func(id string) *affiliatev1.UpdatePartnerLinkRequest {
		return &affiliatev1.UpdatePartnerLinkRequest{LinkId: id, UpdateMask: mask("sub_id"), SubId: proto.String("x")}
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		link string
	}{
		"another partner":        {w.asPartner(john.partner, affiliate.ModeLive), l.GetId()},
		"the other mode":         {w.asPartner(jane.partner, affiliate.ModeTest), l.GetId()},
		"another partner's link": {ctx, john.link},
		"a merchant":             {w.asPartner(w.user, affiliate.ModeLive), l.GetId()},
		"unknown link":           {ctx, affiliate.NewID[affiliate.Link](w.now).String()},
		"bad link id":            {ctx, "link"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.service.UpdatePartnerLink(c.ctx, change(c.link))
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = w.service.DeletePartnerLink(c.ctx, &affiliatev1.DeletePartnerLinkRequest{LinkId: c.link})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	notJoined := w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeLive})
	for name, c := range map[string]struct {
		ctx     context.Context
		program string
	}{
		"a programme not joined":     {ctx, notJoined.String()},
		"the other mode":             {w.asPartner(jane.partner, affiliate.ModeTest), w.program.String()},
		"unknown programme":          {ctx, affiliate.NewID[affiliate.Program](w.now).String()},
		"a partner who never joined": {w.asPartner(w.NewPartner("Jane"), affiliate.ModeLive), w.program.String()},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.service.CreatePartnerLink(c.ctx, &affiliatev1.CreatePartnerLinkRequest{ProgramId: c.program, DestinationUrl: page})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	w.advance()
	if got, err := w.service.UpdatePartnerLink(ctx, change(l.GetId())); err != nil || got.GetSubId() != "x" {
		t.Errorf("%v, %v", got, err)
	}
	_, err = w.service.UpdatePartnerLink(ctx, &affiliatev1.UpdatePartnerLinkRequest{
		LinkId: l.GetId(), UpdateMask: mask("destination_url"), DestinationUrl: proto.String("https://evil.example"),
	})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "destination_url")
	_, err = w.service.CreatePartnerLink(ctx, &affiliatev1.CreatePartnerLinkRequest{ProgramId: w.program.String(), DestinationUrl: "https://evil.example"})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "destination_url")
	_, err = w.service.DeletePartnerLink(ctx, &affiliatev1.DeletePartnerLinkRequest{LinkId: jane.link})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "link_id")
	w.Exec(`update participants set erased_at = $1 where id = $2`, w.now, jane.id)
	_, err = w.service.UpdatePartnerLink(ctx, change(l.GetId()))
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
	_, err = w.service.CreatePartnerLink(ctx, &affiliatev1.CreatePartnerLinkRequest{ProgramId: w.program.String(), DestinationUrl: page})
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
}
