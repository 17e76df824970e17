package program_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/program"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) createGroup(programID, name string) *affiliatev1.Group {
	f.Helper()
	g, err := f.service.CreateGroup(f.liveContext(), &affiliatev1.CreateGroupRequest{ProgramId: programID, Name: name, Percentage: proto.Float64(12.5)})
	if err != nil {
		f.Fatal(err)
	}
	return g
}

func (f *fixture) updateGroup(g *affiliatev1.Group, req *affiliatev1.UpdateGroupRequest, paths ...string) (*affiliatev1.Group, error) {
	f.clock.Advance(time.Second)
	req.ProgramId, req.GroupId, req.UpdateMask = g.ProgramId, g.Id, &fieldmaskpb.FieldMask{Paths: paths}
	if wrong := f.service.Check(req); len(wrong) > 0 {
		return nil, wrong.Err()
	}
	return f.service.UpdateGroup(f.liveContext(), req)
}

func (f *fixture) deleteGroup(g *affiliatev1.Group) error {
	_, err := f.service.DeleteGroup(f.liveContext(), &affiliatev1.DeleteGroupRequest{ProgramId: g.ProgramId, GroupId: g.Id})
	return err
}

// executor executes SQL on a connection or in a transaction.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// join creates a new partner as a participant in the group.
func (f *fixture) join(db executor, g *affiliatev1.Group) error {
	const join = `
		with partner as (
			insert into users (id, kind, email, password_hash, name, created_at)
			values (gen_random_uuid(), 'partner', gen_random_uuid()::text, '', 'Jane', $4)
			returning id, name, email
		)
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, group_id, status, referral_code,
			application_answers, applied_at, created_at, updated_at)
		select $1, gen_random_uuid(), $2, 'live', id, name, email, $3, 'approved', id::text, '{}', $4, $4, $4 from partner`
	_, err := db.Exec(f.Context(), join, f.scope.Workspace, g.ProgramId, g.Id, f.Now())
	return err
}

// invite creates an invitation that names the group.
func (f *fixture) invite(g *affiliatev1.Group, expires time.Time, ended *time.Time) {
	f.Helper()
	f.Exec(`
		insert into participant_invites (workspace_id, id, program_id, mode, email, group_id, digest, invited_by, created_at, expires_at, ended_at)
		values ($1, gen_random_uuid(), $2, 'live', 'a@b.example', $3, sha256(gen_random_uuid()::text::bytea), $4, $5, $6, $7)`,
		f.scope.Workspace, g.ProgramId, g.Id, f.owner, f.Now(), expires, ended)
}

func (f *fixture) connect() *pgx.Conn {
	f.Helper()
	conn, err := pgx.ConnectConfig(f.Context(), f.SQL.Config().ConnConfig)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// waitUntilBlocked waits until a statement waits for a lock of conn.
func (f *fixture) waitUntilBlocked(conn *pgx.Conn) {
	f.Helper()
	pid := conn.PgConn().PID()
	for f.Count(`select count(*) from pg_stat_activity where $1 = any(pg_blocking_pids(pid))`, pid) == 0 {
		if err := f.Context().Err(); err != nil {
			f.Fatal(err)
		}
	}
}

func TestListGroups(t *testing.T) {
	f := newFixture(t)
	p, other := f.create(&affiliatev1.CreateProgramRequest{Name: "P"}), f.create(&affiliatev1.CreateProgramRequest{Name: "Other"})
	gold, err := f.service.CreateGroup(f.liveContext(), &affiliatev1.CreateGroupRequest{ProgramId: p.Id, Name: "gold", FlatAmountCents: proto.Int64(0)})
	if err != nil || gold.Percentage != nil || gold.FlatAmountCents == nil || gold.Participants != 0 || gold.ProgramId != p.Id {
		t.Fatalf("%v, %v", gold, err)
	}
	for _, name := range []string{"Silver", "bronze", "Zinc"} {
		f.createGroup(p.Id, name)
	}
	f.createGroup(other.Id, "GOLD")
	for range 3 {
		if err := f.join(f.SQL, gold); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		page, size int32
		want       []string
	}{
		{1, 20, []string{"bronze", "gold", "Silver", "Zinc"}}, {2, 2, []string{"Silver", "Zinc"}}, {3, 2, nil},
	} {
		list, err := f.service.ListGroups(f.liveContext(), &affiliatev1.ListGroupsRequest{ProgramId: p.Id, Page: &tc.page, PageSize: &tc.size})
		if err != nil || list.Total != 4 || list.Page != tc.page || list.Limit != tc.size {
			t.Fatalf("%v, %v", list, err)
		}
		var names []string
		for _, g := range list.Data {
			names = append(names, g.Name)
			if (g.Participants == 3) != (g.Name == "gold") || g.GetPercentage() != 12.5 && g.Name != "gold" {
				t.Errorf("%v", g)
			}
		}
		if !slices.Equal(names, tc.want) {
			t.Errorf("page %d: %v", tc.page, names)
		}
	}
	if err := f.deleteGroup(f.createGroup(p.Id, "Iron")); err != nil {
		t.Error(err)
	}
	if n := f.Count(`select count(*) from audit_log where resource_type = 'group' and mode = 'live' and action = 'group.create' and actor = $1`, f.owner.String()); n != 6 {
		t.Errorf("%d audit records of creations", n)
	}
	if n := f.Count(`select count(*) from audit_log where action = 'group.delete' and before->>'name' = 'Iron' and (before->>'percentage')::numeric = 12.5 and after is null`); n != 1 {
		t.Errorf("%d audit records of the deletion", n)
	}
	if n := f.Count(`select count(*) from events`); n != 0 {
		t.Errorf("%d events, but groups have no event types", n)
	}
}

func TestGroupNames_AreUniqueIgnoringCase(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P"})
	errs := make([]error, 20)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			name := []string{"Gold", "GOLD", "gold"}[i%3]
			_, errs[i] = f.service.CreateGroup(f.liveContext(), &affiliatev1.CreateGroupRequest{ProgramId: p.Id, Name: name, Percentage: proto.Float64(1)})
		})
	}
	wg.Wait()
	created := 0
	for _, err := range errs {
		if err == nil {
			created++
			continue
		}
		pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "name")
	}
	if created != 1 || f.Count(`select count(*) from groups`) != 1 || f.Count(`select count(*) from audit_log where action = 'group.create'`) != 1 {
		t.Errorf("%d of 20 groups with the same name were created", created)
	}
	silver := f.createGroup(p.Id, "Silver")
	_, err := f.updateGroup(silver, &affiliatev1.UpdateGroupRequest{Name: "gOLD"}, "name")
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "name")
	if renamed, err := f.updateGroup(silver, &affiliatev1.UpdateGroupRequest{Name: "SILVER"}, "name"); err != nil || renamed.Name != "SILVER" {
		t.Errorf("%v, %v", renamed, err)
	}
}

