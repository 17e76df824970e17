package participant_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) update(id string, req *affiliatev1.UpdateParticipantRequest, paths ...string) (*affiliatev1.Participant, error) {
	f.Helper()
	return f.updateAs(f.asMerchant(affiliate.RoleManager), f.Program.String(), id, req, paths...)
}

func (f *fixture) updateAs(ctx context.Context, program, id string, req *affiliatev1.UpdateParticipantRequest, paths ...string) (*affiliatev1.Participant, error) {
	f.Helper()
	req.ProgramId, req.ParticipantId, req.UpdateMask = program, id, &fieldmaskpb.FieldMask{Paths: paths}
	if wrong := f.service.Check(req); len(wrong) > 0 {
		return nil, wrong.Err()
	}
	return f.service.UpdateParticipant(ctx, req)
}

// rowText returns the participant's row as text.
func (f *fixture) rowText(id string) (text string) {
	f.Helper()
	if err := f.SQL.QueryRow(f.Context(), `select t::text from participants t where id = $1`, id).Scan(&text); err != nil {
		f.Fatal(err)
	}
	return text
}

func rate(percentage float64) *affiliatev1.CommissionRate {
	return &affiliatev1.CommissionRate{Percentage: &percentage}
}

type update = affiliatev1.UpdateParticipantRequest

func TestUpdateParticipant(t *testing.T) {
	f := newFixture(t)
	id := f.mustApply("Jane").Id
	group := f.newGroup(f.Program).String()
	full := &update{
		Note: proto.String("calls back"), Tags: []string{" vip ", "blog", "vip"}, GroupId: &group,
		CommissionOverride: rate(12.5), ReferralCode: "Summer",
	}
	p, err := f.update(id, proto.Clone(full).(*update), "note")
	if err != nil || p.GetNote() != "calls back" || len(p.Tags) != 0 || p.GroupId != nil || p.CommissionOverride != nil || p.ReferralCode != "jane" {
		t.Fatalf("only the note: %v, %v", p, err)
	}
	f.clock.Advance(time.Second)
	p, err = f.update(id, proto.Clone(full).(*update), "tags", "group_id", "commission_override.percentage", "referral_code")
	if err != nil || p.GetNote() != "calls back" || !slices.Equal(p.Tags, []string{"vip", "blog"}) || p.GetGroupId() != group ||
		p.CommissionOverride.GetPercentage() != 12.5 || p.CommissionOverride.FlatAmountCents != nil || p.ReferralCode != "summer" ||
		!p.UpdatedAt.AsTime().Equal(f.Now().Truncate(time.Millisecond)) {
		t.Fatalf("the rest: %v, %v", p, err)
	}
	if !proto.Equal(f.get(id), p) {
		t.Errorf("read %v\nnot %v", f.get(id), p)
	}
	// The override is replaced as a whole, even if the mask names only one of its fields.
	if p, err = f.update(id, &update{CommissionOverride: &affiliatev1.CommissionRate{FlatAmountCents: proto.Int64(500)}}, "commission_override.flat_amount_cents"); err != nil ||
		p.CommissionOverride.GetFlatAmountCents() != 500 || p.CommissionOverride.Percentage != nil {
		t.Fatalf("a flat override: %v, %v", p, err)
	}
	if n := f.Count(`select version from participants where id = $1`, id); n != 4 {
		t.Errorf("version %d", n)
	}

	// The same update again stores nothing.
	records, jobs := f.Count(`select count(*) from audit_log`), f.Count(`select count(*) from river.river_job`)
	before := f.rowText(id)
	f.clock.Advance(time.Second)
	if _, err := f.update(id, &update{Note: proto.String("calls back"), Tags: []string{"vip", "blog"}, ReferralCode: "SUMMER"}, "note", "tags", "referral_code"); err != nil {
		t.Fatal(err)
	}
	if f.rowText(id) != before || f.Count(`select count(*) from audit_log`) != records || f.Count(`select count(*) from river.river_job`) != jobs {
		t.Error("an update that changes nothing stored something")
	}

	p, err = f.update(id, &update{}, "note", "tags", "group_id", "commission_override")
	if err != nil || p.Note != nil || len(p.Tags) != 0 || p.GroupId != nil || p.CommissionOverride != nil || p.ReferralCode != "summer" {
		t.Fatalf("cleared: %v, %v", p, err)
	}
	var previous, updated string
	err = f.SQL.QueryRow(t.Context(), `
		select before::text, after::text from audit_log
		where action = 'participant.update' and resource_id = $1 and actor = $2 order by at desc, id desc limit 1`, id, f.Owner.String()).Scan(&previous, &updated)
	if err != nil || previous != `{"note": "(changed)", "tags": ["vip", "blog"], "group_id": "`+group+`", "commission_override": {"flat_amount_cents": 500}}` ||
		updated != `{"note": null, "tags": [], "group_id": null, "commission_override": null}` {
		t.Errorf("audit log: %s → %s, %v", previous, updated, err)
	}
	if got := f.eventTypes(); !slices.Equal(got, []string{"link.created", "link.updated", "participant.applied"}) {
		t.Errorf("events %v", got)
	}
}

func TestUpdateParticipant_RejectsInvalidRequests(t *testing.T) {
	f := newFixture(t)
	id := f.mustApply("Jane").Id
	other := f.NewProgram(f.Scope)
	foreign, unknown := f.newGroup(other).String(), affiliate.NewID[affiliate.Group](f.Now()).String()
	both := rate(1)
	both.FlatAmountCents = proto.Int64(1)
	before := f.rowText(id)
	for name, tc := range map[string]struct {
		req   *update
		paths []string
		field string
	}{
		"unknown path":              {&update{}, []string{"status"}, "update_mask"},
		"no mask":                   {&update{Note: proto.String("x")}, nil, "update_mask"},
		"an empty tag":              {&update{Tags: []string{"a", " "}}, []string{"tags"}, "tags[1]"},
		"another programme's group": {&update{GroupId: &foreign}, []string{"group_id"}, "group_id"},
		"an unknown group":          {&update{GroupId: &unknown}, []string{"group_id"}, "group_id"},
		"two rates":                 {&update{CommissionOverride: both}, []string{"commission_override.percentage", "commission_override.flat_amount_cents"}, "commission_override.flat_amount_cents"},
		"no rate":                   {&update{CommissionOverride: &affiliatev1.CommissionRate{}}, []string{"commission_override"}, "commission_override.percentage"},
		"path of an absent rate":    {&update{}, []string{"commission_override.percentage"}, "commission_override.percentage"},
		"three decimals":            {&update{CommissionOverride: rate(1.234)}, []string{"commission_override.percentage"}, "commission_override.percentage"},
		"no code":                   {&update{}, []string{"referral_code"}, "referral_code"},
		"a reserved code":           {&update{ReferralCode: "Google"}, []string{"referral_code"}, "referral_code"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.update(id, tc.req, tc.paths...)
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.field)
		})
	}
	if f.rowText(id) != before {
		t.Error("a refused update changed the participant")
	}
}

func TestUpdateParticipant_ReplacedReferralCodeStaysReserved(t *testing.T) {
	f := newFixture(t)
	jane, john := f.mustApply("Jane"), f.mustApply("John")
	setCode := func(id, code string) (*affiliatev1.Participant, error) {
		f.clock.Advance(time.Second)
		return f.update(id, &update{ReferralCode: code}, "referral_code")
	}
	if p, err := setCode(jane.Id, "Summer"); err != nil || p.ReferralCode != "summer" {
		t.Fatalf("%v, %v", p, err)
	}
	// Both codes lead to the default link. The link itself shows the new code.
	if f.Count(`
		select count(*) from referral_codes r join links l on l.id = r.link_id
		where r.participant_id = $1 and l.is_default and l.participant_id = $1 and l.code = 'summer' and l.version = 2 and r.code in ('jane', 'summer')`, jane.Id) != 2 {
		t.Error("the codes do not lead to the default link")
	}
	if n := f.Count(`select count(*) from river.river_job where kind = 'sync_directory' and args->>'participant' = $1`, jane.Id); n != 2 {
		t.Errorf("%d jobs for the edge directory", n)
	}
	var old, current, link string
	err := f.SQL.QueryRow(t.Context(), `
		select convert_from(body, 'UTF8')::jsonb #>> '{data,previous_attributes,code}', convert_from(body, 'UTF8')::jsonb #>> '{data,object,code}',
			convert_from(body, 'UTF8')::jsonb #>> '{data,object,id}'
		from events where type = 'link.updated'`).Scan(&old, &current, &link)
	if err != nil || old != "jane" || current != "summer" || f.Count(`select count(*) from links where id = $1 and participant_id = $2`, link, jane.Id) != 1 {
		t.Errorf("event of %s: %s → %s, %v", link, old, current, err)
	}

	_, err = setCode(john.Id, "JANE")
	pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
	_, err = setCode(john.Id, "summer")
	pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
	_, err = f.apply(f.NewPartner("Jim"), func(r *affiliatev1.ApplyRequest) { r.ReferralCode = proto.String("jane") })
	pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
	if got := f.get(john.Id); got.ReferralCode != "john" || !proto.Equal(got, john) {
		t.Errorf("a refused code changed %v", got)
	}
	if p, err := setCode(jane.Id, "jane"); err != nil || p.ReferralCode != "jane" {
		t.Errorf("set the first code again: %v, %v", p, err)
	}
	// The code of the participant's other link cannot become its referral code.
	f.Exec(`
		insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		values ($1, 'live', 'page', $2, $3, gen_random_uuid(), $4)`, f.Scope.Workspace, f.Program, jane.Id, f.Now())
	_, err = setCode(jane.Id, "page")
	pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
	if f.Count(`select count(*) from referral_codes where participant_id = $1`, jane.Id) != 3 ||
		f.Count(`select count(*) from links where participant_id = $1 and code = 'jane' and version = 3`, jane.Id) != 1 {
		t.Error("a code is missing, or the link has a wrong code")
	}
}

func TestUpdateParticipant_SameCodeInParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	ids := make([]string, 40)
	for i := range ids {
		ids[i] = f.mustApply("Jane").Id
	}
	f.expectOneSuccess(len(ids), func(i int) error {
		_, err := f.update(ids[i], &update{ReferralCode: "summer"}, "referral_code")
		return err
	}, affiliate.ReasonReferralCodeTaken)
	if f.Count(`select count(*) from participants where referral_code = 'summer'`) != 1 || f.Count(`select count(*) from links where code = 'summer'`) != 1 ||
		f.Count(`select count(*) from events where type = 'link.updated'`) != 1 || f.Count(`select count(*) from audit_log where action = 'participant.update'`) != 1 {
		t.Error("a refused request stored something")
	}
}

// While a transaction deletes a group, an update that assigns the group waits. If the
// deletion commits, the update is refused. If it rolls back, the update succeeds.
func TestUpdateParticipant_WaitsForTheDeletionOfTheGroup(t *testing.T) {
	f := newFixture(t)
	id := f.mustApply("Jane").Id
	for _, deleted := range []bool{false, true} {
		group := f.newGroup(f.Program).String()
		deletion, err := f.SQL.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := deletion.Exec(t.Context(), `delete from groups where id = $1`, group); err != nil {
			t.Fatal(err)
		}
		result := make(chan error, 1)
		go func() {
			_, err := f.service.UpdateParticipant(f.asMerchant(affiliate.RoleOwner), &update{
				ProgramId: f.Program.String(), ParticipantId: id, GroupId: &group, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"group_id"}},
			})
			result <- err
		}()
		for waiting := 0; waiting == 0; {
			if err := deletion.QueryRow(t.Context(), `select count(*) from pg_locks where not granted`).Scan(&waiting); err != nil {
				t.Fatal(err)
			}
		}
		if deleted {
			if err := deletion.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			pgtest.RequireRefusal(t, <-result, affiliate.ReasonValidation, "group_id")
			continue
		}
		if err := deletion.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
}

func TestUpdateParticipant_GroupInUseCannotBeDeleted(t *testing.T) {
	f := newFixture(t)
	id := f.mustApply("Jane").Id
	for range 20 {
		group := f.newGroup(f.Program).String()
		var assigned, deleted error
		var wg sync.WaitGroup
		wg.Go(func() { _, assigned = f.update(id, &update{GroupId: &group}, "group_id") })
		wg.Go(func() { _, deleted = f.SQL.Exec(t.Context(), `delete from groups where id = $1`, group) })
		wg.Wait()
		if (assigned == nil) == (deleted == nil) {
			t.Fatalf("assigned: %v, deleted: %v", assigned, deleted)
		}
		if assigned != nil {
			pgtest.RequireRefusal(t, assigned, affiliate.ReasonValidation, "group_id")
		}
	}
}

