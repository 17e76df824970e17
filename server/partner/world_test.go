package partner_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/partner"
	"github.com/tributary-hq/tributary/server/seal"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const linkHost = "https://go.example"

// world is a database with the service on it. Rows of other aggregates are put
// there directly.
type world struct {
	t       *testing.T
	store   *postgres.Store
	service *partner.Service
	keys    *seal.Keys
	db      *pgxpool.Pool
	now     time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	url := pgtest.New(t)
	w := &world{t: t, now: time.Date(2026, 3, 4, 5, 6, 7, 891_234_567, time.UTC)}
	var err error
	if w.store, err = postgres.Open(t.Context(), postgres.Config{URL: url}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	if w.db, err = pgxpool.New(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.db.Close)
	w.use(sealEntry("k1", 1))
	return w
}

func sealEntry(kid string, fill byte) string {
	return kid + ":" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))
}

// use makes the service anew with a setting of keys.
func (w *world) use(keys string) {
	w.t.Helper()
	var err error
	if w.keys, err = seal.New(keys); err != nil {
		w.t.Fatal(err)
	}
	w.service = partner.New(partner.Config{Store: w.store, Seal: w.keys, LinkHost: linkHost, Now: func() time.Time { return w.now }})
}

func (w *world) row(table string, values map[string]any) {
	w.t.Helper()
	var columns, places []string
	var args []any
	for column, value := range values {
		columns, args = append(columns, column), append(args, value)
		places = append(places, fmt.Sprintf("$%d", len(args)))
	}
	w.exec("insert into "+table+" ("+strings.Join(columns, ", ")+") values ("+strings.Join(places, ", ")+")", args...)
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	if err := w.db.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// as is a call of a partner in a mode.
func (w *world) as(user affiliate.UserID, mode affiliate.Mode) context.Context {
	return server.WithPrincipal(w.t.Context(), server.Principal{Kind: server.PartnerToken, User: user, Mode: mode})
}

func (w *world) live(user affiliate.UserID) context.Context { return w.as(user, affiliate.ModeLive) }

func (w *world) user(name string) affiliate.UserID {
	w.t.Helper()
	id := affiliate.NewID[affiliate.User](w.now)
	w.row("users", map[string]any{
		"id": id, "kind": "partner", "email": strings.ToLower(name) + "@example.com", "password_hash": "x", "name": name, "created_at": w.now,
	})
	return id
}

func (w *world) workspace(name string) affiliate.WorkspaceID {
	w.t.Helper()
	id := affiliate.NewID[affiliate.Workspace](w.now)
	w.row("workspaces", map[string]any{
		"id": id, "name": name, "currency": "EUR", "timezone": "UTC", "created_at": w.now, "updated_at": w.now,
	})
	return id
}

// program is a programme of a workspace, active and public in live mode, as
// columns change it.
type program struct {
	w     *world
	scope affiliate.Scope
	id    affiliate.ProgramID
}

func (w *world) program(workspace affiliate.WorkspaceID, name string, columns map[string]any) program {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	p := program{w, affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeLive}, affiliate.NewID[affiliate.Program](w.now)}
	rules, err := json.Marshal(affiliate.DefaultRules())
	if err != nil {
		w.t.Fatal(err)
	}
	row := map[string]any{
		"workspace_id": workspace, "id": p.id, "mode": "live", "name": name, "slug": p.id.String(), "status": "active",
		"allowed_domains": []string{}, "website_url": "https://shop.example/", "currency": "EUR", "attribution_window_days": 30,
		"attribution_model": "last_click", "link_param": "via", "auto_approve_partners": true, "is_public": true,
		"rules": string(rules), "rules_version": 1, "created_at": w.now, "updated_at": w.now,
	}
	for column, value := range columns {
		row[column] = value
	}
	if mode, ok := row["mode"].(string); ok {
		p.scope.Mode = affiliate.Mode(mode)
	}
	w.row("programs", row)
	return p
}

// join makes a participation with its default link.
func (p program) join(user affiliate.UserID, columns map[string]any) affiliate.ParticipantID {
	p.w.t.Helper()
	p.w.now = p.w.now.Add(time.Second)
	id := affiliate.NewID[affiliate.Participant](p.w.now)
	row := map[string]any{
		"workspace_id": p.scope.Workspace, "id": id, "program_id": p.id, "mode": p.scope.Mode, "partner_id": user,
		"partner_name": "Name", "partner_email": "x@example.com", "status": "approved", "referral_code": "code-" + id.String()[24:],
		"application_answers": "{}", "applied_at": p.w.now, "created_at": p.w.now, "updated_at": p.w.now,
		"note": "secret note", "tags": []string{"secret tag"},
	}
	for column, value := range columns {
		row[column] = value
	}
	p.w.row("participants", row)
	p.w.row("participant_totals", map[string]any{"workspace_id": p.scope.Workspace, "participant_id": id, "program_id": p.id})
	p.w.row("links", map[string]any{
		"workspace_id": p.scope.Workspace, "id": affiliate.NewID[affiliate.Link](p.w.now), "program_id": p.id, "participant_id": id,
		"mode": p.scope.Mode, "code": row["referral_code"], "short_key": affiliate.NewShortKey(), "is_default": true,
		"created_at": p.w.now, "updated_at": p.w.now,
	})
	return id
}

