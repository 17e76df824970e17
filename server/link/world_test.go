package link_test

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
	"github.com/tributary-hq/tributary/server/link"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const page = "https://shop.example/"

// world is a workspace with one active programme in live mode.
type world struct {
	t         *testing.T
	db        *pgx.Conn
	store     *postgres.Store
	service   *link.Service
	workspace affiliate.WorkspaceID
	user      affiliate.UserID
	program   affiliate.ProgramID
	now       time.Time
}

// place is a participant with its partner and its default link.
type place struct {
	id, link string
	partner  affiliate.UserID
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
	w := &world{t: t, db: db, store: store, now: time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC)}
	w.service = link.New(store, "https://go.example.com", func() time.Time { return w.now })
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
		insert into programs (workspace_id, id, mode, name, slug, status, website_url, allowed_domains, currency, attribution_window_days,
			attribution_model, link_param, auto_approve_partners, is_public, rules, rules_version, created_at, updated_at)
		values ($1, $2, $3, 'P', $2::uuid::text, 'active', $4, '{shop.example,*.brand.example}', 'EUR', 30, 'last_click', 'via', false, true, '{}', 1, $5, $5)`,
		workspace, id, mode, page, w.now)
	return id
}

func (w *world) newPartner() affiliate.UserID {
	w.t.Helper()
	id := affiliate.NewID[affiliate.User](w.now)
	w.exec(`insert into users (id, kind, email, password_hash, name, created_at) values ($1, 'partner', $1::uuid::text, '', 'Jane', $2)`, id, w.now)
	return id
}

// join makes a partner a participant, with a default link.
func (w *world) join(workspace affiliate.WorkspaceID, mode affiliate.Mode, program affiliate.ProgramID, partner affiliate.UserID, code string) place {
	w.t.Helper()
	p, l := affiliate.NewID[affiliate.Participant](w.now), affiliate.NewID[affiliate.Link](w.now)
	w.exec(`
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code,
			application_answers, applied_at, created_at, updated_at)
		values ($1, $2, $3, $4, $5, 'Jane', 'jane@example.com', 'pending', $6, '{}', $7, $7, $7)`,
		workspace, p, program, mode, partner, code, w.now)
	w.exec(`insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, is_default, created_at, updated_at)
		values ($1, $2, $3, $4, $5, $6, $7, true, $8, $8)`, workspace, l, program, p, mode, code, affiliate.NewShortKey(), w.now)
	w.exec(`insert into link_totals (workspace_id, link_id) values ($1, $2)`, workspace, l)
	w.exec(`insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at) values ($1, $2, $3, $4, $5, $6, $7)`,
		workspace, mode, code, program, p, l, w.now)
	w.exec(`insert into list_counts values ($1, $2, 'links', 0, 1)
		on conflict (workspace_id, program_id, what, slot) do update set n = list_counts.n + 1`, workspace, program)
	return place{p.String(), l.String(), partner}
}

func (w *world) joined(code string) place {
	w.t.Helper()
	return w.join(w.workspace, affiliate.ModeLive, w.program, w.newPartner(), code)
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

// create makes a link as the merchant does; change may be nil.
func (w *world) create(p place, change func(*affiliatev1.CreateLinkRequest)) (*affiliatev1.Link, error) {
	req := &affiliatev1.CreateLinkRequest{ProgramId: w.program.String(), ParticipantId: p.id, DestinationUrl: page + "a"}
	if change != nil {
		change(req)
	}
	if err := w.checked(req); err != nil {
		return nil, err
	}
	return w.service.CreateLink(w.live(), req)
}

func (w *world) created(p place, code string) *affiliatev1.Link {
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
	if err := w.checked(req); err != nil {
		return nil, err
	}
	return w.service.UpdateLink(w.live(), req)
}

func (w *world) list(req *affiliatev1.ListLinksRequest) (ids []string, total int64) {
	w.t.Helper()
	req.ProgramId = w.program.String()
	res, err := w.service.ListLinks(w.live(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range res.GetData() {
		ids = append(ids, l.GetId())
	}
	return ids, res.GetTotal()
}

// trace is what somebody's changes of a link left: actions of the audit log,
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
	actions = read(`select action from audit_log where resource_type = 'link' and resource_id::text = $1 order by at, id`)
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
