package commission_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/commissiontest"
	"github.com/tributary-hq/tributary/affiliate/participant"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// modelFixture is a shop with a webhook endpoint that receives all events. For each
// commission, it has the state that the model in package commissiontest predicts.
type modelFixture struct {
	*fixture
	all map[affiliate.CommissionID]*modelCommission
}

// modelCommission is the state that the model predicts for one commission and for the
// rows that belong to the commission.
type modelCommission struct {
	commission.Commission
	history       []string // "version: from → to, amount, actor, reason"
	entries       []string // type and cents
	events        []string // "version: name"
	auditActions  []string // actions of the entries in the audit log
	earningsCents int64    // earnings of the partner
}

func newModelFixture(t *testing.T) *modelFixture {
	t.Helper()
	f := &modelFixture{newFixture(t), map[affiliate.CommissionID]*modelCommission{}}
	f.NewEndpoint(f.Scope)
	return f
}

// create creates a commission with the given status, amounts and times.
func (f *modelFixture) create(initial commission.Commission, p pgtest.Participant) *modelCommission {
	f.Helper()
	c := f.NewCommission(p, func(c *commission.Commission) {
		initial.ID, initial.Conversion, initial.Decision, initial.ExternalTransactionID = c.ID, c.Conversion, c.Decision, c.ExternalTransactionID
		initial.Scope, initial.Program, initial.Participant, initial.Partner = c.Scope, c.Program, c.Participant, c.Partner
		*c = initial
	})
	stored := &modelCommission{Commission: c, earningsCents: commissiontest.EarnedCents(c)}
	stored.history = append(stored.history, fmt.Sprintf("1: → %s, %d, system, ", c.Status, c.AmountCents))
	if cents := commissiontest.LedgerCents(c); cents != 0 {
		stored.entries = append(stored.entries, fmt.Sprintf("commission_approved %d", cents))
	}
	for _, name := range commissiontest.CreationEvents(c) {
		stored.events = append(stored.events, fmt.Sprintf("1: %s", name))
	}
	f.all[c.ID] = stored
	return stored
}

// transition returns step with the scope and the ids of this commission.
func (c *modelCommission) transition(step commission.Transition) commission.Transition {
	step.Scope, step.Program, step.Commission = c.Scope, c.Program, c.ID
	return step
}

// apply makes a move in the model. It returns the reason if the model refuses the move.
func (c *modelCommission) apply(step commission.Transition) affiliate.Reason {
	out := commissiontest.Expected(c.Commission, step)
	if out.Refusal != "" {
		return out.Refusal
	}
	c.earningsCents += commissiontest.EarnedCents(out.After) - commissiontest.EarnedCents(c.Commission)
	reason := ""
	if note := cmp.Or(step.Note, step.Reason); note != nil {
		reason = *note
	}
	c.history = append(c.history, fmt.Sprintf("%d: %s → %s, %d, %s, %s", out.After.Version, c.Status, out.After.Status, out.After.AmountCents, step.Actor, reason))
	c.events = append(c.events, fmt.Sprintf("%d: %s", out.After.Version, out.Event))
	if out.EntryCents != 0 {
		c.entries = append(c.entries, fmt.Sprintf("%s %d", out.Entry, out.EntryCents))
	}
	if step.Actor != affiliate.System {
		c.auditActions = append(c.auditActions, "commission."+string(step.Move))
	}
	c.Commission = out.After
	return ""
}

// check compares the database with the model.
func (f *modelFixture) check() {
	f.Helper()
	balances, deltas := map[string]int64{}, map[string]int64{}
	counts := map[string][2]int64{}
	for _, c := range f.all {
		f.checkOne(c)
		account := c.Participant.String() + " " + c.Currency
		balances[account] += commissiontest.LedgerCents(c.Commission)
		deltas[account] += c.earningsCents
		for grain, starts := range map[string]string{"ever": "0001-01-01", "month": c.CreatedAt.Format("2006-01") + "-01", "day": c.CreatedAt.Format(time.DateOnly)} {
			group := fmt.Sprintf("%s %s %s %v %s", grain, starts, c.Status, c.NeedsReview, c.Currency)
			counts[group] = [2]int64{counts[group][0] + 1, counts[group][1] + c.AmountCents}
		}
	}
	checkSameElements(f, "balances", lines(balances), f.Texts(`
		select participant_id || ' ' || currency || ': ' || sum(balance_cents) from ledger_balances
		where workspace_id = $1 group by participant_id, currency having sum(balance_cents) <> 0`, f.Scope.Workspace))
	checkSameElements(f, "earnings", lines(deltas), f.Texts(`
		select participant_id || ' ' || currency || ': ' || sum(commission_cents) from stats_deltas
		where workspace_id = $1 and mode = $2 group by participant_id, currency having sum(commission_cents) <> 0`, f.Scope.Workspace, f.Scope.Mode))
	checkSameElements(f, "counts", lines(counts), f.Texts(`
		select grain || ' ' || starts || ' ' || status || ' ' || needs_review || ' ' || currency || ': [' || sum(n) || ' ' || sum(amount_cents) || ']'
		from commission_counts where workspace_id = $1 and mode = $2 and program_id = $3
		group by grain, starts, status, needs_review, currency having sum(n) <> 0 or sum(amount_cents) <> 0`, f.Scope.Workspace, f.Scope.Mode, f.Program))
	if n := f.Count(`select count(*) from events e where not exists (select from webhook_deliveries d where d.event_id = e.id)`); n != 0 {
		f.Errorf("%d events have no delivery", n)
	}
}

