package postgres_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const pseudonym = "erased-0a1b2c3d"

// redactionWorld has a programme. Tests add partners with events.
type redactionWorld struct {
	*pgtest.Fixture
	t       *testing.T
	now     time.Time
	scope   affiliate.Scope
	program affiliate.ProgramID
	by      affiliate.Actor
}

func newRedactionWorld(t *testing.T) *redactionWorld {
	t.Helper()
	w := &redactionWorld{t: t, now: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}
	w.Fixture = pgtest.Open(t, func() time.Time { return w.now })
	w.scope = affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeTest}
	w.program = w.NewProgram(w.scope)
	user := w.NewMerchant("Merchant")
	w.by = affiliate.Actor{User: &user}
	// The events of the first week have their own partition, later events do not.
	w.Exec(`select ensure_event_partitions($1::date, $1::date)`, w.now)
	return w
}

// partnerWithEvents stores a partner and one event of each kind that contains personal
// data. The texts in them contain name. Half of the events are two weeks later.
func (w *redactionWorld) partnerWithEvents(name string) affiliate.ParticipantID {
	w.t.Helper()
	ctx, text := w.t.Context(), func(what string) *string { text := what + " of " + name; return &text }
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	p, err := w.Store.Apply(ctx, affiliate.Application{
		Program: w.program, Partner: w.NewPartner(name), Mode: w.scope.Mode, ReferralCode: name, AcceptTerms: true,
	}, w.now, w.by)
	must(err)
	move := func(move affiliate.ParticipantMove) {
		w.t.Helper()
		_, err := w.Store.MoveParticipant(ctx, w.scope, w.program, p.ID, move, text("reason"), w.now, w.by)
		must(err)
	}
	move(affiliate.ApproveParticipant)
	page := "https://shop.example/" + name
	link, err := w.Store.CreateLink(ctx, affiliate.Link{
		ID: affiliate.NewID[affiliate.Link](w.now), Scope: w.scope, Program: w.program, Participant: p.ID, ShortKey: affiliate.NewShortKey(),
		Destination: &page, SubID: *text("sub id"), UTM: affiliate.UTM{Source: name}, CreatedAt: w.now,
	}, w.by)
	must(err)
	code, err := w.Store.CreatePromoCode(ctx, affiliate.PromoCode{
		ID: affiliate.NewID[affiliate.PromoCode](w.now), Scope: w.scope, Program: w.program, Participant: p.ID, Code: name + "10",
		DiscountType: affiliate.DiscountPercentage, DiscountValue: 1000, Active: true, SyncStatus: affiliate.SyncNone, CreatedAt: w.now,
	}, w.by)
	must(err)

	first := w.now
	w.now = first.AddDate(0, 0, 14)
	defer func() { w.now = first }()
	_, err = w.Store.UpdateLink(ctx, w.scope, w.program, link.ID, affiliate.LinkPatch{SubID: affiliate.Set(*text("other sub id"))}, w.now, w.by)
	must(err)
	must(w.Store.DeletePromoCode(ctx, w.scope, w.program, code.ID, w.now, w.by))
	move(affiliate.SuspendParticipant)
	return p.ID
}

