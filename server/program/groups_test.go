package program_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/participant"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/program"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// createGroup creates a group with a rate of 12.5 percent.
func (f *fixture) createGroup(programID, name string) *affiliatev1.Group {
	f.Helper()
	g, err := f.service.CreateGroup(f.asOwner(), &affiliatev1.CreateGroupRequest{ProgramId: programID, Name: name, Percentage: new(12.5)})
	if err != nil {
		f.Fatal(err)
	}
	return g
}

// updateGroup advances the clock by one second and updates a group.
func (f *fixture) updateGroup(g *affiliatev1.Group, req *affiliatev1.UpdateGroupRequest, paths ...string) (*affiliatev1.Group, error) {
	f.clock.Advance(time.Second)
	req.ProgramId, req.GroupId, req.UpdateMask = g.ProgramId, g.Id, &fieldmaskpb.FieldMask{Paths: paths}
	if found := f.service.Check(req); len(found) > 0 {
		return nil, found.Err()
	}
	return f.service.UpdateGroup(f.asOwner(), req)
}

func (f *fixture) deleteGroup(g *affiliatev1.Group) error {
	_, err := f.service.DeleteGroup(f.asOwner(), &affiliatev1.DeleteGroupRequest{ProgramId: g.ProgramId, GroupId: g.Id})
	return err
}

func (f *fixture) listGroups(programID string) []*affiliatev1.Group {
	f.Helper()
	list, err := f.service.ListGroups(f.asOwner(), &affiliatev1.ListGroupsRequest{ProgramId: programID})
	if err != nil {
		f.Fatal(err)
	}
	return list.Data
}

// parseID returns the id of a resource in a response.
func parseID[I affiliate.AnyID](f *fixture, text string) I {
	f.Helper()
	id, ok := affiliate.ParseID[I](text)
	if !ok {
		f.Fatalf("%q is not an id", text)
	}
	return id
}

// join creates a participant of the group's programme. changes change the columns.
func (f *fixture) join(g *affiliatev1.Group, changes ...pgtest.Row) pgtest.Participant {
	f.Helper()
	return f.NewParticipant(f.scope, parseID[affiliate.ProgramID](f, g.ProgramId), f.NewPartner("Jane"), changes...)
}

// invite creates an invitation that names the group.
func (f *fixture) invite(g *affiliatev1.Group, expires time.Time) participant.Invite {
	f.Helper()
	id := affiliate.NewID[affiliate.InviteID](f.Now())
	invite := participant.Invite{
		Invite: account.Invite{ID: id, Email: id.String() + "@example.com", InvitedBy: f.owner, CreatedAt: f.Now(), ExpiresAt: expires},
		Scope:  f.scope, Program: parseID[affiliate.ProgramID](f, g.ProgramId), Group: new(parseID[affiliate.GroupID](f, g.Id)),
	}
	_, digests := account.NewInviteTokens()
	err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error {
		_, err := participants.ReplaceInvite(f.Context(), tx, invite, digests)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return invite
}

// begin starts a transaction and executes a statement in it. The function wait returns as
// soon as another statement waits for a lock of this transaction.
func (f *fixture) begin(sql string, args ...any) (tx pgx.Tx, wait func()) {
	f.Helper()
	conn, err := pgx.ConnectConfig(f.Context(), f.SQL.Config().ConnConfig)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = conn.Close(context.Background()) })
	if tx, err = conn.Begin(f.Context()); err != nil {
		f.Fatal(err)
	}
	if _, err := tx.Exec(f.Context(), sql, args...); err != nil {
		f.Fatal(err)
	}
	return tx, func() {
		f.Helper()
		pgtest.Eventually(f, "a statement waits for the transaction", func() bool {
			return f.Count(`select count(*) from pg_stat_activity where $1 = any(pg_blocking_pids(pid))`, conn.PgConn().PID()) > 0
		})
	}
}