// checkOne compares one commission and its rows with the model.
func (f *modelFixture) checkOne(c *modelCommission) {
	f.Helper()
	stored, err := commissions.Get(f.Context(), f.DB, c.Scope, c.Program, c.ID)
	if err != nil {
		f.Fatal(err)
	}
	want, got := reflect.ValueOf(inUTC(c.Commission)), reflect.ValueOf(inUTC(stored.Commission))
	for i := range want.NumField() {
		if !reflect.DeepEqual(want.Field(i).Interface(), got.Field(i).Interface()) {
			f.Errorf("commission %s: the field %s is %+v, want %+v", c.ID, want.Type().Field(i).Name, got.Field(i).Interface(), want.Field(i).Interface())
		}
	}
	checkSameElements(f, "history", c.history, f.Texts(`
		select seq || ': ' || coalesce(from_status || ' ', '') || '→ ' || to_status || ', ' || amount_cents || ', ' || actor || ', ' || coalesce(reason, '')
		from commission_history where workspace_id = $1 and commission_id = $2`, c.Workspace, c.ID))
	checkSameElements(f, "ledger", c.entries, f.Texts(`
		select type || ' ' || amount_cents from ledger_entries
		where workspace_id = $1 and commission_id = $2 and mode = $3 and participant_id = $4 and partner_id = $5 and currency = $6 and program_id = $7`,
		c.Workspace, c.ID, c.Mode, c.Participant, c.Partner, c.Currency, c.Program))
	checkSameElements(f, "events", c.events, f.Texts(`
		select (b.body #>> '{data,object,version}') || ': ' || type
		from events e, lateral (select convert_from(e.body, 'utf8')::jsonb as body) b
		where workspace_id = $1 and mode = $2 and b.body #>> '{data,object,id}' = $3`, c.Workspace, c.Mode, c.ID.String()))
	checkSameElements(f, "audit log", c.auditActions, f.AuditActions("commission", c.ID.String()))
}

// checkSameElements checks that two lists have the same elements, in any order.
func checkSameElements(t testing.TB, what string, want, got []string) {
	t.Helper()
	want, got = slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))
	if !slices.Equal(want, got) {
		t.Errorf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// lines returns one line for each entry of m whose value is not the zero value.
func lines[V comparable](m map[string]V) []string {
	var zero V
	var all []string
	for key, value := range m {
		if value != zero {
			all = append(all, fmt.Sprintf("%s: %v", key, value))
		}
	}
	return all
}

// inUTC returns the commission with all its times in UTC, as in the model.
func inUTC(c commission.Commission) commission.Commission {
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		switch at := v.Field(i).Interface().(type) {
		case time.Time:
			v.Field(i).Set(reflect.ValueOf(at.UTC()))
		case *time.Time:
			if at != nil {
				utc := at.UTC()
				v.Field(i).Set(reflect.ValueOf(&utc))
			}
		}
	}
	if c.ReviewReasons == nil {
		c.ReviewReasons = []string{}
	}
	return c
}

// The test makes random sequences of moves, each move in its own transaction. The result,
// the error and the stored state of each move must be equal to the model's prediction.
func TestMove_FollowsModel(t *testing.T) {
	t.Parallel()
	f := newModelFixture(t)
	participants := []pgtest.Participant{f.Join("Jane"), f.Join("Jane")}
	seed := rand.IntN(1 << 30)
	t.Logf("seed %d", seed)
	refused := map[affiliate.Reason]int{}
	for n := range 40 {
		scenario := commissiontest.Scenarios(25).Example(seed + n)
		p := participants[n%2]
		c := f.create(scenario.Initial, p)
		for _, step := range scenario.Steps {
			if step.Move == commission.MoveAutoApprove {
				f.Exec(`update participants set status = $2, erased_at = case when $3 then $4::timestamptz end where id = $1`, p.ID, step.ParticipantStatus, step.ParticipantErased, f.Now())
			}
			detail, err := commissionservice.Move(t.Context(), f.DB, c.transition(step))
			want := c.apply(step)
			refused[want]++
			if reason := pgtest.ReasonOf(t, err); reason != want {
				t.Fatalf("sequence %d: the move %+v\nof %+v\nreturned the reason %q, want %q", n, step, c.Commission, reason, want)
			}
			if err == nil && !reflect.DeepEqual(inUTC(detail.Commission), inUTC(c.Commission)) {
				t.Fatalf("sequence %d: the move %+v\nreturned %+v\nwant     %+v", n, step, detail.Commission, c.Commission)
			}
		}
	}
	f.check()
	if refused[""] == 0 || len(refused) < 6 {
		t.Errorf("the numbers of moves by reason are %v, want successes and at least 5 different reasons", refused)
	}
}

