package promocode_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/promocode"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// world is a workspace with one active programme in live mode.
type world struct {
	t         *testing.T
	db        *pgx.Conn
	service   *promocode.Service
	workspace affiliate.WorkspaceID
	user      affiliate.UserID
	program   affiliate.ProgramID
	now       time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	url := pgtest.New(t)
	store, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	w := &world{t: t, db: db, now: time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC)}
	w.service = promocode.New(store, func() time.Time { return w.now })
	w.user = affiliate.NewID[affiliate.User](w.now)
	w.workspace = w.newWorkspace()
	w.program = w.newProgram(w.workspace, affiliate.ModeLive)
	return w
}

// later is a moment after all that was done, so that lists have an order.
func (w *world) later() { w.now = w.now.Add(time.Minute) }

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	if err := w.db.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) newWorkspace() affiliate.WorkspaceID {
	w.t.Helper()
	id := affiliate.NewID[affiliate.Workspace](w.now)
	w.exec(`insert into workspaces (id, name, currency, timezone, created_at, updated_at) values ($1, 'Shop', 'EUR', 'UTC', $2, $2)`, id, w.now)
	return id
}

func (w *world) newProgram(workspace affiliate.WorkspaceID, mode affiliate.Mode) affiliate.ProgramID {
	w.t.Helper()
	id := affiliate.NewID[affiliate.Program](w.now)
	w.exec(`
		insert into programs (workspace_id, id, mode, name, slug, status, allowed_domains, currency, attribution_window_days,
			attribution_model, link_param, auto_approve_partners, is_public, rules, rules_version, created_at, updated_at)
		values ($1, $2, $3, 'P', $2::uuid::text, 'active', '{}', 'EUR', 30, 'last_click', 'via', false, true, '{}', 1, $4, $4)`,
		workspace, id, mode, w.now)
	return id
}

func (w *world) newPartner() affiliate.UserID {
	w.t.Helper()
	id := affiliate.NewID[affiliate.User](w.now)
	w.exec(`insert into users (id, kind, email, password_hash, name, created_at) values ($1, 'partner', $1::uuid::text, '', 'Jane', $2)`, id, w.now)
	return id
}

// join makes a partner a participant.
func (w *world) join(workspace affiliate.WorkspaceID, mode affiliate.Mode, program affiliate.ProgramID, partner affiliate.UserID) string {
	w.t.Helper()
	id := affiliate.NewID[affiliate.Participant](w.now)
	w.exec(`
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code,
			application_answers, applied_at, created_at, updated_at)
		values ($1, $2, $3, $4, $5, 'Jane', 'jane@example.com', 'pending', '', '{}', $6, $6, $6)`,
		workspace, id, program, mode, partner, w.now)
	return id.String()
}

func (w *world) joined() string {
	w.t.Helper()
	return w.join(w.workspace, affiliate.ModeLive, w.program, w.newPartner())
}

func (w *world) merchant(workspace affiliate.WorkspaceID, mode affiliate.Mode) context.Context {
	return server.WithPrincipal(w.t.Context(), server.Principal{
		Kind: server.MerchantToken, User: w.user, Workspace: workspace, Role: affiliate.RoleManager, Mode: mode,
	})
}

func (w *world) live() context.Context { return w.merchant(w.workspace, affiliate.ModeLive) }

func (w *world) partner(id affiliate.UserID, mode affiliate.Mode) context.Context {
	return server.WithPrincipal(w.t.Context(), server.Principal{Kind: server.PartnerToken, User: id, Mode: mode})
}

// checked reports what the interceptors would.
func (w *world) checked(req proto.Message) error {
	if err := req.(interface{ ValidateAll() error }).ValidateAll(); err != nil {
		return affiliate.Invalid("annotations", err.Error())
	}
	found := w.service.Check(req)
	return found.Err()
}

// create makes a code as the merchant does; change may be nil.
func (w *world) create(participant, code string, change func(*affiliatev1.CreatePromoCodeRequest)) (*affiliatev1.PromoCode, error) {
	req := &affiliatev1.CreatePromoCodeRequest{
		ProgramId: w.program.String(), ParticipantId: participant, Code: code,
		DiscountType: affiliatev1.DiscountType_DISCOUNT_TYPE_PERCENTAGE, DiscountValue: proto.Float64(12.5),
	}
	if change != nil {
		change(req)
	}
	if err := w.checked(req); err != nil {
		return nil, err
	}
	return w.service.CreatePromoCode(w.live(), req)
}

func (w *world) created(participant, code string) *affiliatev1.PromoCode {
	w.t.Helper()
	c, err := w.create(participant, code, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) update(id string, req *affiliatev1.UpdatePromoCodeRequest) (*affiliatev1.PromoCode, error) {
	req.ProgramId, req.PromoCodeId = w.program.String(), id
	if err := w.checked(req); err != nil {
		return nil, err
	}
	return w.service.UpdatePromoCode(w.live(), req)
}

func (w *world) list(req *affiliatev1.ListPromoCodesRequest) (codes []string, total int64) {
	w.t.Helper()
	req.ProgramId = w.program.String()
	res, err := w.service.ListPromoCodes(w.live(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range res.GetData() {
		codes = append(codes, c.GetCode())
	}
	return codes, res.GetTotal()
}

// trace is what changes of a code left: actions of the audit log,
// events, and jobs for the edge.
func (w *world) trace(id string) (actions, events []string, jobs int) {
	w.t.Helper()
	read := func(sql string) []string {
		rows, _ := w.db.Query(w.t.Context(), sql, id)
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			w.t.Fatal(err)
		}
		return texts
	}
	actions = read(`select action from audit_log where resource_type = 'promo_code' and resource_id::text = $1 order by at, id`)
	events = read(`select type from events where convert_from(body, 'UTF8')::jsonb #>> '{data,object,id}' = $1 order by created_at, id`)
	return actions, events, w.count(`select count(*) from river.river_job where kind = 'sync_directory'`)
}

// lastEvent is the data of the newest event of a type.
func (w *world) lastEvent(name affiliate.EventName) (object, previous map[string]any) {
	w.t.Helper()
	var body []byte
	err := w.db.QueryRow(w.t.Context(), `select body from events where type = $1 order by created_at desc, id desc limit 1`, name).Scan(&body)
	if err != nil {
		w.t.Fatal(err)
	}
	var envelope struct {
		Data struct {
			Object   map[string]any `json:"object"`
			Previous map[string]any `json:"previous_attributes"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		w.t.Fatal(err)
	}
	return envelope.Data.Object, envelope.Data.Previous
}

// expect wants a refusal; a field is that of its first violation.
func expect(t *testing.T, err error, reason affiliate.Reason, field string) {
	t.Helper()
	var refusal *affiliate.Error
	if !errors.As(err, &refusal) || refusal.Reason != reason {
		t.Fatalf("got %v, want %s", err, reason)
	}
	if field != "" && !slices.ContainsFunc(refusal.Violations, func(v affiliate.Violation) bool { return v.Field == field }) {
		t.Fatalf("got %v, want a violation of %s", err, field)
	}
}