// bodies returns the stored event bodies by event id.
func (w *redactionWorld) bodies() map[affiliate.EventID]string {
	w.t.Helper()
	rows, _ := w.SQL.Query(w.t.Context(), `select id, convert_from(body, 'UTF8') from events`)
	all := map[affiliate.EventID]string{}
	var (
		id   affiliate.EventID
		body string
	)
	if _, err := pgx.ForEachRow(rows, []any{&id, &body}, func() error { all[id] = body; return nil }); err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *redactionWorld) redact(p affiliate.ParticipantID) int {
	w.t.Helper()
	n, err := w.Store.RedactEvents(w.t.Context(), w.scope, p, pseudonym)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func TestRedactEvents_RewritesOnlyTheParticipantsEvents(t *testing.T) {
	t.Parallel()
	w := newRedactionWorld(t)
	erased, other := w.partnerWithEvents("anna"), w.partnerWithEvents("bert")
	if n := w.Count(`select count(distinct tableoid) from events where subject_id = $1`, erased); n != 2 {
		t.Fatalf("events in %d partitions", n)
	}
	const fixed = `select id::text || day || mode || type || coalesce(subject_id::text, '') || created_at from events order by id`
	rows, before := w.Texts(fixed), w.bodies()

	const kinds = 8 // number of events per partner, one of each kind
	if n := w.redact(erased); n != kinds {
		t.Errorf("%d bodies rewritten", n)
	}
	if got := w.Texts(fixed); !slices.Equal(got, rows) {
		t.Errorf("more than bodies changed:\n%q\n%q", rows, got)
	}
	rewritten := 0
	for id, body := range w.bodies() {
		if strings.Contains(body, "anna") {
			t.Errorf("not redacted: %s", body)
		}
		if body == before[id] {
			continue
		}
		rewritten++
		if !strings.Contains(body, `"`+pseudonym+`"`) || strings.Contains(before[id], "bert") {
			t.Errorf("%s\nbecame\n%s", before[id], body)
		}
		want, err := affiliate.RedactBody([]byte(before[id]), pseudonym)
		if err != nil || string(want) != body {
			t.Errorf("%s, want %s (%v)", body, want, err)
		}
	}
	if rewritten != kinds {
		t.Errorf("%d bodies changed", rewritten)
	}
	if n := w.redact(erased); n != 0 {
		t.Errorf("%d bodies rewritten again", n)
	}
	if n := w.redact(other); n != kinds {
		t.Errorf("%d bodies of the other participant rewritten, want %d", n, kinds)
	}
}

// The same participant id in another workspace or mode belongs to another participant.
func TestRedactEvents_StaysInScope(t *testing.T) {
	t.Parallel()
	w := newRedactionWorld(t)
	participant := w.partnerWithEvents("anna")
	before := w.bodies()
	for _, scope := range []affiliate.Scope{
		{Workspace: w.scope.Workspace, Mode: w.scope.Mode.Other()},
		{Workspace: affiliate.NewID[affiliate.Workspace](w.now), Mode: w.scope.Mode},
	} {
		if n, err := w.Store.RedactEvents(t.Context(), scope, participant, pseudonym); n != 0 || err != nil {
			t.Errorf("%v: %d, %v", scope, n, err)
		}
	}
	if !maps.Equal(before, w.bodies()) {
		t.Error("bodies changed")
	}
}

func TestRedactEvents_IsRolledBackWithItsTransaction(t *testing.T) {
	t.Parallel()
	w := newRedactionWorld(t)
	participant := w.partnerWithEvents("anna")
	before := w.bodies()
	refused := errors.New("not erased after all")
	err := w.Store.RedactEventsThen(t.Context(), w.scope, participant, pseudonym, func() error { return refused })
	if !errors.Is(err, refused) || !maps.Equal(before, w.bodies()) {
		t.Errorf("error %v, or the redaction was not rolled back", err)
	}
}

// manyEvents stores n more copies of a subject's first event.
func (w *redactionWorld) manyEvents(subject affiliate.ParticipantID, n int) {
	w.t.Helper()
	w.Exec(`
		insert into events (workspace_id, id, day, mode, type, subject_id, body, created_at)
		select e.workspace_id, overlay(gen_random_uuid()::text placing lpad(to_hex(n), 8, '0') from 1)::uuid, e.day, e.mode, e.type, e.subject_id, e.body, e.created_at
		from (select * from events where subject_id = $1 order by id limit 1) e, generate_series(1, $2) n`, subject, n)
}

func TestRedactEvents_WorksInBatches(t *testing.T) {
	t.Parallel()
	w := newRedactionWorld(t)
	participant := w.partnerWithEvents("anna")
	known := w.Count(`select count(*) from events where subject_id = $1`, participant)
	w.manyEvents(participant, 2*postgres.RedactionBatch+1)
	if n := w.redact(participant); n != known+2*postgres.RedactionBatch+1 {
		t.Errorf("%d bodies rewritten", n)
	}
	if n := w.Count(`select count(*) from events where convert_from(body, 'UTF8') like '%anna%'`); n != 0 {
		t.Errorf("%d bodies still contain the name", n)
	}
}

// A transaction that creates an event about a participant has locked a row that the
// redaction waits for.
func TestRedactEvents_WaitsForConcurrentEvents(t *testing.T) {
	t.Parallel()
	for name, lock := range map[string]string{
		"of the participant":         `select from participants where id = $1 for no key update`,
		"of a promo code's deletion": `delete from promo_codes where participant_id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRedactionWorld(t)
			participant := w.partnerWithEvents("anna")
			if _, err := w.Store.CreatePromoCode(t.Context(), affiliate.PromoCode{
				ID: affiliate.NewID[affiliate.PromoCode](w.now), Scope: w.scope, Program: w.program, Participant: participant, Code: "code",
				DiscountType: affiliate.DiscountPercentage, DiscountValue: 1, Active: true, SyncStatus: affiliate.SyncNone, CreatedAt: w.now,
			}, w.by); err != nil {
				t.Fatal(err)
			}
			tx, err := w.SQL.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.Background()) }() // in case the test failed before the commit
			run := func(sql string, args ...any) {
				t.Helper()
				if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
					t.Fatal(err)
				}
			}
			run(lock, participant)
			done := make(chan error, 1)
			go func() {
				_, err := w.Store.RedactEvents(t.Context(), w.scope, participant, pseudonym)
				done <- err
			}()
			for w.Count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == 0 {
				select {
				case err := <-done:
					t.Fatalf("the redaction did not wait for the transaction: %v", err)
				case <-time.After(10 * time.Millisecond):
				}
			}
			run(`
				insert into events (workspace_id, id, day, mode, type, subject_id, body, created_at)
				select workspace_id, gen_random_uuid(), day, mode, type, subject_id, body, created_at
				from events where subject_id = $1 limit 1`, participant)
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if n := w.Count(`select count(*) from events where convert_from(body, 'UTF8') like '%anna%'`); n != 0 {
				t.Errorf("%d bodies still contain the name", n)
			}
		})
	}
}

func TestRedactEvents_UsesIndexes(t *testing.T) {
	t.Parallel()
	w := newRedactionWorld(t)
	participant, other := w.partnerWithEvents("anna"), w.partnerWithEvents("bert")
	w.manyEvents(participant, postgres.RedactionBatch)
	w.Exec(`
		insert into events (workspace_id, id, day, mode, type, subject_id, body, created_at)
		select e.workspace_id, gen_random_uuid(), e.day, e.mode, e.type, case when n % 2 = 0 then gen_random_uuid() end, e.body, e.created_at
		from (select distinct on (day) * from events where subject_id = $1) e, generate_series(1, 20000) n`, other)
	w.VacuumAnalyze("events")

	plan := func(sql string, args pgx.NamedArgs) string {
		t.Helper()
		rows, _ := w.SQL.Query(t.Context(), "explain (costs off) "+sql, pgx.QueryExecModeCacheDescribe, args)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}
	read := plan(postgres.SelectEventsOfSubjectSQL, pgx.NamedArgs{
		"workspace": w.scope.Workspace, "mode": w.scope.Mode, "subject": participant, "after": affiliate.EventID{}, "most": postgres.RedactionBatch,
	})
	if strings.Count(read, "_workspace_id_subject_id_idx") < 2 || strings.Contains(read, "Seq Scan") {
		t.Errorf("plan of the read:\n%s", read)
	}
	// The rows are locked after they were sorted.
	if lock, sort := strings.Index(read, "LockRows"), strings.Index(read, "Sort"); lock < 0 || sort < lock {
		t.Errorf("plan of the lock:\n%s", read)
	}

	var (
		ids    []affiliate.EventID
		days   []time.Time
		bodies [][]byte
	)
	for id := range w.bodies() {
		if ids = append(ids, id); len(ids) == postgres.RedactionBatch {
			break
		}
	}
	for range ids {
		days, bodies = append(days, w.now), append(bodies, []byte("{}"))
	}
	write := plan(postgres.RewriteEventsSQL, pgx.NamedArgs{
		"workspace": w.scope.Workspace, "mode": w.scope.Mode, "ids": ids, "days": days, "bodies": bodies,
	})
	if strings.Count(write, "_pkey") < 2 || strings.Contains(write, "Seq Scan") {
		t.Errorf("plan of the write:\n%s", write)
	}
}
