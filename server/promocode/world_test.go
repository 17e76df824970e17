package promocode_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/promocode"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// world is a workspace with one active programme in live mode.
type world struct {
	*pgtest.Fixture
	t         *testing.T
	service   *promocode.Service
	workspace affiliate.WorkspaceID
	user      affiliate.UserID
	program   affiliate.ProgramID
	now       time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC)}
	w.Fixture = pgtest.Open(t, func() time.Time { return w.now })
	w.service = promocode.New(w.Store, w.Now)
	w.user = affiliate.NewID[affiliate.User](w.now)
	w.workspace = w.NewWorkspace()
	w.program = w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeLive})
	return w
}

// advance moves the clock forward, so that lists have a defined order.
func (w *world) advance() { w.now = w.now.Add(time.Minute) }

// join makes a partner a participant of a programme and returns the participant's id.
func (w *world) join(workspace affiliate.WorkspaceID, mode affiliate.Mode, program affiliate.ProgramID, partner affiliate.UserID) string {
	w.t.Helper()
	return w.NewParticipant(affiliate.Scope{Workspace: workspace, Mode: mode}, program, partner, pgtest.Row{"status": "pending"}).ID.String()
}

func (w *world) newParticipant() string {
	w.t.Helper()
	return w.join(w.workspace, affiliate.ModeLive, w.program, w.NewPartner("Jane"))
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

// create creates a promo code as a merchant. change may be nil.
func (w *world) create(participant, code string, change func(*affiliatev1.CreatePromoCodeRequest)) (*affiliatev1.PromoCode, error) {
	req := &affiliatev1.CreatePromoCodeRequest{
		ProgramId: w.program.String(), ParticipantId: participant, Code: code,
		DiscountType: affiliatev1.DiscountType_DISCOUNT_TYPE_PERCENTAGE, DiscountValue: proto.Float64(12.5),
	}
	if change != nil {
		change(req)
	}
	if err := w.check(req); err != nil {
		return nil, err
	}
	return w.service.CreatePromoCode(w.asLiveMerchant(), req)
}

func (w *world) mustCreate(participant, code string) *affiliatev1.PromoCode {
	w.t.Helper()
	c, err := w.create(participant, code, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) update(id string, req *affiliatev1.UpdatePromoCodeRequest) (*affiliatev1.PromoCode, error) {
	req.ProgramId, req.PromoCodeId = w.program.String(), id
	if err := w.check(req); err != nil {
		return nil, err
	}
	return w.service.UpdatePromoCode(w.asLiveMerchant(), req)
}

func (w *world) listCodes(req *affiliatev1.ListPromoCodesRequest) (codes []string, total int64) {
	w.t.Helper()
	req.ProgramId = w.program.String()
	res, err := w.service.ListPromoCodes(w.asLiveMerchant(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range res.GetData() {
		codes = append(codes, c.GetCode())
	}
	return codes, res.GetTotal()
}

// trace returns what was recorded about a promo code: the actions in the audit log, the
// types of the events, and the number of jobs that update the edge directory.
func (w *world) trace(id string) (actions, events []string, jobs int) {
	w.t.Helper()
	events, _ = w.Events(id)
	return w.AuditActions("promo_code", id), events, w.CountJobs("sync_directory")
}
