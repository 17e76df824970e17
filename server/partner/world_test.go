package partner_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/partner"
	"github.com/tributary-hq/tributary/server/seal"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const linkHost = "https://go.example"

// world is the service on a real database. Tests insert the rows of other services
// directly.
type world struct {
	*pgtest.Fixture
	t       *testing.T
	service *partner.Service
	keys    *seal.Keys
	now     time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 3, 4, 5, 6, 7, 891_234_567, time.UTC)}
	w.Fixture = pgtest.Open(t, func() time.Time { return w.now })
	w.useKeys(sealEntry("k1", 1))
	return w
}

func sealEntry(kid string, fill byte) string {
	return kid + ":" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))
}

// useKeys replaces the service by one with other encryption keys.
func (w *world) useKeys(keys string) {
	w.t.Helper()
	var err error
	if w.keys, err = seal.New(keys); err != nil {
		w.t.Fatal(err)
	}
	w.service = partner.New(partner.Config{Store: w.Store, Seal: w.keys, LinkHost: linkHost, Now: w.Now})
}

// callContext returns the context of a call by a partner in a mode.
func (w *world) callContext(user affiliate.UserID, mode affiliate.Mode) context.Context {
	return server.WithPrincipal(w.t.Context(), server.Principal{Kind: server.PartnerToken, User: user, Mode: mode})
}

func (w *world) liveContext(user affiliate.UserID) context.Context {
	return w.callContext(user, affiliate.ModeLive)
}

func (w *world) user(name string) affiliate.UserID {
	w.t.Helper()
	return w.NewPartner(name, pgtest.Row{"email": strings.ToLower(name) + "@example.com", "password_hash": "x"})
}

func (w *world) workspace(name string) affiliate.WorkspaceID {
	w.t.Helper()
	return w.NewWorkspace(pgtest.Row{"name": name})
}

// program is a stored programme.
type program struct {
	w     *world
	scope affiliate.Scope
	id    affiliate.ProgramID
}

// program stores a programme. It is active, public and in live mode, unless columns say
// otherwise.
func (w *world) program(workspace affiliate.WorkspaceID, name string, columns pgtest.Row) program {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	scope := affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeLive}
	if mode, ok := columns["mode"].(string); ok {
		scope.Mode = affiliate.Mode(mode)
	}
	return program{w, scope, w.NewProgram(scope, pgtest.Row{"name": name, "allowed_domains": []string{}, "auto_approve_partners": true}, columns)}
}

// join stores a participation of the user, with its default link.
func (p program) join(user affiliate.UserID, columns pgtest.Row) affiliate.ParticipantID {
	p.w.t.Helper()
	p.w.now = p.w.now.Add(time.Second)
	return p.w.NewParticipant(p.scope, p.id, user, pgtest.Row{
		"partner_name": "Name", "partner_email": "x@example.com", "note": "secret note", "tags": []string{"secret tag"},
	}, columns).ID
}

// addCommission stores a commission. It is pending and has no hold period, unless columns
// say otherwise.
func (p program) addCommission(participant affiliate.ParticipantID, user affiliate.UserID, columns map[string]any) affiliate.CommissionID {
	p.w.t.Helper()
	p.w.now = p.w.now.Add(time.Second)
	now := p.w.now
	id, conversion := affiliate.NewID[affiliate.Commission](now), affiliate.NewID[affiliate.Conversion](now)
	p.w.Insert("conversions", pgtest.Row{
		"workspace_id": p.scope.Workspace, "id": conversion, "mode": p.scope.Mode, "external_transaction_id": "secret-" + conversion.String(),
		"event_type": "purchase", "amount_cents": 1000, "currency": "EUR", "tax_cents": 0, "shipping_cents": 0, "fee_cents": 0,
		"discount_cents": 0, "occurred_at": now, "created_at": now, "source": "api", "status": "recorded", "attributed": true,
		"reason_code": "CLICK_MATCHED", "decision_id": affiliate.NewID[affiliate.Decision](now), "product_ids": []string{}, "is_recurring": false,
		"fraud_score": 0, "fraud_signals": "[]", "version": 1,
	})
	p.w.Insert("commissions", pgtest.Row{
		"workspace_id": p.scope.Workspace, "id": id, "mode": p.scope.Mode, "program_id": p.id, "participant_id": participant,
		"partner_id": user, "conversion_id": conversion, "decision_id": affiliate.NewID[affiliate.Decision](now),
		"external_transaction_id": "secret-" + conversion.String(), "customer_ref": "secret customer",
		"status": "pending", "commission_type": "percentage", "event_type": "purchase", "rate_bps": 2000, "amount_cents": 200,
		"original_amount_cents": 200, "currency": "EUR", "base_amount_cents": 1000, "sale_amount_cents": 1000, "sale_currency": "EUR",
		"needs_review": true, "review_reasons": []string{"secret reason"}, "dispute_status": "none", "rule_snapshot": "{}", "version": 1,
		"override_reason": "secret override", "rejection_reason": "secret rejection", "created_at": now, "updated_at": now,
	}, columns)
	return id
}

// addDelta stores a statistics delta that is not yet added to the totals.
func (p program) addDelta(participant affiliate.ParticipantID, hour time.Time, columns map[string]any) {
	p.w.t.Helper()
	p.w.Insert("stats_deltas", pgtest.Row{
		"workspace_id": p.scope.Workspace, "id": affiliate.NewID[affiliate.StatsDelta](p.w.now), "mode": p.scope.Mode, "program_id": p.id,
		"participant_id": participant, "hour": hour, "currency": "",
	}, columns)
}

func (w *world) foldStats() {
	w.t.Helper()
	if _, err := w.Store.FoldStats(w.t.Context(), 1000); err != nil {
		w.t.Fatal(err)
	}
}

// check runs the checks that the interceptor runs before a call.
func (w *world) check(req proto.Message) error {
	found := w.service.Check(req)
	return found.Err()
}

// dump returns the text of all rows of all tables. Binary columns are hexadecimal.
func (w *world) dump() string {
	w.t.Helper()
	var all strings.Builder
	for _, table := range w.Texts(`
		select format('%I.%I', schemaname, tablename) from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`) {
		all.WriteString(strings.Join(w.Texts(`select t::text from `+table+` t`), "\n") + "\n")
	}
	return all.String()
}
