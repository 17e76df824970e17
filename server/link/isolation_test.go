package link_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMerchant_AccessesOwnLinksOnly(t *testing.T) {
	f := newFixture(t)
	jane := f.join("jane")
	id := f.NewLink(jane, "sale").ID.String()
	before, err := f.getLink(id)
	if err != nil {
		t.Fatal(err)
	}
	auditRecords := f.Count(`select count(*) from audit_log`)
	stranger, testMode := f.in(f.NewShop(affiliate.ModeLive)), f.in(f.InOtherMode())

	program := f.Program.String()
	for name, tc := range map[string]struct {
		caller        context.Context
		program, link string
		allowedInList bool // the caller may list and create links in this programme
	}{
		"another workspace":    {stranger.asOwner(), program, id, false},
		"the other mode":       {testMode.asOwner(), program, id, false},
		"a partner":            {f.asPartner(jane), program, id, false},
		"invalid programme id": {f.asOwner(), "programme", id, false},
		"unknown programme":    {f.asOwner(), affiliate.NewID[affiliate.ProgramID](f.Now()).String(), id, false},
		"another programme":    {f.asOwner(), f.NewProgram(f.Scope).String(), id, true},
		"invalid link id":      {f.asOwner(), program, "link", true},
		"unknown link":         {f.asOwner(), program, affiliate.NewID[affiliate.LinkID](f.Now()).String(), true},
		"id of a participant":  {f.asOwner(), program, jane.ID.String(), true},
		"id in braces":         {f.asOwner(), program, "{" + id + "}", true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.GetLink(tc.caller, &affiliatev1.GetLinkRequest{ProgramId: tc.program, LinkId: tc.link})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.UpdateLink(tc.caller, &affiliatev1.UpdateLinkRequest{
				ProgramId: tc.program, LinkId: tc.link, UpdateMask: mask("sub_id"), SubId: new("x"),
			})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.DeleteLink(tc.caller, &affiliatev1.DeleteLinkRequest{ProgramId: tc.program, LinkId: tc.link})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			if tc.allowedInList {
				return
			}
			_, err = f.service.ListLinks(tc.caller, &affiliatev1.ListLinksRequest{ProgramId: tc.program})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.CreateLink(tc.caller, &affiliatev1.CreateLinkRequest{ProgramId: tc.program, ParticipantId: jane.ID.String(), DestinationUrl: website})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	if after, err := f.getLink(id); err != nil || !proto.Equal(after, before) {
		t.Errorf("after refused calls the link is %v, error %v, want %v", after, err, before)
	}
	if n := f.Count(`select count(*) from audit_log`); n != auditRecords {
		t.Errorf("after refused calls the audit log has %d records, want %d", n, auditRecords)
	}
	if ids, total := f.listLinks(&affiliatev1.ListLinksRequest{}); total != 2 {
		t.Errorf("after refused calls the links are %v, total %d, want 2", ids, total)
	}
}

func TestCreateLink_CodeIsUniqueInWorkspaceAndMode(t *testing.T) {
	f := newFixture(t)
	for name, shop := range map[string]*pgtest.Shop{
		"the workspace": f.Shop, "the other mode": f.InOtherMode(), "another workspace": f.NewShop(affiliate.ModeLive),
	} {
		shop := f.in(shop)
		if _, err := shop.createLink(shop.join("jane"), func(r *affiliatev1.CreateLinkRequest) { r.Code = new("sale") }); err != nil {
			t.Errorf("CreateLink with the same code in %s: %v", name, err)
		}
	}
}

func TestPartner_CreatesUpdatesAndDeletesOwnLinks(t *testing.T) {
	f := newFixture(t)
	jane := f.join("jane")
	f.clock.Advance(time.Minute)
	create := &affiliatev1.CreatePartnerLinkRequest{ProgramId: f.Program.String(), DestinationUrl: website, Code: new("Mine")}
	if err := servertest.Check(f.service, create); err != nil {
		t.Fatal(err)
	}
	created, err := f.service.CreatePartnerLink(f.asPartner(jane), create)
	if err != nil {
		t.Fatal(err)
	}
	if created.GetParticipantId() != jane.ID.String() || created.GetCode() != "mine" {
		t.Errorf("CreatePartnerLink returned %v, want a link of the participant %s with the code mine", created, jane.ID)
	}
	if n := f.Count(`select count(*) from audit_log where action = 'link.create' and actor = $1 and workspace_id = $2`, jane.Partner.String(), f.Scope.Workspace); n != 1 {
		t.Errorf("the audit log of the merchant names the partner %d times, want once", n)
	}

	f.clock.Advance(time.Minute)
	id := created.GetId()
	updated, err := f.service.UpdatePartnerLink(f.asPartner(jane), changeSubID(id))
	if err != nil || updated.GetSubId() != "x" {
		t.Errorf("UpdatePartnerLink returned %v, error %v, want a link with sub_id x", updated, err)
	}
	if _, err := f.service.DeletePartnerLink(f.asPartner(jane), &affiliatev1.DeletePartnerLinkRequest{LinkId: id}); err != nil {
		t.Errorf("DeletePartnerLink: %v", err)
	}
	_, err = f.getLink(id)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

// changeSubID returns a request that is valid for every link of the calling partner.
func changeSubID(link string) *affiliatev1.UpdatePartnerLinkRequest {
	return &affiliatev1.UpdatePartnerLinkRequest{LinkId: link, UpdateMask: mask("sub_id"), SubId: new("x")}
}

func TestPartner_AccessesOwnLinksOnly(t *testing.T) {
	f := newFixture(t)
	jane, john := f.join("jane"), f.join("john")
	id := f.NewLink(jane, "mine").ID.String()
	inTestMode := servertest.AsPartner(f, jane.Partner, affiliate.ModeTest)
	for name, tc := range map[string]struct {
		caller context.Context
		link   string
	}{
		"another partner":         {f.asPartner(john), id},
		"the other mode":          {inTestMode, id},
		"link of another partner": {f.asPartner(jane), john.Link.String()},
		"account of a merchant":   {servertest.AsPartner(f, f.Owner, affiliate.ModeLive), id},
		"unknown link":            {f.asPartner(jane), affiliate.NewID[affiliate.LinkID](f.Now()).String()},
		"invalid link id":         {f.asPartner(jane), "link"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.UpdatePartnerLink(tc.caller, changeSubID(tc.link))
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.DeletePartnerLink(tc.caller, &affiliatev1.DeletePartnerLinkRequest{LinkId: tc.link})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	for name, tc := range map[string]struct {
		caller  context.Context
		program affiliate.ProgramID
	}{
		"programme without the partner": {f.asPartner(jane), f.NewProgram(f.Scope)},
		"programme of the other mode":   {inTestMode, f.Program},
		"unknown programme":             {f.asPartner(jane), affiliate.NewID[affiliate.ProgramID](f.Now())},
		"partner without programmes":    {servertest.AsPartner(f, f.NewPartner("John"), affiliate.ModeLive), f.Program},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.CreatePartnerLink(tc.caller, &affiliatev1.CreatePartnerLinkRequest{ProgramId: tc.program.String(), DestinationUrl: website})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
}

func TestPartnerLinks_Refusals(t *testing.T) {
	f := newFixture(t)
	jane := f.join("jane")
	ctx, id := f.asPartner(jane), f.NewLink(jane, "mine").ID.String()
	create := func(destination string) error {
		_, err := f.service.CreatePartnerLink(ctx, &affiliatev1.CreatePartnerLinkRequest{ProgramId: f.Program.String(), DestinationUrl: destination})
		return err
	}
	pgtest.RequireRefusal(t, create("https://evil.example"), affiliate.ReasonValidation, "destination_url")
	_, err := f.service.UpdatePartnerLink(ctx, &affiliatev1.UpdatePartnerLinkRequest{
		LinkId: id, UpdateMask: mask("destination_url"), DestinationUrl: new("https://evil.example"),
	})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "destination_url")
	_, err = f.service.DeletePartnerLink(ctx, &affiliatev1.DeletePartnerLinkRequest{LinkId: jane.Link.String()})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "link_id")

	f.Exec(`update participants set erased_at = $1`, f.Now())
	_, err = f.service.UpdatePartnerLink(ctx, changeSubID(id))
	pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
	pgtest.RequireRefusal(t, create(website), affiliate.ReasonParticipantErased)
}
