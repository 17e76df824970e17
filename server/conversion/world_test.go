package conversion_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// world is a workspace with a programme of 30 percent and an approved partner,
// and the service over a real database.
type world struct {
	*testing.T
	store       *countingStore
	sql         *pgxpool.Pool // as the owner
	service     *conversion.Service
	tail        *tail
	scope       affiliate.Scope
	program     affiliate.ProgramID
	participant affiliate.ParticipantID
	partner     affiliate.UserID
	offset      atomic.Int64 // of the service's clock
}

func newWorld(t *testing.T) *world {
	t.Helper()
	url := pgtest.New(t)
	store, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	sql, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sql.Close)
	w := &world{T: t, store: &countingStore{Store: store}, sql: sql, tail: &tail{}}
	w.service = conversion.New(conversion.Config{
		Store: w.store, Tail: w.tail, HashKey: []byte("key of the tests"), Now: w.now, Log: slog.New(slog.DiscardHandler),
	})
	w.scope = affiliate.Scope{Workspace: w.newWorkspace(), Mode: affiliate.ModeTest}
	w.program = w.newProgram(w.scope)
	w.participant, w.partner = w.newParticipant(w.scope, w.program)
	return w
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.offset.Load())) }

func (w *world) exec(sql string, args ...any) {
	w.Helper()
	if _, err := w.sql.Exec(context.Background(), sql, args...); err != nil {
		w.Fatal(err)
	}
}

func (w *world) newWorkspace() affiliate.WorkspaceID {
	id := affiliate.NewID[affiliate.Workspace](w.now())
	w.exec(`insert into workspaces (id, name, currency, timezone, created_at, updated_at) values ($1, 'Shop', 'EUR', 'UTC', $2, $2)`, id, w.now())
	return id
}

func (w *world) newProgram(scope affiliate.Scope) affiliate.ProgramID {
	id := affiliate.NewID[affiliate.Program](w.now())
	w.exec(`
		insert into programs (workspace_id, id, mode, name, slug, status, allowed_domains, currency, attribution_window_days,
			attribution_model, link_param, auto_approve_partners, is_public, rules, rules_version, created_at, updated_at)
		values ($1, $2::uuid, $3, 'Spring', $2::text, 'active', '{}', 'EUR', 30, 'last_click', 'via', false, true,
			'{"commission_type":"percentage","rate_bps":3000,"hold_period_days":30,"auto_approval":true,"net_basis":"gross"}', 4, $4, $4)`,
		scope.Workspace, id, scope.Mode, w.now())
	return id
}

func (w *world) newParticipant(scope affiliate.Scope, program affiliate.ProgramID) (affiliate.ParticipantID, affiliate.UserID) {
	id, user := affiliate.NewID[affiliate.Participant](w.now()), affiliate.NewID[affiliate.User](w.now())
	w.exec(`insert into users (id, kind, email, password_hash, name, created_at) values ($1::uuid, 'partner', $1::text, '', 'Pat', $2)`, user, w.now())
	w.exec(`
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code, application_answers, applied_at, created_at, updated_at)
		values ($1, $2::uuid, $3, $4, $5::uuid, 'Pat', $5::text, 'approved', $2::text, '{}', $6, $6, $6)`,
		scope.Workspace, id, program, scope.Mode, user, w.now())
	w.exec(`insert into participant_totals (workspace_id, participant_id, program_id) values ($1, $2, $3)`, scope.Workspace, id, program)
	w.exec(`
		insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, is_default, created_at, updated_at)
		values ($1, $2, $3, $4::uuid, $5, $4::text, $6, true, $7, $7)`,
		scope.Workspace, affiliate.NewID[affiliate.Link](w.now()), program, id, scope.Mode, affiliate.NewShortKey(), w.now())
	return id, user
}

// click is one of the world's participant, received now, not stored anywhere.
func (w *world) click() affiliate.Click { return w.clickAt(w.now()) }

