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
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	linkservice "github.com/tributary-hq/tributary/server/link"
	"github.com/tributary-hq/tributary/server/participant"
	promocodeservice "github.com/tributary-hq/tributary/server/promocode"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const pseudonym = "erased-0a1b2c3d"

// newRedactionFixture returns a fixture whose events of the first week have their own
// partition. Later events are in the default partition.
func newRedactionFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	if _, err := postgres.EnsureWeekPartitions(f.Context(), f.DB, f.Now(), f.Now()); err != nil {
		t.Fatal(err)
	}
	return f
}

// partnerWithEvents stores a partner and one event of each type that contains personal
// data. The personal data in these events contains name. Some of the events are two weeks
// later.
func (f *fixture) partnerWithEvents(name string) pgtest.Participant {
	f.Helper()
	text := func(what string) *string { return new(what + " of " + name) }
	must := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	partner, owner := f.NewPartner(name), servertest.AsMember(f, f.Scope, f.Owner, affiliate.RoleOwner)
	service := participant.New(participant.Config{DB: f.DB, Now: f.Now})
	p, err := service.Apply(servertest.AsPartner(f, partner, f.Scope.Mode), &affiliatev1.ApplyRequest{
		ProgramId: f.Program.String(), ReferralCode: &name, AcceptTerms: true,
	})
	must(err)
	_, err = service.ApproveParticipant(owner, &affiliatev1.ApproveParticipantRequest{ProgramId: p.ProgramId, ParticipantId: p.Id})
	must(err)
	id, _ := affiliate.ParseID[affiliate.ParticipantID](p.Id)
	joined := pgtest.Participant{Scope: f.Scope, Program: f.Program, ID: id, Partner: partner}
	linkService, promoCodeService := linkservice.New(f.DB, "", f.Now), promocodeservice.New(f.DB, f.Now)
	link, err := linkService.CreateLink(owner, &affiliatev1.CreateLinkRequest{
		ProgramId: f.Program.String(), ParticipantId: p.Id, Code: new(name + "-link"), DestinationUrl: "https://shop.example/",
		SubId: text("sub id"), Utm: &affiliatev1.Utm{Source: &name},
	})
	must(err)
	code, err := promoCodeService.CreatePromoCode(owner, &affiliatev1.CreatePromoCodeRequest{
		ProgramId: f.Program.String(), ParticipantId: p.Id, Code: name + "10",
		DiscountType: affiliatev1.DiscountType_DISCOUNT_TYPE_PERCENTAGE, DiscountValue: new(10.0),
	})
	must(err)

	const later = 14 * 24 * time.Hour
	f.Clock.Advance(later)
	defer f.Clock.Advance(-later)
	_, err = linkService.UpdateLink(owner, &affiliatev1.UpdateLinkRequest{
		ProgramId: link.ProgramId, LinkId: link.Id, SubId: text("other sub id"), UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"sub_id"}},
	})
	must(err)
	_, err = promoCodeService.DeletePromoCode(owner, &affiliatev1.DeletePromoCodeRequest{ProgramId: code.ProgramId, PromoCodeId: code.Id})
	must(err)
	_, err = service.SuspendParticipant(owner, &affiliatev1.SuspendParticipantRequest{ProgramId: p.ProgramId, ParticipantId: p.Id, Reason: text("reason")})
	must(err)
	return joined
}

// bodies returns the stored event bodies by event id.
func (f *fixture) bodies() map[affiliate.EventID]string {
	f.Helper()
	rows, _ := f.SQL.Query(f.Context(), `select id, convert_from(body, 'UTF8') from events`)
	all := map[affiliate.EventID]string{}
	var (
		id   affiliate.EventID
		body string
	)
	if _, err := pgx.ForEachRow(rows, []any{&id, &body}, func() error { all[id] = body; return nil }); err != nil {
		f.Fatal(err)
	}
	return all
}

func (f *fixture) redact(p pgtest.Participant) int {
	f.Helper()
	n, err := postgres.RedactEventsAlone(f.Context(), f.DB, p.Scope, p.ID, pseudonym)
	if err != nil {
		f.Fatal(err)
	}
	return n
}