func TestErasedParticipant_CannotBeChanged(t *testing.T) {
	f := newFixture(t)
	id, group := f.mustApply("Jane").Id, f.newGroup(f.Program).String()
	owner := f.asMerchant(affiliate.RoleOwner)
	f.Exec(`update participants set erased_at = $1`, f.Now())
	for _, status := range []string{"pending", "approved", "rejected", "suspended"} {
		f.Exec(`update participants set status = $1`, status)
		before, records, events := f.rowText(id), f.Count(`select count(*) from audit_log`), len(f.eventTypes())
		for path, req := range map[string]*update{
			"note": {Note: proto.String("x")}, "tags": {Tags: []string{"x"}}, "group_id": {GroupId: &group},
			"commission_override": {CommissionOverride: rate(1)}, "referral_code": {ReferralCode: "fresh"},
		} {
			_, err := f.update(id, req, path)
			pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
		}
		_, err := f.update(id, &update{}, "note")
		pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
		for _, verb := range verbs {
			_, err := f.move(owner, verb, f.Program.String(), id, nil)
			pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
		}
		for _, verb := range []string{"approve", "reject"} {
			if _, err := f.bulk(owner, verb, f.Program.String(), id); err == nil || err.Error() != string(affiliate.ReasonBulkAllFailed) {
				t.Errorf("bulk %s: %v", verb, err)
			}
		}
		if f.rowText(id) != before || f.Count(`select count(*) from audit_log`) != records || len(f.eventTypes()) != events {
			t.Errorf("a %s participant was changed", status)
		}
	}
}

func TestUpdateParticipant_OfOtherScopesIsNotFound(t *testing.T) {
	f := newFixture(t)
	p := f.mustApply("Jane")
	before := f.rowText(p.Id)
	as := func(workspace affiliate.WorkspaceID, mode affiliate.Mode) context.Context {
		return server.WithPrincipal(t.Context(), server.Principal{Kind: server.MerchantToken, User: f.Owner, Workspace: workspace, Role: affiliate.RoleOwner, Mode: mode})
	}
	owner := f.asMerchant(affiliate.RoleOwner)
	for name, tc := range map[string]struct {
		ctx         context.Context
		program, id string
	}{
		"another mode":      {as(f.Scope.Workspace, affiliate.ModeTest), p.ProgramId, p.Id},
		"another workspace": {as(affiliate.NewID[affiliate.Workspace](f.Now()), affiliate.ModeLive), p.ProgramId, p.Id},
		"another programme": {owner, f.NewProgram(f.Scope).String(), p.Id},
		"not a UUID":        {owner, p.ProgramId, "42"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.updateAs(tc.ctx, tc.program, tc.id, &update{Note: proto.String("mine")}, "note")
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	if f.rowText(p.Id) != before {
		t.Error("a caller of another scope changed the participant")
	}
}

// A payment processor accepts a synced promo code without checking the participant's
// status. A suspension must therefore deactivate these codes.
func TestSuspendParticipant_DeactivatesSyncedPromoCodes(t *testing.T) {
	f := newFixture(t)
	jane, john := f.mustApply("Jane"), f.mustApply("John")
	promo := func(participant, code, sync string, active bool) {
		f.Exec(`
			insert into promo_codes (workspace_id, id, program_id, participant_id, mode, code, discount_type, discount_value, active, sync_to_processor, sync_status, created_at, updated_at)
			values ($1, gen_random_uuid(), $2, $3, 'live', $4, 'percentage', 1000, $5, true, $6, $7, $7)`, f.Scope.Workspace, f.Program, participant, code, active, sync, f.Now())
	}
	promo(jane.Id, "synced", "synced", true)
	promo(jane.Id, "local", "none", true)
	promo(jane.Id, "ended", "synced", false)
	promo(john.Id, "johns", "synced", true)
	owner := f.asMerchant(affiliate.RoleOwner)
	for _, verb := range []string{"approve", "suspend"} {
		if _, err := f.move(owner, verb, jane.ProgramId, jane.Id, nil); err != nil {
			t.Fatal(err)
		}
	}
	if active := f.Texts(`select code from promo_codes where active order by code`); !slices.Equal(active, []string{"johns", "local"}) {
		t.Errorf("active: %v", active)
	}
	if f.Count(`select count(*) from promo_codes where version = 2`) != 1 ||
		f.Count(`select count(*) from audit_log a join promo_codes c on c.id = a.resource_id where a.action = 'promo_code.deactivate' and c.code = 'synced' and a.actor = $1`, f.Owner.String()) != 1 ||
		f.Count(`select count(*) from audit_log where action = 'promo_code.deactivate'`) != 1 ||
		f.Count(`
			select count(*) from events where type = 'promo_code.deactivated' and convert_from(body, 'UTF8')::jsonb #>> '{data,object,code}' = 'synced'
				and convert_from(body, 'UTF8')::jsonb #>> '{data,object,participant_id}' = $1`, jane.Id) != 1 {
		t.Error("the deactivation has not exactly one audit record and one event")
	}
}