func TestListGroups(t *testing.T) {
	f := newFixture(t)
	p, other := f.createNamed("P"), f.createNamed("Other")
	gold, err := f.service.CreateGroup(f.asOwner(), &affiliatev1.CreateGroupRequest{ProgramId: p.Id, Name: "gold", FlatAmountCents: proto.Int64(0)})
	if err != nil {
		t.Fatal(err)
	}
	servertest.WantMessage(t, "CreateGroup", gold, &affiliatev1.Group{
		Id: gold.Id, ProgramId: p.Id, Name: "gold", FlatAmountCents: proto.Int64(0), CreatedAt: gold.CreatedAt, UpdatedAt: gold.CreatedAt,
	})
	want := map[string]*affiliatev1.Group{"gold": gold}
	for _, name := range []string{"Silver", "bronze", "Zinc"} {
		want[name] = f.createGroup(p.Id, name)
	}
	f.createGroup(other.Id, "GOLD")
	for range 3 {
		f.join(gold, pgtest.Row{"group_id": gold.Id})
	}
	gold.Participants = 3
	for _, tc := range []struct {
		page, size int32
		want       []string
	}{
		{1, 20, []string{"bronze", "gold", "Silver", "Zinc"}},
		{2, 2, []string{"Silver", "Zinc"}},
		{3, 2, nil},
	} {
		list, err := f.service.ListGroups(f.asOwner(), &affiliatev1.ListGroupsRequest{ProgramId: p.Id, Page: &tc.page, PageSize: &tc.size})
		if err != nil {
			t.Fatal(err)
		}
		response := &affiliatev1.ListGroupsResponse{Total: 4, Page: tc.page, Limit: tc.size}
		for _, name := range tc.want {
			response.Data = append(response.Data, want[name])
		}
		servertest.WantMessage(t, fmt.Sprintf("ListGroups of page %d", tc.page), list, response)
	}
}

func TestGroupChanges_AreAuditedButPublishNoEvents(t *testing.T) {
	f := newFixture(t)
	g := f.createGroup(f.createNamed("P").Id, "Iron")
	if err := f.deleteGroup(g); err != nil {
		t.Fatal(err)
	}
	f.WantCount(1, "audit records of the creation",
		`select count(*) from audit_log where resource_type = 'group' and resource_id = $1 and mode = 'live' and action = 'group.create' and actor = $2`, g.Id, f.owner.String())
	f.WantCount(1, "audit records of the deletion",
		`select count(*) from audit_log where action = 'group.delete' and before->>'name' = 'Iron' and (before->>'percentage')::numeric = 12.5 and after is null`)
	if types, _ := f.Events(); len(types) != 0 {
		t.Errorf("changes of groups published the events %q, want none", types)
	}
}

// If the audit log entry of a change cannot be stored, the change must be rolled back.
func TestGroups_ChangeAndAuditEntryCommitTogether(t *testing.T) {
	f := newFixture(t)
	g := f.createGroup(f.createNamed("P").Id, "G")
	f.Exec(`revoke insert on audit_log from tributary_app`)
	_, created := f.service.CreateGroup(f.asOwner(), &affiliatev1.CreateGroupRequest{ProgramId: g.ProgramId, Name: "H", Percentage: new(1.0)})
	_, updated := f.updateGroup(g, &affiliatev1.UpdateGroupRequest{Name: "I"}, "name")
	for method, err := range map[string]error{"CreateGroup": created, "UpdateGroup": updated, "DeleteGroup": f.deleteGroup(g)} {
		var refusal *affiliate.Error
		if err == nil || errors.As(err, &refusal) {
			t.Errorf("%s without an audit log returned %v, want an internal error", method, err)
		}
	}
	if groups := f.listGroups(g.ProgramId); len(groups) != 1 || !proto.Equal(groups[0], g) {
		t.Errorf("after the failed changes, the groups are %v, want %v", groups, g)
	}
	f.WantCount(1, "groups with the first version", `select count(*) from groups where version = 1`)
}