func TestUpdateGroup(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P"})
	type req = affiliatev1.UpdateGroupRequest
	for i, tc := range []struct {
		name    string
		req     *req
		paths   []string
		change  func(*affiliatev1.Group)
		invalid string
	}{
		{"nothing", &req{}, nil, func(*affiliatev1.Group) {}, ""},
		{"name", &req{Name: "New"}, []string{"name"}, func(g *affiliatev1.Group) { g.Name = "New" }, ""},
		{"outside the mask", &req{Name: "Newer", Percentage: proto.Float64(1)}, []string{"percentage"}, func(g *affiliatev1.Group) { g.Percentage = proto.Float64(1) }, ""},
		{"the same rate", &req{Percentage: proto.Float64(12.5)}, []string{"percentage"}, func(*affiliatev1.Group) {}, ""},
		{"to flat", &req{FlatAmountCents: proto.Int64(7)}, []string{"flat_amount_cents"}, func(g *affiliatev1.Group) { g.Percentage, g.FlatAmountCents = nil, proto.Int64(7) }, ""},
		{"to flat, percentage cleared", &req{FlatAmountCents: proto.Int64(7)}, []string{"flat_amount_cents", "percentage"}, func(g *affiliatev1.Group) { g.Percentage, g.FlatAmountCents = nil, proto.Int64(7) }, ""},
		{"absent rate cleared", &req{}, []string{"flat_amount_cents"}, func(*affiliatev1.Group) {}, ""},
		{"only rate cleared", &req{}, []string{"percentage"}, nil, "percentage"},
		{"both", &req{Percentage: proto.Float64(1), FlatAmountCents: proto.Int64(7)}, []string{"flat_amount_cents", "percentage"}, nil, "flat_amount_cents"},
		{"three decimals", &req{Percentage: proto.Float64(1.005)}, []string{"percentage"}, nil, "percentage"},
		{"a cleared name", &req{}, []string{"name"}, nil, "name"},
		{"unknown path", &req{}, []string{"participants"}, nil, "update_mask"},
		{"the id", &req{}, []string{"group_id"}, nil, "update_mask"},
		{"no mask", &req{Name: "New"}, nil, nil, "update_mask"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.Exec(`delete from groups`)
			before := f.createGroup(p.Id, "G")
			got, err := f.updateGroup(before, tc.req, tc.paths...)
			records := f.Count(`select count(*) from audit_log where resource_id = $1 and action = 'group.update'`, before.Id)
			if tc.invalid != "" {
				if pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.invalid); records != 0 {
					t.Errorf("%d: a refused update has an audit record", i)
				}
				return
			}
			want := proto.CloneOf(before)
			tc.change(want)
			changes := 0
			if !proto.Equal(want, before) {
				changes = 1
			}
			if err != nil || got.UpdatedAt.AsTime().After(before.UpdatedAt.AsTime()) != (changes == 1) || records != changes {
				t.Fatalf("%v, %v, %d audit records", got, err, records)
			}
			want.UpdatedAt = got.UpdatedAt
			list, err := f.service.ListGroups(f.liveContext(), &affiliatev1.ListGroupsRequest{ProgramId: p.Id})
			if err != nil || !proto.Equal(got, want) || !proto.Equal(list.Data[0], want) {
				t.Errorf("got %v, listed %v, %v\nwant %v", got, list, err, want)
			}
			if n := f.Count(`select version from groups where id = $1`, before.Id); n != 1+changes {
				t.Errorf("version %d", n)
			}
		})
	}
}

func TestCheck_CreateGroup(t *testing.T) {
	service := program.New(nil, nil)
	for _, tc := range []struct {
		req  *affiliatev1.CreateGroupRequest
		want string
	}{
		{&affiliatev1.CreateGroupRequest{Percentage: proto.Float64(0)}, ""},
		{&affiliatev1.CreateGroupRequest{FlatAmountCents: proto.Int64(0)}, ""},
		{&affiliatev1.CreateGroupRequest{}, "percentage"},
		{&affiliatev1.CreateGroupRequest{Percentage: proto.Float64(1), FlatAmountCents: proto.Int64(1)}, "flat_amount_cents"},
		{&affiliatev1.CreateGroupRequest{Percentage: proto.Float64(0.001)}, "percentage"},
	} {
		var fields []string
		for _, v := range service.Check(tc.req) {
			fields = append(fields, v.Field)
		}
		if strings.Join(fields, " ") != tc.want {
			t.Errorf("%v: %v, want %s", tc.req, fields, tc.want)
		}
	}
}

func TestGroups_OfArchivedProgramAreReadOnly(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P"})
	g := f.createGroup(p.Id, "G")
	if _, err := f.move(f.liveContext(), "archive", p.Id); err != nil {
		t.Fatal(err)
	}
	_, err := f.service.CreateGroup(f.liveContext(), &affiliatev1.CreateGroupRequest{ProgramId: p.Id, Name: "H", Percentage: proto.Float64(1)})
	if metadata := pgtest.RequireRefusal(t, err, affiliate.ReasonProgramStateInvalid); metadata["status"] != "archived" {
		t.Errorf("metadata %v", metadata)
	}
	_, err = f.updateGroup(g, &affiliatev1.UpdateGroupRequest{Name: "H"}, "name")
	pgtest.RequireRefusal(t, err, affiliate.ReasonProgramStateInvalid)
	list, err := f.service.ListGroups(f.liveContext(), &affiliatev1.ListGroupsRequest{ProgramId: p.Id})
	if err != nil || len(list.Data) != 1 || list.Data[0].Name != "G" {
		t.Errorf("%v, %v", list, err)
	}
	if rules, err := f.service.ListProgramRules(f.liveContext(), &affiliatev1.ListProgramRulesRequest{ProgramId: p.Id}); err != nil || len(rules.Data) != 1 {
		t.Errorf("%v, %v", rules, err)
	}
}

// While a transaction archives the programme, CreateGroup waits. After the commit it is
// refused.
func TestCreateGroup_WaitsForTheArchivingOfTheProgram(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P"})
	archiver := f.connect()
	tx, err := archiver.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `update programs set status = 'archived' where id = $1`, p.Id); err != nil {
		t.Fatal(err)
	}
	created := make(chan error)
	go func() {
		_, err := f.service.CreateGroup(f.liveContext(), &affiliatev1.CreateGroupRequest{ProgramId: p.Id, Name: "G", Percentage: proto.Float64(1)})
		created <- err
	}()
	f.waitUntilBlocked(archiver)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	pgtest.RequireRefusal(t, <-created, affiliate.ReasonProgramStateInvalid)
}

