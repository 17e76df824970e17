package link_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/link"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const page = "https://shop.example/"

// world is a workspace with one active programme in live mode.
type world struct {
	*pgtest.Fixture
	t         *testing.T
	service   *link.Service
	workspace affiliate.WorkspaceID
	user      affiliate.UserID
	program   affiliate.ProgramID
	now       time.Time
}

// participant has the ids of a participant, its default link and its partner.
type participant struct {
	id, link string
	partner  affiliate.UserID
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC)}
	w.Fixture = pgtest.Open(t, func() time.Time { return w.now })
	w.service = link.New(w.Store, "https://go.example.com", w.Now)
	w.user = affiliate.NewID[affiliate.User](w.now)
	w.workspace = w.NewWorkspace()
	w.program = w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeLive})
	return w
}

// advance moves the clock forward, so that lists have a defined order.
func (w *world) advance() { w.now = w.now.Add(time.Minute) }

// addParticipant adds a partner to a programme, with a default link.
func (w *world) addParticipant(workspace affiliate.WorkspaceID, mode affiliate.Mode, program affiliate.ProgramID, partner affiliate.UserID, code string) participant {
	w.t.Helper()
	p := w.NewParticipant(affiliate.Scope{Workspace: workspace, Mode: mode}, program, partner, pgtest.Row{"referral_code": code, "status": "pending"})
	return participant{p.ID.String(), p.Link.String(), partner}
}

func (w *world) newParticipant(code string) participant {
	w.t.Helper()
	return w.addParticipant(w.workspace, affiliate.ModeLive, w.program, w.NewPartner("Jane"), code)
}

func (w *world) asMerchant(workspace affiliate.WorkspaceID, mode affiliate.Mode) context.Context {
	return server.WithPrincipal(w.t.Context(), server.Principal{
		Kind: server.MerchantToken, User: w.user, Workspace: workspace, Role: affiliate.RoleManager, Mode: mode,
	})
}

func (w *world) asLiveMerchant() context.Context {
	return w.asMerchant(w.workspace, affiliate.ModeLive)
}

func (w *world) asPartner(id affiliate.UserID, mode affiliate.Mode) context.Context {
	return server.WithPrincipal(w.t.Context(), server.Principal{Kind: server.PartnerToken, User: id, Mode: mode})
}

// check runs the same checks as the interceptors before a call.
func (w *world) check(req proto.Message) error {
	if err := req.(interface{ ValidateAll() error }).ValidateAll(); err != nil {
		return affiliate.Invalid("annotations", err.Error())
	}
	found := w.service.Check(req)
	return found.Err()
}

// create creates a link as a merchant. change may be nil.
func (w *world) create(p participant, change func(*affiliatev1.CreateLinkRequest)) (*affiliatev1.Link, error) {
	req := &affiliatev1.CreateLinkRequest{ProgramId: w.program.String(), ParticipantId: p.id, DestinationUrl: page + "a"}
	if change != nil {
		change(req)
	}
	if err := w.check(req); err != nil {
		return nil, err
	}
	return w.service.CreateLink(w.asLiveMerchant(), req)
}

func (w *world) mustCreate(p participant, code string) *affiliatev1.Link {
	w.t.Helper()
	l, err := w.create(p, func(r *affiliatev1.CreateLinkRequest) {
		if code != "" {
			r.Code = &code
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) update(req *affiliatev1.UpdateLinkRequest) (*affiliatev1.Link, error) {
	if err := w.check(req); err != nil {
		return nil, err
	}
	return w.service.UpdateLink(w.asLiveMerchant(), req)
}

func (w *world) listIDs(req *affiliatev1.ListLinksRequest) (ids []string, total int64) {
	w.t.Helper()
	req.ProgramId = w.program.String()
	res, err := w.service.ListLinks(w.asLiveMerchant(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range res.GetData() {
		ids = append(ids, l.GetId())
	}
	return ids, res.GetTotal()
}

// trace returns what was recorded about a link: the actions in the audit log, the types
// of the events, and the number of jobs that update the edge directory.
func (w *world) trace(id string) (actions, events []string, jobs int) {
	w.t.Helper()
	events, _ = w.Events(id)
	return w.AuditActions("link", id), events, w.CountJobs("sync_directory")
}
