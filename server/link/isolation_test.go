package link_test

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMerchantSeesItsOwnLinksOnly(t *testing.T) {
	w := newWorld(t)
	jane := w.joined("jane")
	l := w.created(jane, "sale")
	second := w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeLive})
	stranger := w.NewWorkspace()
	before := w.Count(`select count(*) from audit_log`)

	type caller struct {
		ctx           context.Context
		program, link string
	}
	for name, c := range map[string]caller{
		"another workspace":    {w.merchant(stranger, affiliate.ModeLive), w.program.String(), l.GetId()},
		"the other mode":       {w.merchant(w.workspace, affiliate.ModeTest), w.program.String(), l.GetId()},
		"no workspace":         {w.partner(jane.partner, affiliate.ModeLive), w.program.String(), l.GetId()},
		"a programme's no id":  {w.live(), "programme", l.GetId()},
		"no such programme":    {w.live(), affiliate.NewID[affiliate.Program](w.now).String(), l.GetId()},
		"another programme":    {w.live(), second.String(), l.GetId()},
		"a link's no id":       {w.live(), w.program.String(), "link"},
		"no such link":         {w.live(), w.program.String(), affiliate.NewID[affiliate.Link](w.now).String()},
		"a participant's id":   {w.live(), w.program.String(), jane.id},
		"an id in other words": {w.live(), w.program.String(), "{" + l.GetId() + "}"},
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
				return // the programme is the caller's
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
	// The same code is free in the other mode and in another workspace.
	for _, scope := range []affiliate.Scope{{Workspace: w.workspace, Mode: affiliate.ModeTest}, {Workspace: stranger, Mode: affiliate.ModeLive}} {
		program := w.NewProgram(scope)
		p := w.join(scope.Workspace, scope.Mode, program, w.NewPartner("Jane"), "jane")
		_, err := w.service.CreateLink(w.merchant(scope.Workspace, scope.Mode), &affiliatev1.CreateLinkRequest{
			ProgramId: program.String(), ParticipantId: p.id, DestinationUrl: page, Code: proto.String("sale"),
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestPartnerActsOnItsOwnLinksOnly(t *testing.T) {
	w := newWorld(t)
	jane, john := w.joined("jane"), w.joined("john")
	ctx := w.partner(jane.partner, affiliate.ModeLive)
	w.later()
	req := &affiliatev1.CreatePartnerLinkRequest{ProgramId: w.program.String(), DestinationUrl: page, Code: proto.String("Mine")}
	if err := w.checked(req); err != nil {
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
		"another partner":  {w.partner(john.partner, affiliate.ModeLive), l.GetId()},
		"the other mode":   {w.partner(jane.partner, affiliate.ModeTest), l.GetId()},
		"another's link":   {ctx, john.link},
		"no partner":       {w.partner(w.user, affiliate.ModeLive), l.GetId()},
		"no such link":     {ctx, affiliate.NewID[affiliate.Link](w.now).String()},
		"an id that isn't": {ctx, "link"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.service.UpdatePartnerLink(c.ctx, change(c.link))
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = w.service.DeletePartnerLink(c.ctx, &affiliatev1.DeletePartnerLinkRequest{LinkId: c.link})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	strange := w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeLive})
	for name, c := range map[string]struct {
		ctx     context.Context
		program string
	}{
		"a programme of others":      {ctx, strange.String()},
		"the other mode's":           {w.partner(jane.partner, affiliate.ModeTest), w.program.String()},
		"no programme":               {ctx, affiliate.NewID[affiliate.Program](w.now).String()},
		"a partner who never joined": {w.partner(w.NewPartner("Jane"), affiliate.ModeLive), w.program.String()},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.service.CreatePartnerLink(c.ctx, &affiliatev1.CreatePartnerLinkRequest{ProgramId: c.program, DestinationUrl: page})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	w.later()
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