func TestDeleteGroup_InUseIsRefused(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P"})
	g := f.createGroup(p.Id, "G")
	expectInUse := func(participants string) {
		t.Helper()
		if metadata := pgtest.RequireRefusal(t, f.deleteGroup(g), affiliate.ReasonGroupInUse); metadata["participants"] != participants {
			t.Errorf("metadata %v", metadata)
		}
	}
	for range 2 {
		if err := f.join(f.SQL, g); err != nil {
			t.Fatal(err)
		}
	}
	expectInUse("2")
	f.Exec(`update participants set group_id = null`)
	f.invite(g, f.Now().Add(time.Millisecond), nil)
	expectInUse("0")
	// An expired invitation and an accepted invitation do not prevent the deletion.
	f.Exec(`delete from participant_invites`)
	f.invite(g, f.Now().Truncate(time.Millisecond), nil)
	f.invite(g, f.Now().Add(time.Hour), new(f.Now()))
	if err := f.deleteGroup(g); err != nil {
		t.Fatal(err)
	}
	if f.Count(`select count(*) from groups`) != 0 || f.Count(`select count(*) from participant_invites where group_id is null`) != 2 {
		t.Error("the group was not deleted, or its invitations still name it")
	}
	pgtest.RequireRefusal(t, f.deleteGroup(g), affiliate.ReasonNotFound)
	if n := f.Count(`select count(*) from audit_log where action = 'group.delete'`); n != 1 {
		t.Errorf("%d audit records of the deletion", n)
	}
}

// While a transaction adds a participant to the group, DeleteGroup waits. It is refused
// if that transaction commits and succeeds if it rolls back.
func TestDeleteGroup_WaitsForAJoiningParticipant(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P"})
	for _, tc := range []struct {
		name   string
		finish func(pgx.Tx) error
		want   affiliate.Reason
	}{
		{"committed", func(tx pgx.Tx) error { return tx.Commit(t.Context()) }, affiliate.ReasonGroupInUse},
		{"rolled back", func(tx pgx.Tx) error { return tx.Rollback(t.Context()) }, ""},
	} {
		g := f.createGroup(p.Id, tc.name)
		joiner := f.connect()
		tx, err := joiner.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := f.join(tx, g); err != nil {
			t.Fatal(err)
		}
		deleted := make(chan error)
		go func() { deleted <- f.deleteGroup(g) }()
		f.waitUntilBlocked(joiner)
		if err := tc.finish(tx); err != nil {
			t.Fatal(err)
		}
		if err := <-deleted; tc.want == "" && err != nil || tc.want != "" && !errors.Is(err, affiliate.Refuse(tc.want)) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// A participant joins a group while the group is deleted. Exactly one of the two
// succeeds.
func TestDeleteGroup_InParallelWithAJoiningParticipant(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P"})
	for range 20 {
		g := f.createGroup(p.Id, "G")
		joiner := f.connect()
		var joined, deleted error
		var wg sync.WaitGroup
		wg.Go(func() { joined = f.join(joiner, g) })
		wg.Go(func() { deleted = f.deleteGroup(g) })
		wg.Wait()
		var pgErr *pgconn.PgError
		switch {
		case joined == nil && errors.Is(deleted, affiliate.Refuse(affiliate.ReasonGroupInUse)):
		case deleted == nil && errors.As(joined, &pgErr) && pgErr.Code == "23503":
		default:
			t.Fatalf("joined: %v, deleted: %v", joined, deleted)
		}
		f.Exec(`delete from participants`)
		f.Exec(`delete from groups`)
	}
}

func TestGroups_OfOtherScopesAreNotFound(t *testing.T) {
	f := newFixture(t)
	p, other := f.create(&affiliatev1.CreateProgramRequest{Name: "P"}), f.create(&affiliatev1.CreateProgramRequest{Name: "Other"})
	g := f.createGroup(p.Id, "G")
	unknown := affiliate.NewID[affiliate.Group](f.Now()).String()
	for name, tc := range map[string]struct {
		ctx            context.Context
		program, group string
		programExists  bool // the caller can access the programme
	}{
		"another mode":               {f.asMerchant(f.scope.Workspace, affiliate.ModeTest), p.Id, g.Id, false},
		"another workspace":          {f.asMerchant(f.NewWorkspace(), affiliate.ModeLive), p.Id, g.Id, false},
		"another programme":          {f.liveContext(), other.Id, g.Id, true},
		"unknown":                    {f.liveContext(), p.Id, unknown, true},
		"not a UUID":                 {f.liveContext(), p.Id, "42", true},
		"programme id is not a UUID": {f.liveContext(), "42", g.Id, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.UpdateGroup(tc.ctx, &affiliatev1.UpdateGroupRequest{
				ProgramId: tc.program, GroupId: tc.group, Name: "H", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}},
			})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.DeleteGroup(tc.ctx, &affiliatev1.DeleteGroupRequest{ProgramId: tc.program, GroupId: tc.group})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			if tc.programExists {
				return
			}
			_, err = f.service.CreateGroup(tc.ctx, &affiliatev1.CreateGroupRequest{ProgramId: tc.program, Name: "H", Percentage: proto.Float64(1)})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.ListGroups(tc.ctx, &affiliatev1.ListGroupsRequest{ProgramId: tc.program})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	if f.Count(`select count(*) from groups where name = 'G'`) != 1 {
		t.Error("a caller of another scope changed the group")
	}
}