func TestGroupNames_AreUniqueIgnoringCase(t *testing.T) {
	f := newFixture(t)
	p := f.createNamed("P")
	errs := make([]error, 20)
	var calls sync.WaitGroup
	for i := range errs {
		calls.Go(func() {
			name := []string{"Gold", "GOLD", "gold"}[i%3]
			_, errs[i] = f.service.CreateGroup(f.asOwner(), &affiliatev1.CreateGroupRequest{ProgramId: p.Id, Name: name, Percentage: new(1.0)})
		})
	}
	calls.Wait()
	created := 0
	for _, err := range errs {
		if err == nil {
			created++
			continue
		}
		pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "name")
	}
	if stored := len(f.listGroups(p.Id)); created != 1 || stored != 1 {
		t.Errorf("20 parallel calls with the same name: %d succeeded and stored %d groups, want 1", created, stored)
	}
	f.WantCount(1, "audit records of the creation", `select count(*) from audit_log where action = 'group.create'`)

	silver := f.createGroup(p.Id, "Silver")
	_, err := f.updateGroup(silver, &affiliatev1.UpdateGroupRequest{Name: "gOLD"}, "name")
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "name")
	if got, err := f.updateGroup(silver, &affiliatev1.UpdateGroupRequest{Name: "SILVER"}, "name"); err != nil || got.Name != "SILVER" {
		t.Errorf("UpdateGroup that changes only the case of the name returned the name %s, error %v, want SILVER", got.GetName(), err)
	}
}

func TestUpdateGroup(t *testing.T) {
	f := newFixture(t)
	p := f.createNamed("P")
	type req = affiliatev1.UpdateGroupRequest
	unchanged := func(*affiliatev1.Group) {}
	toFlat := func(g *affiliatev1.Group) { g.Percentage, g.FlatAmountCents = nil, proto.Int64(7) }
	for _, tc := range []struct {
		name         string
		req          *req
		paths        []string
		change       func(*affiliatev1.Group)
		invalidField string
	}{
		{"nothing", &req{}, nil, unchanged, ""},
		{"name", &req{Name: "New"}, []string{"name"}, func(g *affiliatev1.Group) { g.Name = "New" }, ""},
		{"field outside the mask", &req{Name: "Newer", Percentage: new(1.0)}, []string{"percentage"}, func(g *affiliatev1.Group) { g.Percentage = new(1.0) }, ""},
		{"same rate", &req{Percentage: new(12.5)}, []string{"percentage"}, unchanged, ""},
		{"flat amount", &req{FlatAmountCents: proto.Int64(7)}, []string{"flat_amount_cents"}, toFlat, ""},
		{"flat amount, percentage cleared", &req{FlatAmountCents: proto.Int64(7)}, []string{"flat_amount_cents", "percentage"}, toFlat, ""},
		{"absent rate cleared", &req{}, []string{"flat_amount_cents"}, unchanged, ""},
		{"only rate cleared", &req{}, []string{"percentage"}, nil, "percentage"},
		{"two rates", &req{Percentage: new(1.0), FlatAmountCents: proto.Int64(7)}, []string{"flat_amount_cents", "percentage"}, nil, "flat_amount_cents"},
		{"three decimals", &req{Percentage: new(1.005)}, []string{"percentage"}, nil, "percentage"},
		{"name cleared", &req{}, []string{"name"}, nil, "name"},
		{"unknown path", &req{}, []string{"participants"}, nil, "update_mask"},
		{"path of the id", &req{}, []string{"group_id"}, nil, "update_mask"},
		{"no mask", &req{Name: "New"}, nil, nil, "update_mask"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := f.createGroup(p.Id, tc.name)
			want, versions := proto.CloneOf(g), 1
			got, err := f.updateGroup(g, tc.req, tc.paths...)
			if tc.invalidField != "" {
				pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.invalidField)
			} else {
				if err != nil {
					t.Fatal(err)
				}
				if tc.change(want); !proto.Equal(want, g) {
					versions = 2
					want.UpdatedAt = got.UpdatedAt
					if !got.UpdatedAt.AsTime().Equal(f.Now().Truncate(time.Millisecond)) {
						t.Errorf("UpdateGroup returned updated_at = %v, want the current time", got.UpdatedAt.AsTime())
					}
				}
				servertest.WantMessage(t, "UpdateGroup", got, want)
			}
			listed := f.listGroups(p.Id)
			if !slices.ContainsFunc(listed, func(l *affiliatev1.Group) bool { return proto.Equal(l, want) }) {
				t.Errorf("ListGroups returned %v\nwant it to contain %v", listed, want)
			}
			f.WantCount(versions, "version", `select version from groups where id = $1`, g.Id)
			f.WantCount(versions-1, "audit records", `select count(*) from audit_log where resource_id = $1 and action = 'group.update'`, g.Id)
		})
	}
}