// The test makes several moves in one transaction. Some of the moves are of the same
// commission. The result must be the same as if each move had its own transaction. If one
// move is refused, all moves must be rolled back.
func TestMoveTogether_FollowsModel(t *testing.T) {
	t.Parallel()
	f := newModelFixture(t)
	participants := []pgtest.Participant{f.Join("Jane"), f.Join("Jane")}
	seed := rand.IntN(1 << 30)
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0)) //nolint:gosec // random test data
	moved, rolledBack := 0, 0
	for n := range 30 {
		var group []*modelCommission
		var steps [][]commission.Transition
		for i := range 3 {
			scenario := commissiontest.Scenarios(8).Example(seed + 3*n + i)
			group, steps = append(group, f.create(scenario.Initial, participants[i%2])), append(steps, scenario.Steps)
		}
		for round := range 8 {
			var moves []commission.Transition
			after := map[affiliate.CommissionID]modelCommission{}
			refused := affiliate.Reason("")
			for i, c := range group {
				if round >= len(steps[i]) {
					continue
				}
				step := steps[i][round]
				step.ParticipantStatus, step.ParticipantErased = participant.Approved, false
				moves = append(moves, c.transition(step))
				if extraSteps := commissiontest.Scenarios(1).Example(random.IntN(1 << 30)).Steps; len(extraSteps) > 0 {
					extraSteps[0].At, extraSteps[0].ParticipantStatus, extraSteps[0].ParticipantErased = step.At, participant.Approved, false
					moves = append(moves, c.transition(extraSteps[0]))
				}
			}
			random.Shuffle(len(moves), func(i, j int) { moves[i], moves[j] = moves[j], moves[i] })
			// Leave out most of the moves that would be refused, because one refused move
			// rolls back the whole transaction.
			chosen := moves[:0:0]
			for _, move := range moves {
				c, ok := after[move.Commission]
				if !ok {
					c = clone(*f.all[move.Commission])
				}
				reason := c.apply(move)
				if reason != "" && random.IntN(8) > 0 {
					continue
				}
				chosen = append(chosen, move)
				if refused = reason; refused != "" {
					break
				}
				after[move.Commission] = c
			}
			if len(chosen) == 0 {
				continue
			}
			err := pgtest.MoveTogether(t.Context(), f.DB, chosen...)
			if reason := pgtest.ReasonOf(t, err); reason != refused {
				t.Fatalf("MoveTogether(%+v) returned the reason %q, want %q", chosen, reason, refused)
			}
			if refused != "" {
				rolledBack++
				continue
			}
			moved += len(chosen)
			for id, c := range after {
				*f.all[id] = c
			}
		}
	}
	f.check()
	if moved < 50 || rolledBack == 0 {
		t.Errorf("%d moves were made and %d transactions were rolled back, want at least 50 and 1", moved, rolledBack)
	}
}

// clone returns a copy of c. Appending to the slices of the copy does not change c.
func clone(c modelCommission) modelCommission {
	c.history, c.entries, c.events, c.auditActions = slices.Clip(c.history), slices.Clip(c.entries), slices.Clip(c.events), slices.Clip(c.auditActions)
	return c
}

// A commission and its history must be read from one snapshot. If a move commits during
// the read, the result must not have the commission from before the move together with
// the history from after the move.
func TestCommission_AndItsHistoryAreFromOneSnapshot(t *testing.T) {
	f := newFixture(t)
	c := f.NewCommission(f.Join("Jane"))
	// The store has one connection. The first call prepares the statements. Otherwise the
	// second call would wait for the table lock when it prepares them, before it has read
	// the commission.
	db := f.OpenWith(postgres.Config{MaxConns: 1})
	if _, err := commissions.Get(t.Context(), db, c.Scope, c.Program, c.ID); err != nil {
		t.Fatal(err)
	}
	type readResult struct {
		detail commission.Detail
		err    error
	}
	results := make(chan readResult, 1)
	err := pgx.BeginFunc(t.Context(), f.SQL, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `lock table commission_history in access exclusive mode`); err != nil {
			return err
		}
		go func() {
			detail, err := commissions.Get(t.Context(), db, c.Scope, c.Program, c.ID)
			results <- readResult{detail, err}
		}()
		f.AwaitLock()
		if _, err := tx.Exec(t.Context(), `update commissions set status = 'rejected', version = 2 where id = $1`, c.ID); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), `
			insert into commission_history (workspace_id, commission_id, seq, at, actor, from_status, to_status, amount_cents)
			values ($1, $2, 2, $3, 'system', 'pending', 'rejected', 0)`, c.Workspace, c.ID, f.Now())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	got := <-results
	if got.err != nil {
		t.Fatalf("Commission returned %v", got.err)
	}
	if last := got.detail.History[len(got.detail.History)-1]; last.To != got.detail.Status || len(got.detail.History) != got.detail.Version {
		t.Errorf("the commission is %s in version %d, but its history has %d entries and ends with %s", got.detail.Status, got.detail.Version, len(got.detail.History), last.To)
	}
}