func (w *world) clickAt(receivedAt time.Time) affiliate.Click {
	receivedAt = receivedAt.UTC().Truncate(time.Millisecond)
	id := affiliate.NewID[affiliate.Click](receivedAt)
	clickedAt, _ := id.Time()
	return affiliate.Click{
		ID: id, Scope: w.scope, Program: w.program, Participant: w.participant, ReferralCode: "pat",
		ClickedAt: clickedAt, ReceivedAt: receivedAt, ExpiresAt: affiliate.WindowEnd(receivedAt, 30), CreatedAt: receivedAt,
		Consent: affiliate.ConsentUnknown,
	}
}

func (w *world) store1(c affiliate.Click) affiliate.Click {
	w.Helper()
	w.exec(`
		insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, referral_code, received_at, expires_at, created_at, consent, is_bot)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'unknown', false)`,
		c.Scope.Workspace, c.ID, c.ClickedAt, c.Scope.Mode, c.Program, c.Participant, c.ReferralCode, c.ReceivedAt, c.ExpiresAt, w.now())
	return c
}

// as is the context of a call with a secret key of the scope.
func as(scope affiliate.Scope) context.Context {
	return server.WithPrincipal(context.Background(), server.Principal{
		Kind: server.SecretKey, Workspace: scope.Workspace, Mode: scope.Mode,
	})
}

func (w *world) report(req *affiliatev1.ReportConversionRequest) (*affiliatev1.ReportConversionResponse, error) {
	return w.service.ReportConversion(as(w.scope), req)
}

func (w *world) mustReport(req *affiliatev1.ReportConversionRequest) *affiliatev1.ReportConversionResponse {
	w.Helper()
	response, err := w.report(req)
	if err != nil {
		w.Fatal(err)
	}
	return response
}

// purchase is a request of 100 EUR that names a click.
func purchase(external string, click affiliate.ClickID) *affiliatev1.ReportConversionRequest {
	return &affiliatev1.ReportConversionRequest{
		EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, ExternalTransactionId: external,
		AmountCents: ptr(int64(10_000)), Currency: ptr("eur"), ClickId: ptr(click.String()),
	}
}

func (w *world) count(sql string, args ...any) (n int) {
	w.Helper()
	if err := w.sql.QueryRow(context.Background(), `select count(*) from `+sql, args...).Scan(&n); err != nil {
		w.Fatal(err)
	}
	return n
}

func (w *world) wantCount(want int, sql string, args ...any) {
	w.Helper()
	if got := w.count(sql, args...); got != want {
		w.Errorf("%d × %s, want %d", got, sql, want)
	}
}

// events are the types and objects of all events, in the order of publication.
func (w *world) events() (types []string, objects []map[string]any) {
	w.Helper()
	rows, err := w.sql.Query(context.Background(), `select type, body from events order by created_at, ctid`)
	if err != nil {
		w.Fatal(err)
	}
	var body []byte
	var name string
	_, err = pgx.ForEachRow(rows, []any{&name, &body}, func() error {
		var envelope struct {
			Data struct {
				Object map[string]any `json:"object"`
			} `json:"data"`
		}
		types = append(types, name)
		err := json.Unmarshal(body, &envelope)
		objects = append(objects, envelope.Data.Object)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return types, objects
}

// countingStore is the real store, with its look-ups of clicks counted.
type countingStore struct {
	*postgres.Store
	looks atomic.Int64
}

func (s *countingStore) FindClick(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*affiliate.FoundClick, error) {
	s.looks.Add(1)
	return s.Store.FindClick(ctx, workspace, id)
}

// tail is the stream's tail as a test sets it.
type tail struct {
	clicks []affiliate.Click
	err    error
	looks  atomic.Int64
}

func (f *tail) Find(_ context.Context, id affiliate.ClickID) (affiliate.Click, bool, error) {
	f.looks.Add(1)
	for _, c := range f.clicks {
		if c.ID == id {
			return c, true, nil
		}
	}
	return affiliate.Click{}, false, f.err
}

func refused(err error, reason affiliate.Reason) bool {
	return errors.Is(err, affiliate.Refuse(reason))
}

func ptr[T any](v T) *T { return &v }