func TestCheck_CreateGroup(t *testing.T) {
	service := program.New(nil, nil)
	for _, tc := range []struct {
		req  *affiliatev1.CreateGroupRequest
		want string
	}{
		{&affiliatev1.CreateGroupRequest{Percentage: new(0.0)}, ""},
		{&affiliatev1.CreateGroupRequest{FlatAmountCents: proto.Int64(0)}, ""},
		{&affiliatev1.CreateGroupRequest{}, "percentage"},
		{&affiliatev1.CreateGroupRequest{Percentage: new(1.0), FlatAmountCents: proto.Int64(1)}, "flat_amount_cents"},
		{&affiliatev1.CreateGroupRequest{Percentage: new(0.001)}, "percentage"},
	} {
		if got := strings.Join(fields(service.Check(tc.req)), " "); got != tc.want {
			t.Errorf("Check of %v found violations of %q, want %q", tc.req, got, tc.want)
		}
	}
}

func TestGroups_OfArchivedProgramAreReadOnly(t *testing.T) {
	f := newFixture(t)
	p := f.createNamed("P")
	g := f.createGroup(p.Id, "G")
	f.mustMove("archive", p.Id)
	_, err := f.service.CreateGroup(f.asOwner(), &affiliatev1.CreateGroupRequest{ProgramId: p.Id, Name: "H", Percentage: new(1.0)})
	if metadata := pgtest.RequireRefusal(t, err, affiliate.ReasonProgramStateInvalid); metadata["status"] != "archived" {
		t.Errorf("the error has the metadata %v, want status = archived", metadata)
	}
	_, err = f.updateGroup(g, &affiliatev1.UpdateGroupRequest{Name: "H"}, "name")
	pgtest.RequireRefusal(t, err, affiliate.ReasonProgramStateInvalid)
	if got := f.listGroups(p.Id); len(got) != 1 || !proto.Equal(got[0], g) {
		t.Errorf("ListGroups returned %v, want only %v", got, g)
	}
	if got := f.listRules(p.Id, 1, 20); len(got.Data) != 1 {
		t.Errorf("ListProgramRules returned %v, want one version", got)
	}
}

// While a transaction archives the programme, CreateGroup waits. After the commit,
// CreateGroup is refused.
func TestCreateGroup_WaitsForTheArchivingOfTheProgram(t *testing.T) {
	f := newFixture(t)
	p := f.createNamed("P")
	tx, wait := f.begin(`update programs set status = 'archived' where id = $1`, p.Id)
	createErr := make(chan error, 1)
	go func() {
		_, err := f.service.CreateGroup(f.asOwner(), &affiliatev1.CreateGroupRequest{ProgramId: p.Id, Name: "G", Percentage: new(1.0)})
		createErr <- err
	}()
	wait()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	pgtest.RequireRefusal(t, <-createErr, affiliate.ReasonProgramStateInvalid)
}

func TestDeleteGroup_InUseIsRefused(t *testing.T) {
	f := newFixture(t)
	p := f.createNamed("P")
	withOpenInvite, withExpiredInvite, withRevokedInvite := f.createGroup(p.Id, "Open"), f.createGroup(p.Id, "Expired"), f.createGroup(p.Id, "Revoked")
	withParticipants := f.createGroup(p.Id, "Participants")
	for range 2 {
		f.join(withParticipants, pgtest.Row{"group_id": withParticipants.Id})
	}
	f.invite(withOpenInvite, f.Now().Add(time.Millisecond))
	f.invite(withExpiredInvite, f.Now().Truncate(time.Millisecond))
	revoked := f.invite(withRevokedInvite, f.Now().Add(time.Hour))
	revoked.EndedAt = new(f.Now())
	if err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) error { return participants.UpdateInvite(t.Context(), tx, revoked) }); err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct {
		group            *affiliatev1.Group
		wantParticipants string
	}{{withParticipants, "2"}, {withOpenInvite, "0"}} {
		metadata := pgtest.RequireRefusal(t, f.deleteGroup(tc.group), affiliate.ReasonGroupInUse)
		if metadata["participants"] != tc.wantParticipants {
			t.Errorf("the error for the group %s has the metadata %v, want participants = %s", tc.group.Name, metadata, tc.wantParticipants)
		}
	}
	for _, g := range []*affiliatev1.Group{withExpiredInvite, withRevokedInvite} {
		if err := f.deleteGroup(g); err != nil {
			t.Errorf("DeleteGroup of the group %s: %v", g.Name, err)
		}
		pgtest.RequireRefusal(t, f.deleteGroup(g), affiliate.ReasonNotFound)
	}
	if got := len(f.listGroups(p.Id)); got != 2 {
		t.Errorf("ListGroups returned %d groups, want the 2 groups in use", got)
	}
	f.WantCount(2, "invitations without a group", `select count(*) from participant_invites where group_id is null`)
	f.WantCount(2, "audit records of deletions", `select count(*) from audit_log where action = 'group.delete'`)
}

// While a transaction adds a participant to the group, DeleteGroup waits. If the
// transaction commits, DeleteGroup is refused. If it rolls back, DeleteGroup succeeds.
func TestDeleteGroup_WaitsForAJoiningParticipant(t *testing.T) {
	f := newFixture(t)
	p := f.createNamed("P")
	for _, tc := range []struct {
		name string
		end  func(pgx.Tx) error
		want error
	}{
		{"committed", func(tx pgx.Tx) error { return tx.Commit(t.Context()) }, affiliate.Refuse(affiliate.ReasonGroupInUse)},
		{"rolled back", func(tx pgx.Tx) error { return tx.Rollback(t.Context()) }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := f.createGroup(p.Id, tc.name)
			tx, wait := f.begin(`update participants set group_id = $1 where id = $2`, g.Id, f.join(g).ID)
			deleteErr := make(chan error, 1)
			go func() { deleteErr <- f.deleteGroup(g) }()
			wait()
			if err := tc.end(tx); err != nil {
				t.Fatal(err)
			}
			if err := <-deleteErr; !errors.Is(err, tc.want) {
				t.Errorf("DeleteGroup returned the error %v, want %v", err, tc.want)
			}
		})
	}
}

func TestGroups_OfOtherScopesAreNotFound(t *testing.T) {
	f := newFixture(t)
	p, other := f.createNamed("P"), f.createNamed("Other")
	g := f.createGroup(p.Id, "G")
	for name, tc := range map[string]struct {
		caller           context.Context
		program, group   string
		programIsVisible bool // to the caller
	}{
		"the other mode":             {f.inOtherMode(), p.Id, g.Id, false},
		"another workspace":          {f.inOtherWorkspace(), p.Id, g.Id, false},
		"another programme":          {f.asOwner(), other.Id, g.Id, true},
		"unknown id":                 {f.asOwner(), p.Id, affiliate.NewID[affiliate.GroupID](f.Now()).String(), true},
		"not a UUID":                 {f.asOwner(), p.Id, "42", true},
		"programme id is not a UUID": {f.asOwner(), "42", g.Id, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.UpdateGroup(tc.caller, &affiliatev1.UpdateGroupRequest{
				ProgramId: tc.program, GroupId: tc.group, Name: "H", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}},
			})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.DeleteGroup(tc.caller, &affiliatev1.DeleteGroupRequest{ProgramId: tc.program, GroupId: tc.group})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			if tc.programIsVisible {
				return
			}
			_, err = f.service.CreateGroup(tc.caller, &affiliatev1.CreateGroupRequest{ProgramId: tc.program, Name: "H", Percentage: new(1.0)})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.ListGroups(tc.caller, &affiliatev1.ListGroupsRequest{ProgramId: tc.program})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	if got := f.listGroups(p.Id); len(got) != 1 || !proto.Equal(got[0], g) {
		t.Errorf("after refused calls ListGroups returned %v, want only %v", got, g)
	}
}
