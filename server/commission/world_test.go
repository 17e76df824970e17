package commission_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// world is a database and the service. Tests insert the rows of other services directly.
type world struct {
	*pgtest.Fixture
	t       *testing.T
	service *commission.Service
	clock   atomic.Int64 // Unix milliseconds
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	w.clock.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli())
	w.Fixture = pgtest.Open(t, w.now)
	w.service = commission.New(stores.Commission(w.Store), w.now)
	return w
}

func (w *world) now() time.Time { return time.UnixMilli(w.clock.Load()).UTC() }

// merchant is a workspace in one mode, with one programme.
type merchant struct {
	w       *world
	scope   affiliate.Scope
	user    affiliate.UserID
	program affiliate.ProgramID
}

func (w *world) merchant(mode affiliate.Mode) *merchant {
	w.t.Helper()
	m := &merchant{w: w, scope: affiliate.Scope{Workspace: w.NewWorkspace(), Mode: mode}}
	m.user = affiliate.NewID[affiliate.User](w.now())
	m.program = m.newProgram("Alpha")
	return m
}

// other returns the same workspace in the other mode.
func (m *merchant) other() *merchant {
	m.w.t.Helper()
	o := &merchant{w: m.w, scope: affiliate.Scope{Workspace: m.scope.Workspace, Mode: m.scope.Mode.Other()}, user: m.user}
	o.program = o.newProgram("Other mode")
	return o
}

func (m *merchant) newProgram(name string) affiliate.ProgramID {
	m.w.t.Helper()
	return m.w.NewProgram(m.scope, pgtest.Row{"name": name})
}

// as returns the context of a call by a member with this role.
func (m *merchant) as(role affiliate.Role) context.Context {
	return server.WithPrincipal(m.w.t.Context(), server.Principal{
		Kind: server.MerchantToken, User: m.user, Workspace: m.scope.Workspace, Role: role, Mode: m.scope.Mode,
	})
}

func (m *merchant) call() context.Context { return m.as(affiliate.RoleManager) }

type partner struct {
	user        affiliate.UserID
	participant affiliate.ParticipantID
	program     affiliate.ProgramID
}

func (m *merchant) partner(program affiliate.ProgramID, name, email string) partner {
	m.w.t.Helper()
	p := m.w.NewParticipant(m.scope, program, m.w.NewPartner(name, pgtest.Row{"email": email}))
	return partner{p.Partner, p.ID, program}
}

// somePartner returns a new partner for tests that do not depend on its name.
func (m *merchant) somePartner() partner {
	m.w.t.Helper()
	return m.partner(m.program, "Some Body", affiliate.NewID[affiliate.User](m.w.now()).String()+"@example.com")
}

// commission stores a commission. It is pending and has no hold period unless columns
// says otherwise.
func (m *merchant) commission(p partner, columns map[string]any) affiliate.CommissionID {
	m.w.t.Helper()
	now := m.w.now()
	id, conversion, decision := affiliate.NewID[affiliate.Commission](now), affiliate.NewID[affiliate.Conversion](now), affiliate.NewID[affiliate.Decision](now)
	rule, err := json.Marshal(affiliate.RuleSnapshot{Version: 2, Rules: affiliate.DefaultRules()})
	if err != nil {
		m.w.t.Fatal(err)
	}
	m.w.Insert("conversions", pgtest.Row{
		"workspace_id": m.scope.Workspace, "id": conversion, "mode": m.scope.Mode, "external_transaction_id": conversion.String(),
		"event_type": "purchase", "amount_cents": 1000, "currency": "EUR", "tax_cents": 0, "shipping_cents": 0, "fee_cents": 0,
		"discount_cents": 0, "occurred_at": now, "created_at": now, "source": "api", "status": "recorded", "attributed": true,
		"reason_code": "CLICK_MATCHED", "decision_id": decision, "product_ids": []string{}, "is_recurring": false,
		"fraud_score": 0, "fraud_signals": "[]", "version": 1,
	})
	m.w.Insert("attribution_decisions", pgtest.Row{
		"workspace_id": m.scope.Workspace, "id": decision, "conversion_id": conversion, "mode": m.scope.Mode, "attributed": true,
		"method": "click", "reason_code": "CLICK_MATCHED", "explanation": "A click.", "engine_version": "1", "trace": "{}",
		"clicked_at": now, "decided_at": now,
	})
	row := pgtest.Row{
		"workspace_id": m.scope.Workspace, "id": id, "mode": m.scope.Mode, "program_id": p.program, "participant_id": p.participant,
		"partner_id": p.user, "conversion_id": conversion, "decision_id": decision, "external_transaction_id": conversion.String(),
		"status": "pending", "commission_type": "percentage", "event_type": "purchase", "rate_bps": 2000, "amount_cents": 200,
		"original_amount_cents": 200, "currency": "EUR", "base_amount_cents": 1000, "sale_amount_cents": 1000, "sale_currency": "EUR",
		"needs_review": false, "review_reasons": []string{}, "dispute_status": "none", "rule_snapshot": string(rule), "version": 1,
		"created_at": now, "updated_at": now,
	}
	for column, value := range columns {
		row[column] = value
	}
	m.w.Insert("commissions", row)
	m.w.Insert("commission_history", pgtest.Row{
		"workspace_id": m.scope.Workspace, "commission_id": id, "seq": 1, "at": now, "actor": "system",
		"to_status": row["status"], "amount_cents": row["amount_cents"],
	})
	m.w.Exec(`
		insert into commission_counts as k (workspace_id, mode, grain, starts, program_id, status, needs_review, currency, slot, n, amount_cents)
		select workspace_id, mode, grain, starts, program_id, status, needs_review, currency, 0, 1, amount_cents
		from commissions c
		cross join lateral (values
			('ever', date '0001-01-01'),
			('month', date_trunc('month', c.created_at at time zone 'UTC')::date),
			('day', (c.created_at at time zone 'UTC')::date)) as g (grain, starts)
		where c.id = $1
		on conflict (workspace_id, mode, grain, starts, program_id, status, needs_review, currency, slot)
		do update set n = k.n + 1, amount_cents = k.amount_cents + excluded.amount_cents`, id)
	return id
}

// path returns the statuses that a commission had, in their order. It also checks that
// each transition wrote one event and that the numbers of the history lines have no gaps.
func (w *world) path(id affiliate.CommissionID) string {
	w.t.Helper()
	type line struct {
		Seq  int
		From *string
		To   string
	}
	rows, _ := w.SQL.Query(w.t.Context(), `select seq, from_status as "from", to_status as "to" from commission_history where commission_id = $1 order by seq`, id)
	lines, err := pgx.CollectRows(rows, pgx.RowToStructByName[line])
	if err != nil {
		w.t.Fatal(err)
	}
	var path []string
	for i, l := range lines {
		if l.Seq != i+1 || (i == 0) != (l.From == nil) || i > 0 && *l.From != path[i-1] {
			w.t.Errorf("line %d of the history does not follow: %+v", i, l)
		}
		path = append(path, l.To)
	}
	events := w.Count(`select count(*) from events where convert_from(body, 'utf8')::jsonb #>> '{data,object,id}' = $1::text`, id.String())
	if events != len(lines)-1 {
		w.t.Errorf("%d moves, %d events", len(lines)-1, events)
	}
	if n := w.Count(`select count(*) from commissions where id = $1 and status = $2 and version = $3`, id, path[len(path)-1], len(lines)); n != 1 {
		w.t.Errorf("the row does not have the last status of its history: %v", path)
	}
	return strings.Join(path, " ")
}
