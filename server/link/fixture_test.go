package link_test

import (
	"context"
	"os"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/link"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

// website is the website of the shop's programme.
const website = "https://shop.example/"

// fixture is a shop with the service under test.
type fixture struct {
	*pgtest.Shop
	service *link.Service
	clock   *pgtest.Clock
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC))
	shop := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive)
	return &fixture{shop, link.New(shop.DB, "https://go.example.com", clock.Now), clock}
}

// in returns a fixture whose methods work in another shop.
func (f *fixture) in(shop *pgtest.Shop) *fixture {
	return &fixture{shop, f.service, f.clock}
}

// asOwner returns the context of a call by the shop's owner.
func (f *fixture) asOwner() context.Context {
	return servertest.AsMember(f, f.Scope, f.Owner, affiliate.RoleOwner)
}

// asPartner returns the context of a call by the partner of a participant.
func (f *fixture) asPartner(p pgtest.Participant) context.Context {
	return servertest.AsPartner(f, p.Partner, p.Scope.Mode)
}

// join creates a partner and a participant with the referral code.
func (f *fixture) join(code string) pgtest.Participant {
	f.Helper()
	return f.Join("Jane", pgtest.Row{"referral_code": code})
}

// createLink creates a link to website for a participant, as the shop's owner.
func (f *fixture) createLink(p pgtest.Participant, change ...func(*affiliatev1.CreateLinkRequest)) (*affiliatev1.Link, error) {
	req := &affiliatev1.CreateLinkRequest{ProgramId: f.Program.String(), ParticipantId: p.ID.String(), DestinationUrl: website}
	for _, c := range change {
		c(req)
	}
	if err := servertest.Check(f.service, req); err != nil {
		return nil, err
	}
	return f.service.CreateLink(f.asOwner(), req)
}

func (f *fixture) getLink(id string) (*affiliatev1.Link, error) {
	return f.service.GetLink(f.asOwner(), &affiliatev1.GetLinkRequest{ProgramId: f.Program.String(), LinkId: id})
}

// updateLink sets the ids in req and sends it as the shop's owner.
func (f *fixture) updateLink(id string, req *affiliatev1.UpdateLinkRequest) (*affiliatev1.Link, error) {
	req.ProgramId, req.LinkId = f.Program.String(), id
	if err := servertest.Check(f.service, req); err != nil {
		return nil, err
	}
	return f.service.UpdateLink(f.asOwner(), req)
}

func (f *fixture) deleteLink(id string) error {
	_, err := f.service.DeleteLink(f.asOwner(), &affiliatev1.DeleteLinkRequest{ProgramId: f.Program.String(), LinkId: id})
	return err
}

// listLinks returns the ids on a page of the programme's links, and the number of links
// on all pages.
func (f *fixture) listLinks(req *affiliatev1.ListLinksRequest) (ids []string, total int64) {
	f.Helper()
	req.ProgramId = f.Program.String()
	page, err := f.service.ListLinks(f.asOwner(), req)
	if err != nil {
		f.Fatalf("ListLinks with %v: %v", req, err)
	}
	return idsOf(page.GetData()), page.GetTotal()
}

func idsOf(links []*affiliatev1.Link) (ids []string) {
	for _, l := range links {
		ids = append(ids, l.GetId())
	}
	return ids
}

// records describes what the service has written in addition to the rows of links.
type records struct {
	AuditActions  []string // on one link
	Events        []string // about the same link
	DirectoryJobs int      // number of jobs that update the edge directory after changes of any link
}

func (f *fixture) recordsOf(id string) records {
	f.Helper()
	events, _ := f.Events(id)
	return records{f.AuditActions("link", id), events, f.CountJobs("sync_directory")}
}

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }
