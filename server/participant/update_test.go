package participant_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func percentage(value float64) *affiliatev1.CommissionRate {
	return &affiliatev1.CommissionRate{Percentage: &value}
}

func TestUpdateParticipant(t *testing.T) {
	f := newFixture(t)
	want := f.mustApply("Jane")
	id, group := want.Id, f.NewGroup(f.Scope, f.Program, "Gold").ID.String()
	step := func(req *updateRequest, paths ...string) {
		t.Helper()
		f.clock.Advance(time.Second)
		want.UpdatedAt = server.Timestamp(f.changeTime())
		got := f.mustUpdate(id, req, paths...)
		if !proto.Equal(got, want) {
			t.Errorf("UpdateParticipant of %q returned %v\nwant %v", paths, got, want)
		}
		if read := f.get(id); !proto.Equal(read, want) {
			t.Errorf("after the update of %q GetParticipant returned %v\nwant %v", paths, read, want)
		}
	}
	all := &updateRequest{
		Note: new("calls back"), Tags: []string{" vip ", "blog", "vip"}, GroupId: &group,
		CommissionOverride: percentage(12.5), ReferralCode: "Summer",
	}
	want.Note = new("calls back")
	step(all, "note")
	want.Tags, want.GroupId, want.CommissionOverride, want.ReferralCode = []string{"vip", "blog"}, &group, percentage(12.5), "summer"
	step(all, "tags", "group_id", "commission_override.percentage", "referral_code")
	// The override is replaced as a whole, even if the mask names only one of its fields.
	want.CommissionOverride = &affiliatev1.CommissionRate{FlatAmountCents: new(int64(500))}
	step(&updateRequest{CommissionOverride: want.CommissionOverride}, "commission_override.flat_amount_cents")
	f.WantCount(4, "version", `select version from participants where id = $1`, id)

	// An update that changes nothing stores nothing.
	jobs, before := f.directoryJobs(id), f.rowText(id)
	f.clock.Advance(time.Second)
	f.mustUpdate(id, &updateRequest{Note: new("calls back"), Tags: []string{"vip", "blog"}, ReferralCode: "SUMMER"}, "note", "tags", "referral_code")
	if after := f.rowText(id); after != before {
		t.Errorf("an update without changes stored %s, want %s", after, before)
	}
	f.wantAudits(3, "participant.update", f.Owner)
	if n := f.directoryJobs(id); n != jobs {
		t.Errorf("an update without changes inserted %d jobs for the edge directory, want none", n-jobs)
	}

	want.Note, want.Tags, want.GroupId, want.CommissionOverride = nil, nil, nil, nil
	step(&updateRequest{}, "note", "tags", "group_id", "commission_override")
	audit := f.Texts(`
		select before::text || ' → ' || after::text from audit_log
		where action = 'participant.update' and resource_id = $1 and actor = $2 order by at desc, id desc limit 1`, id, f.Owner.String())
	wantAudit := `{"note": "(changed)", "tags": ["vip", "blog"], "group_id": "` + group + `", "commission_override": {"flat_amount_cents": 500}} → ` +
		`{"note": null, "tags": [], "group_id": null, "commission_override": null}`
	if !slices.Equal(audit, []string{wantAudit}) {
		t.Errorf("the last audit record is %q, want %q", audit, wantAudit)
	}
	f.wantEvents(nil, "link.created", "link.updated", "participant.applied")
}

func TestUpdateParticipant_RejectsInvalidRequests(t *testing.T) {
	f := newFixture(t)
	id := f.mustApply("Jane").Id
	foreignGroup := f.NewGroup(f.Scope, f.NewProgram(f.Scope), "Gold").ID.String()
	unknownGroup := affiliate.NewID[affiliate.GroupID](f.Now()).String()
	twoRates := &affiliatev1.CommissionRate{Percentage: new(1.0), FlatAmountCents: new(int64(1))}
	before := f.rowText(id)
	for name, tc := range map[string]struct {
		req       *updateRequest
		paths     []string
		wantField string
	}{
		"unknown path":               {&updateRequest{}, []string{"status"}, "update_mask"},
		"no mask":                    {&updateRequest{Note: new("x")}, nil, "update_mask"},
		"empty tag":                  {&updateRequest{Tags: []string{"a", " "}}, []string{"tags"}, "tags[1]"},
		"group of another programme": {&updateRequest{GroupId: &foreignGroup}, []string{"group_id"}, "group_id"},
		"unknown group":              {&updateRequest{GroupId: &unknownGroup}, []string{"group_id"}, "group_id"},
		"two rates":                  {&updateRequest{CommissionOverride: twoRates}, []string{"commission_override.percentage", "commission_override.flat_amount_cents"}, "commission_override.flat_amount_cents"},
		"no rate":                    {&updateRequest{CommissionOverride: &affiliatev1.CommissionRate{}}, []string{"commission_override"}, "commission_override.percentage"},
		"path of an absent rate":     {&updateRequest{}, []string{"commission_override.percentage"}, "commission_override.percentage"},
		"three decimals":             {&updateRequest{CommissionOverride: percentage(1.234)}, []string{"commission_override.percentage"}, "commission_override.percentage"},
		"code is masked but absent":  {&updateRequest{}, []string{"referral_code"}, "referral_code"},
		"reserved code":              {&updateRequest{ReferralCode: "Google"}, []string{"referral_code"}, "referral_code"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.update(id, tc.req, tc.paths...)
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.wantField)
		})
	}
	if after := f.rowText(id); after != before {
		t.Errorf("a refused update changed the participant to %s\nfrom %s", after, before)
	}
}

func TestUpdateParticipant_ReplacedReferralCodeStaysReserved(t *testing.T) {
	f := newFixture(t)
	jane := f.Join("Jane", pgtest.Row{"referral_code": "jane"})
	john := f.mustApply("John")
	setCode := func(id, code string) (*affiliatev1.Participant, error) {
		f.clock.Advance(time.Second)
		return f.update(id, &updateRequest{ReferralCode: code}, "referral_code")
	}
	if p, err := setCode(jane.ID.String(), "Summer"); err != nil || p.ReferralCode != "summer" {
		t.Fatalf("UpdateParticipant with the code Summer returned the code %s, error %v, want summer", p.GetReferralCode(), err)
	}
	f.WantCount(2, "codes of the default link with the new code", `
		select count(*) from referral_codes r join links l on l.id = r.link_id
		where l.id = $1 and l.code = 'summer' and l.version = 2 and r.code in ('jane', 'summer')`, jane.Link)
	if n := f.directoryJobs(jane.ID.String()); n != 1 {
		t.Errorf("the update inserted %d jobs for the edge directory, want 1", n)
	}
	object, previous := f.LastEvent(affiliate.EventLinkUpdated)
	if object["id"] != jane.Link.String() || object["code"] != "summer" || previous["code"] != "jane" {
		t.Errorf("the event is about the link %v with the code %v and the previous code %v, want %s, summer and jane",
			object["id"], object["code"], previous["code"], jane.Link)
	}

	for _, code := range []string{"JANE", "summer"} {
		_, err := setCode(john.Id, code)
		pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
	}
	_, err := f.apply(f.NewPartner("Jim"), withCode("jane"))
	pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
	if got := f.get(john.Id); !proto.Equal(got, john) {
		t.Errorf("a refused code changed the participant to %v\nwant %v", got, john)
	}
	if p, err := setCode(jane.ID.String(), "jane"); err != nil || p.ReferralCode != "jane" {
		t.Errorf("UpdateParticipant with the first code returned the code %s, error %v, want jane", p.GetReferralCode(), err)
	}
	f.NewLink(jane, "page")
	_, err = setCode(jane.ID.String(), "page") // the code of the participant's other link
	pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
	codes := f.Texts(`select code from referral_codes where participant_id::text = $1 order by code`, jane.ID.String())
	if want := []string{"jane", "page", "summer"}; !slices.Equal(codes, want) {
		t.Errorf("the participant has the codes %q, want %q", codes, want)
	}
	f.WantCount(1, "default links with the first code", `select count(*) from links where id = $1 and code = 'jane' and version = 3`, jane.Link)
}

func TestUpdateParticipant_SameCodeInParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	ids := make([]string, 40)
	for i := range ids {
		ids[i] = f.mustApply("Jane").Id
	}
	requireOneSuccess(t, inParallel(len(ids), func(i int) error {
		_, err := f.update(ids[i], &updateRequest{ReferralCode: "summer"}, "referral_code")
		return err
	}), affiliate.ReasonReferralCodeTaken)
	f.WantCount(1, "participants with the code", `select count(*) from participants where referral_code = 'summer'`)
	f.WantCount(1, "links with the code", `select count(*) from links where code = 'summer'`)
	f.WantCount(1, "events", `select count(*) from events where type = 'link.updated'`)
	f.wantAudits(1, "participant.update", f.Owner)
}