func TestRedactEvents_RewritesOnlyTheParticipantsEvents(t *testing.T) {
	t.Parallel()
	f := newRedactionFixture(t)
	erased, other := f.partnerWithEvents("anna"), f.partnerWithEvents("bert")
	if n := f.Count(`select count(distinct tableoid) from events where subject_id = $1`, erased.ID); n != 2 {
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
		want, err := privacy.RedactBody([]byte(before[id]), pseudonym)
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
		{Workspace: f.Scope.Workspace, Mode: f.Scope.Mode.Other()},
		{Workspace: affiliate.NewID[affiliate.WorkspaceID](f.Now()), Mode: f.Scope.Mode},
	} {
		if n, err := postgres.RedactEventsAlone(t.Context(), f.DB, scope, participant.ID, pseudonym); n != 0 || err != nil {
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
	err := postgres.RedactEventsThen(t.Context(), f.DB, f.Scope, participant.ID, pseudonym, func() error { return errLater })
	if !errors.Is(err, errLater) {
		t.Errorf("RedactEventsThen returned %v, want %v", err, errLater)
	}
	if !maps.Equal(before, f.bodies()) {
		t.Error("the redaction was not rolled back")
	}
}

// manyEvents stores n more copies of a subject's first event.
func (f *fixture) manyEvents(subject pgtest.Participant, n int) {
	f.Helper()
	f.Exec(`
		insert into events (workspace_id, id, day, mode, type, subject_id, body, created_at)
		select e.workspace_id, overlay(gen_random_uuid()::text placing lpad(to_hex(n), 8, '0') from 1)::uuid, e.day, e.mode, e.type, e.subject_id, e.body, e.created_at
		from (select * from events where subject_id = $1 order by id limit 1) e, generate_series(1, $2) n`, subject.ID, n)
}

func TestRedactEvents_WorksInBatches(t *testing.T) {
	t.Parallel()
	f := newRedactionFixture(t)
	participant := f.partnerWithEvents("anna")
	known := f.Count(`select count(*) from events where subject_id = $1`, participant.ID)
	f.manyEvents(participant, 2*postgres.RedactionBatch+1)
	if n := f.redact(participant); n != known+2*postgres.RedactionBatch+1 {
		t.Errorf("%d bodies were rewritten, want %d", n, known+2*postgres.RedactionBatch+1)
	}
	if n := f.Count(`select count(*) from events where convert_from(body, 'UTF8') like '%anna%'`); n != 0 {
		t.Errorf("%d bodies still contain the name", n)
	}
}

// A transaction that creates an event about a participant locks a row: the row of the
// participant, or the row of a promo code that it deletes. The redaction must wait for
// this lock, so that it also rewrites the new event.
func TestRedactEvents_WaitsForConcurrentEvents(t *testing.T) {
	t.Parallel()
	for name, lock := range map[string]string{
		"lock of the participant":  `select from participants where id = $1 for no key update`,
		"deletion of a promo code": `delete from promo_codes where participant_id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newRedactionFixture(t)
			participant := f.partnerWithEvents("anna")
			f.NewPromoCode(participant, "code")
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
			run(lock, participant.ID)
			done := make(chan error, 1)
			go func() {
				_, err := postgres.RedactEventsAlone(t.Context(), f.DB, f.Scope, participant.ID, pseudonym)
				done <- err
			}()
			f.AwaitLock()
			run(`
				insert into events (workspace_id, id, day, mode, type, subject_id, body, created_at)
				select workspace_id, gen_random_uuid(), day, mode, type, subject_id, body, created_at
				from events where subject_id = $1 limit 1`, participant.ID)
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
	pgtest.Slow(t)
	t.Parallel()
	f := newRedactionFixture(t)
	participant, other := f.partnerWithEvents("anna"), f.partnerWithEvents("bert")
	f.manyEvents(participant, postgres.RedactionBatch)
	f.Exec(`
		insert into events (workspace_id, id, day, mode, type, subject_id, body, created_at)
		select e.workspace_id, gen_random_uuid(), e.day, e.mode, e.type, case when n % 2 = 0 then gen_random_uuid() end, e.body, e.created_at
		from (select distinct on (day) * from events where subject_id = $1) e, generate_series(1, 20000) n`, other.ID)
	f.VacuumAnalyze("events")

	read := f.Plan(postgres.SelectEventsOfSubjectSQL, pgx.NamedArgs{
		"workspace": f.Scope.Workspace, "mode": f.Scope.Mode, "subject": participant.ID, "after": affiliate.EventID{}, "most": postgres.RedactionBatch,
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
		days, bodies = append(days, f.Now()), append(bodies, []byte("{}"))
	}
	write := f.Plan(postgres.RewriteEventsSQL, pgx.NamedArgs{
		"workspace": f.Scope.Workspace, "mode": f.Scope.Mode, "ids": ids, "days": days, "bodies": bodies,
	})
	if strings.Count(write, "_pkey") < 2 || strings.Contains(write, "Seq Scan") {
		t.Errorf("the plan of the write does not use the primary key in both partitions\n%s", write)
	}
}
