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

// redactionFixture is a workspace with one programme. Tests add partners with events.
type redactionFixture struct {
	*pgtest.Fixture
	t       *testing.T
	now     time.Time
	scope   affiliate.Scope
	program affiliate.ProgramID
	by      affiliate.Actor
}

func newRedactionFixture(t *testing.T) *redactionFixture {
	t.Helper()
	f := &redactionFixture{t: t, now: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}
	f.Fixture = pgtest.Open(t, func() time.Time { return f.now })
	f.scope = affiliate.Scope{Workspace: f.NewWorkspace(), Mode: affiliate.ModeTest}
	f.program = f.NewProgram(f.scope)
	user := f.NewMerchant("Merchant")
	f.by = affiliate.Actor{User: &user}
	// The events of the first week have their own partition. Later events are in the
	// default partition.
	f.Exec(`select ensure_event_partitions($1::date, $1::date)`, f.now)
	return f
}

// partnerWithEvents stores a partner and one event of each type that contains personal
// data. The personal data in these events contains name. Some of the events are two weeks
// later.
func (f *redactionFixture) partnerWithEvents(name string) affiliate.ParticipantID {
	f.t.Helper()
	ctx, text := f.t.Context(), func(what string) *string { text := what + " of " + name; return &text }
	must := func(err error) {
		f.t.Helper()
		if err != nil {
			f.t.Fatal(err)
		}
	}
	p, err := f.Store.Apply(ctx, affiliate.Application{
		Program: f.program, Partner: f.NewPartner(name), Mode: f.scope.Mode, ReferralCode: name, AcceptTerms: true,
	}, f.now, f.by)
	must(err)
	move := func(move affiliate.ParticipantMove) {
		f.t.Helper()
		_, err := f.Store.MoveParticipant(ctx, f.scope, f.program, p.ID, move, text("reason"), f.now, f.by)
		must(err)
	}
	move(affiliate.ApproveParticipant)
	page := "https://shop.example/" + name
	link, err := f.Store.CreateLink(ctx, affiliate.Link{
		ID: affiliate.NewID[affiliate.Link](f.now), Scope: f.scope, Program: f.program, Participant: p.ID, ShortKey: affiliate.NewShortKey(),
		Destination: &page, SubID: *text("sub id"), UTM: affiliate.UTM{Source: name}, CreatedAt: f.now,
	}, f.by)
	must(err)
	code, err := f.Store.CreatePromoCode(ctx, affiliate.PromoCode{
		ID: affiliate.NewID[affiliate.PromoCode](f.now), Scope: f.scope, Program: f.program, Participant: p.ID, Code: name + "10",
		DiscountType: affiliate.DiscountPercentage, DiscountValue: 1000, Active: true, SyncStatus: affiliate.SyncNone, CreatedAt: f.now,
	}, f.by)
	must(err)

	first := f.now
	f.now = first.AddDate(0, 0, 14)
	defer func() { f.now = first }()
	_, err = f.Store.UpdateLink(ctx, f.scope, f.program, link.ID, affiliate.LinkPatch{SubID: affiliate.Set(*text("other sub id"))}, f.now, f.by)
	must(err)
	must(f.Store.DeletePromoCode(ctx, f.scope, f.program, code.ID, f.now, f.by))
	move(affiliate.SuspendParticipant)
	return p.ID
}

// bodies returns the stored event bodies by event id.
func (f *redactionFixture) bodies() map[affiliate.EventID]string {
	f.t.Helper()
	rows, _ := f.SQL.Query(f.t.Context(), `select id, convert_from(body, 'UTF8') from events`)
	all := map[affiliate.EventID]string{}
	var (
		id   affiliate.EventID
		body string
	)
	if _, err := pgx.ForEachRow(rows, []any{&id, &body}, func() error { all[id] = body; return nil }); err != nil {
		f.t.Fatal(err)
	}
	return all
}