// commission stores one, pending and without hold unless columns say otherwise.
func (p program) commission(participant affiliate.ParticipantID, user affiliate.UserID, columns map[string]any) affiliate.CommissionID {
	p.w.t.Helper()
	p.w.now = p.w.now.Add(time.Second)
	now := p.w.now
	id, conversion := affiliate.NewID[affiliate.Commission](now), affiliate.NewID[affiliate.Conversion](now)
	p.w.row("conversions", map[string]any{
		"workspace_id": p.scope.Workspace, "id": conversion, "mode": p.scope.Mode, "external_transaction_id": "secret-" + conversion.String(),
		"event_type": "purchase", "amount_cents": 1000, "currency": "EUR", "tax_cents": 0, "shipping_cents": 0, "fee_cents": 0,
		"discount_cents": 0, "occurred_at": now, "created_at": now, "source": "api", "status": "recorded", "attributed": true,
		"reason_code": "CLICK_MATCHED", "decision_id": affiliate.NewID[affiliate.Decision](now), "product_ids": []string{}, "is_recurring": false,
		"fraud_score": 0, "fraud_signals": "[]", "version": 1,
	})
	row := map[string]any{
		"workspace_id": p.scope.Workspace, "id": id, "mode": p.scope.Mode, "program_id": p.id, "participant_id": participant,
		"partner_id": user, "conversion_id": conversion, "decision_id": affiliate.NewID[affiliate.Decision](now),
		"external_transaction_id": "secret-" + conversion.String(), "customer_ref": "secret customer",
		"status": "pending", "commission_type": "percentage", "event_type": "purchase", "rate_bps": 2000, "amount_cents": 200,
		"original_amount_cents": 200, "currency": "EUR", "base_amount_cents": 1000, "sale_amount_cents": 1000, "sale_currency": "EUR",
		"needs_review": true, "review_reasons": []string{"secret reason"}, "dispute_status": "none", "rule_snapshot": "{}", "version": 1,
		"override_reason": "secret override", "rejection_reason": "secret rejection", "created_at": now, "updated_at": now,
	}
	for column, value := range columns {
		row[column] = value
	}
	p.w.row("commissions", row)
	return id
}

// delta counts something, not folded yet.
func (p program) delta(participant affiliate.ParticipantID, hour time.Time, columns map[string]any) {
	p.w.t.Helper()
	row := map[string]any{
		"workspace_id": p.scope.Workspace, "id": affiliate.NewID[affiliate.StatsDelta](p.w.now), "mode": p.scope.Mode, "program_id": p.id,
		"participant_id": participant, "hour": hour, "currency": "",
	}
	for column, value := range columns {
		row[column] = value
	}
	p.w.row("stats_deltas", row)
}

func (w *world) fold() {
	w.t.Helper()
	if _, err := w.store.FoldStats(w.t.Context(), 1000); err != nil {
		w.t.Fatal(err)
	}
}

// checked runs the checks that the interceptor runs before a call.
func (w *world) checked(req proto.Message) error {
	found := w.service.Check(req)
	return found.Err()
}

// reasonOf is what a call was refused with, empty when it was not.
func reasonOf(t *testing.T, err error) affiliate.Reason {
	t.Helper()
	var refusal *affiliate.Error
	if err != nil && !errors.As(err, &refusal) {
		t.Fatalf("an accident: %v", err)
	}
	if refusal == nil {
		return ""
	}
	return refusal.Reason
}

// dump is the text of every row of every table, binary columns as hex.
func (w *world) dump() string {
	w.t.Helper()
	rows, _ := w.db.Query(w.t.Context(), `
		select format('%I.%I', schemaname, tablename) from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatal(err)
	}
	var all strings.Builder
	for _, table := range tables {
		rows, _ := w.db.Query(w.t.Context(), `select t::text from `+table+` t`)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			w.t.Fatalf("%s: %v", table, err)
		}
		all.WriteString(strings.Join(lines, "\n") + "\n")
	}
	return all.String()
}