// While a transaction deletes a group, an update that assigns the group waits. If the
// deletion commits, the update is refused. If it rolls back, the update succeeds.
func TestUpdateParticipant_WaitsForTheDeletionOfTheGroup(t *testing.T) {
	f := newFixture(t)
	id := f.mustApply("Jane").Id
	for _, commit := range []bool{false, true} {
		group := f.NewGroup(f.Scope, f.Program, "Gold").ID.String()
		deletion, err := f.SQL.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := deletion.Exec(t.Context(), `delete from groups where id = $1`, group); err != nil {
			t.Fatal(err)
		}
		result := make(chan error, 1)
		go func() {
			_, err := f.update(id, &updateRequest{GroupId: &group}, "group_id")
			result <- err
		}()
		pgtest.Eventually(t, "the update waits for the deletion", func() bool {
			return f.CountLockWaits() > 0
		})
		if commit {
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
			t.Errorf("UpdateParticipant after the rollback of the deletion: %v", err)
		}
		f.mustUpdate(id, &updateRequest{}, "group_id")
		f.Exec(`delete from groups where id = $1`, group)
	}
}

func TestErasedParticipant_CannotBeChanged(t *testing.T) {
	f := newFixture(t)
	group := f.NewGroup(f.Scope, f.Program, "Gold").ID.String()
	updates := map[string]*updateRequest{
		"note": {Note: new("x")}, "tags": {Tags: []string{"x"}}, "group_id": {GroupId: &group},
		"commission_override": {CommissionOverride: percentage(1)}, "referral_code": {ReferralCode: "fresh"},
	}
	for _, status := range statuses {
		t.Run(status, func(t *testing.T) {
			id := f.Join("Jane", pgtest.Row{"status": status, "erased_at": f.Now()}).ID.String()
			before := f.rowText(id)
			for path, req := range updates {
				_, err := f.update(id, req, path)
				pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
			}
			_, err := f.update(id, &updateRequest{}, "note")
			pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
			for _, verb := range verbs {
				_, err := f.move(f.asOwner(), verb, f.Program.String(), id, nil)
				pgtest.RequireRefusal(t, err, affiliate.ReasonParticipantErased)
			}
			for _, verb := range []string{"approve", "reject"} {
				if _, err := f.bulk(f.asOwner(), verb, f.Program.String(), id); !allFailed(err) {
					t.Errorf("bulk %s returned %v, want %s", verb, err, affiliate.ReasonBulkAllFailed)
				}
			}
			if after := f.rowText(id); after != before {
				t.Errorf("refused calls changed the participant to %s\nfrom %s", after, before)
			}
			if actions := f.AuditActions("participant", id); len(actions) != 0 {
				t.Errorf("refused calls wrote the audit records %q, want none", actions)
			}
		})
	}
	f.wantEvents(nil)
}

// A payment processor accepts a synced promo code without checking the participant's
// status. A suspension must therefore deactivate these codes.
func TestSuspendParticipant_DeactivatesSyncedPromoCodes(t *testing.T) {
	f := newFixture(t)
	jane, john := f.Join("Jane"), f.Join("John")
	synced := func(c *promocode.PromoCode) { c.Sync, c.SyncStatus = true, promocode.SyncSynced }
	code := f.NewPromoCode(jane, "synced", synced)
	f.NewPromoCode(jane, "local")
	f.NewPromoCode(john, "johns", synced)
	f.NewPromoCode(jane, "ended", synced, func(c *promocode.PromoCode) { c.Active = false })
	f.clock.Advance(time.Second)
	f.mustMove("suspend", jane.ID.String())
	active := f.Texts(`select code from promo_codes where active order by code`)
	if want := []string{"johns", "local"}; !slices.Equal(active, want) {
		t.Errorf("after the suspension the codes %q are active, want %q", active, want)
	}
	f.wantAudits(1, "promo_code.deactivate", f.Owner)
	f.wantEvents([]string{code.ID.String()}, "promo_code.deactivated")
	object, _ := f.LastEvent(affiliate.EventPromoCodeDeactivated)
	if object["id"] != code.ID.String() || object["participant_id"] != jane.ID.String() || object["version"] != 2.0 {
		t.Errorf("the event is about the code %v of the participant %v in version %v, want %s, %s and 2",
			object["id"], object["participant_id"], object["version"], code.ID, jane.ID)
	}
}