func (f *redactionFixture) redact(p affiliate.ParticipantID) int {
	f.t.Helper()
	n, err := f.Store.RedactEvents(f.t.Context(), f.scope, p, pseudonym)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func TestRedactEvents_RewritesOnlyTheParticipantsEvents(t *testing.T) {
	t.Parallel()
	f := newRedactionFixture(t)
	erased, other := f.partnerWithEvents("anna"), f.partnerWithEvents("bert")
	if n := f.Count(`select count(distinct tableoid) from events where subject_id = $1`, erased); n != 2 {
		t.Fatalf("the events are in %d partitions, want 2", n)
	}
	const otherColumns = `select id::text || day || mode || type || coalesce(subject_id::text, '') || created_at from events order by id`
	rows, before := f.Texts(otherColumns), f.bodies()

	const perPartner = 8 // number of events of a partner
	if n := f.redact(erased); n != perPartner {
		t.Errorf("%d bodies were rewritten, want %d", n, perPartner)
	}
	if got := f.Texts(otherColumns); !slices.Equal(got, rows) {
		t.Errorf("the other columns are\n%q\nwant\n%q", got, rows)
	}
	rewritten := 0
	for id, body := range f.bodies() {
		if strings.Contains(body, "anna") {
			t.Errorf("a body still contains the name: %s", body)
		}
		if body == before[id] {
			continue
		}
		rewritten++
		if !strings.Contains(body, `"`+pseudonym+`"`) || strings.Contains(before[id], "bert") {
			t.Errorf("the body\n%s\nwas rewritten to\n%s\nwant the pseudonym in an event of the erased participant", before[id], body)
		}
		want, err := affiliate.RedactBody([]byte(before[id]), pseudonym)
		if err != nil || string(want) != body {
			t.Errorf("a body was rewritten to %s, want %s (RedactBody returned %v)", body, want, err)
		}
	}
	if rewritten != perPartner {
		t.Errorf("%d bodies have changed, want %d", rewritten, perPartner)
	}
	if n := f.redact(erased); n != 0 {
		t.Errorf("a repeated call rewrote %d bodies, want 0", n)
	}
	if n := f.redact(other); n != perPartner {
		t.Errorf("%d bodies of the other participant were rewritten, want %d", n, perPartner)
	}
}

// The same participant id in another workspace or mode belongs to another participant.
func TestRedactEvents_StaysInScope(t *testing.T) {
	t.Parallel()
	f := newRedactionFixture(t)
	participant := f.partnerWithEvents("anna")
	before := f.bodies()
	for _, scope := range []affiliate.Scope{
		{Workspace: f.scope.Workspace, Mode: f.scope.Mode.Other()},
		{Workspace: affiliate.NewID[affiliate.Workspace](f.now), Mode: f.scope.Mode},
	} {
		if n, err := f.Store.RedactEvents(t.Context(), scope, participant, pseudonym); n != 0 || err != nil {
			t.Errorf("RedactEvents in the scope %v rewrote %d bodies, %v, want 0", scope, n, err)
		}
	}
	if !maps.Equal(before, f.bodies()) {
		t.Error("RedactEvents has changed bodies in another scope")
	}
}

func TestRedactEvents_IsRolledBackWithItsTransaction(t *testing.T) {
	t.Parallel()
	f := newRedactionFixture(t)
	participant := f.partnerWithEvents("anna")
	before := f.bodies()
	errLater := errors.New("a later step of the transaction failed")
	err := f.Store.RedactEventsThen(t.Context(), f.scope, participant, pseudonym, func() error { return errLater })
	if !errors.Is(err, errLater) {
		t.Errorf("RedactEventsThen returned %v, want %v", err, errLater)
	}
	if !maps.Equal(before, f.bodies()) {
		t.Error("the redaction was not rolled back")
	}
}

// manyEvents stores n more copies of a subject's first event.
func (f *redactionFixture) manyEvents(subject affiliate.ParticipantID, n int) {
	f.t.Helper()
	f.Exec(`
		insert into events (workspace_id, id, day, mode, type, subject_id, body, created_at)
		select e.workspace_id, overlay(gen_random_uuid()::text placing lpad(to_hex(n), 8, '0') from 1)::uuid, e.day, e.mode, e.type, e.subject_id, e.body, e.created_at
		from (select * from events where subject_id = $1 order by id limit 1) e, generate_series(1, $2) n`, subject, n)
}

func TestRedactEvents_WorksInBatches(t *testing.T) {
	t.Parallel()
	f := newRedactionFixture(t)
	participant := f.partnerWithEvents("anna")
	known := f.Count(`select count(*) from events where subject_id = $1`, participant)
	f.manyEvents(participant, 2*postgres.RedactionBatch+1)
	if n := f.redact(participant); n != known+2*postgres.RedactionBatch+1 {
		t.Errorf("%d bodies were rewritten, want %d", n, known+2*postgres.RedactionBatch+1)
	}
	if n := f.Count(`select count(*) from events where convert_from(body, 'UTF8') like '%anna%'`); n != 0 {
		t.Errorf("%d bodies still contain the name", n)
	}
}

// A transaction that creates an event about a participant locks a row. The redaction must
// wait for this lock, so that it also rewrites the new event.
func TestRedactEvents_WaitsForConcurrentEvents(t *testing.T) {
	t.Parallel()
	for name, lock := range map[string]string{
		"of the participant":         `select from participants where id = $1 for no key update`,
		"of a promo code's deletion": `delete from promo_codes where participant_id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newRedactionFixture(t)
			participant := f.partnerWithEvents("anna")
			if _, err := f.Store.CreatePromoCode(t.Context(), affiliate.PromoCode{
				ID: affiliate.NewID[affiliate.PromoCode](f.now), Scope: f.scope, Program: f.program, Participant: participant, Code: "code",
				DiscountType: affiliate.DiscountPercentage, DiscountValue: 1, Active: true, SyncStatus: affiliate.SyncNone, CreatedAt: f.now,
			}, f.by); err != nil {
				t.Fatal(err)
			}
			tx, err := f.SQL.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.Background()) }() // has no effect after the commit
			run := func(sql string, args ...any) {
				t.Helper()
				if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
					t.Fatal(err)
				}
			}
			run(lock, participant)
			done := make(chan error, 1)
			go func() {
				_, err := f.Store.RedactEvents(t.Context(), f.scope, participant, pseudonym)
				done <- err
			}()
			for f.Count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == 0 {
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
			if n := f.Count(`select count(*) from events where convert_from(body, 'UTF8') like '%anna%'`); n != 0 {
				t.Errorf("%d bodies still contain the name", n)
			}
		})
	}
}

func TestRedactEvents_UsesIndexes(t *testing.T) {
	t.Parallel()
	f := newRedactionFixture(t)
	participant, other := f.partnerWithEvents("anna"), f.partnerWithEvents("bert")
	f.manyEvents(participant, postgres.RedactionBatch)
	f.Exec(`
		insert into events (workspace_id, id, day, mode, type, subject_id, body, created_at)
		select e.workspace_id, gen_random_uuid(), e.day, e.mode, e.type, case when n % 2 = 0 then gen_random_uuid() end, e.body, e.created_at
		from (select distinct on (day) * from events where subject_id = $1) e, generate_series(1, 20000) n`, other)
	f.VacuumAnalyze("events")

	plan := func(sql string, args pgx.NamedArgs) string {
		t.Helper()
		rows, _ := f.SQL.Query(t.Context(), "explain (costs off) "+sql, pgx.QueryExecModeCacheDescribe, args)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}
	read := plan(postgres.SelectEventsOfSubjectSQL, pgx.NamedArgs{
		"workspace": f.scope.Workspace, "mode": f.scope.Mode, "subject": participant, "after": affiliate.EventID{}, "most": postgres.RedactionBatch,
	})
	if strings.Count(read, "_workspace_id_subject_id_idx") < 2 || strings.Contains(read, "Seq Scan") {
		t.Errorf("the plan of the read does not use the index on subject_id in both partitions\n%s", read)
	}
	// The statement must sort the rows before it locks them, so that two redactions
	// cannot deadlock.
	if lock, sort := strings.Index(read, "LockRows"), strings.Index(read, "Sort"); lock < 0 || sort < lock {
		t.Errorf("the plan of the read does not sort the rows before it locks them\n%s", read)
	}

	var (
		ids    []affiliate.EventID
		days   []time.Time
		bodies [][]byte
	)
	for id := range f.bodies() {
		if ids = append(ids, id); len(ids) == postgres.RedactionBatch {
			break
		}
	}
	for range ids {
		days, bodies = append(days, f.now), append(bodies, []byte("{}"))
	}
	write := plan(postgres.RewriteEventsSQL, pgx.NamedArgs{
		"workspace": f.scope.Workspace, "mode": f.scope.Mode, "ids": ids, "days": days, "bodies": bodies,
	})
	if strings.Count(write, "_pkey") < 2 || strings.Contains(write, "Seq Scan") {
		t.Errorf("the plan of the write does not use the primary key in both partitions\n%s", write)
	}
}
