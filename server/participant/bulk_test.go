package participant_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestBulk_ChangesEachParticipantSeparately(t *testing.T) {
	f := newFixture(t)
	join := func(status string) string { return f.Join("Jane", pgtest.Row{"status": status}).ID.String() }
	first, second, alreadyApproved := join("pending"), join("pending"), join("approved")
	erased := f.Join("Dan", pgtest.Row{"status": "pending", "erased_at": f.Now()}).ID.String()
	inOtherProgram := f.inNewProgram().mustApply("Eve").Id
	unknown := affiliate.NewID[affiliate.ParticipantID](f.Now()).String()

	success := func(id string, status affiliatev1.ParticipantStatus) *affiliatev1.BulkParticipantResult {
		return &affiliatev1.BulkParticipantResult{ParticipantId: id, Success: true, StatusCode: 200, Status: status}
	}
	failure := func(id string, code int32, reason affiliate.Reason, status affiliatev1.ParticipantStatus) *affiliatev1.BulkParticipantResult {
		_, _, message := server.Failure(affiliate.Refuse(reason))
		return &affiliatev1.BulkParticipantResult{ParticipantId: id, StatusCode: code, Status: status, Code: new(string(reason)), Message: message}
	}
	got, err := f.bulk(f.asOwner(), "reject", f.Program.String(),
		unknown, first, alreadyApproved, strings.ToUpper(first), erased, inOtherProgram, second, unknown)
	if err != nil {
		t.Fatal(err)
	}
	want := &affiliatev1.BulkParticipantsResponse{
		Summary: &affiliatev1.BulkSummary{Total: 6, Succeeded: 2, Failed: 4},
		Results: []*affiliatev1.BulkParticipantResult{
			failure(unknown, 404, affiliate.ReasonNotFound, 0),
			success(first, rejected),
			failure(alreadyApproved, 409, affiliate.ReasonParticipantState, approved),
			failure(erased, 409, affiliate.ReasonParticipantErased, pending),
			failure(inOtherProgram, 404, affiliate.ReasonNotFound, 0),
			success(second, rejected),
		},
	}
	if !proto.Equal(got, want) {
		t.Errorf("BulkRejectParticipants returned %v\nwant %v", got, want)
	}
	if got := f.get(first).GetRejectionReason(); got != "spam" {
		t.Errorf("the participant has the rejection reason %q, want spam", got)
	}
	f.wantEvents([]string{first, second}, "participant.rejected", "participant.rejected")
	f.wantAudits(2, "participant.reject", f.Owner)

	got, err = f.bulk(f.asOwner(), "approve", f.Program.String(), first, second)
	if err != nil {
		t.Fatal(err)
	}
	want = &affiliatev1.BulkParticipantsResponse{
		Summary: &affiliatev1.BulkSummary{Total: 2, Succeeded: 2},
		Results: []*affiliatev1.BulkParticipantResult{success(first, approved), success(second, approved)},
	}
	if !proto.Equal(got, want) {
		t.Errorf("BulkApproveParticipants returned %v\nwant %v", got, want)
	}
	f.checkCounts()
}

func TestBulk_StopsAfterAnInternalError(t *testing.T) {
	f := newFixture(t)
	ids := []string{f.mustApply("Ada").Id, f.mustApply("Bob").Id, f.mustApply("Cyd").Id}
	db := f.OpenHooked(func(sql string, args []any) error {
		if strings.Contains(sql, "for no key update") && strings.Contains(fmt.Sprint(args), ids[1]) {
			return errors.New("the connection was lost")
		}
		return nil
	})
	service := newService(t, db, f.Now)
	req := &affiliatev1.BulkApproveParticipantsRequest{ProgramId: f.Program.String(), ParticipantIds: ids}
	if _, err := service.BulkApproveParticipants(f.asOwner(), req); err == nil || errors.As(err, new(*affiliate.Error)) {
		t.Fatalf("BulkApproveParticipants returned the error %v, want the failure of the database", err)
	}
	for i, want := range []affiliatev1.ParticipantStatus{approved, pending, pending} {
		if got := f.get(ids[i]).Status; got != want {
			t.Errorf("participant %d has the status %v, want %v", i, got, want)
		}
	}
}

func TestListCounts_AreRightAfterParallelChanges(t *testing.T) {
	f := newFixture(t)
	ids := make([]string, 24)
	for i := range ids {
		ids[i] = f.mustApply("Jane").Id
	}
	var mu sync.Mutex
	succeeded := map[string]int{}
	// call runs a service call, which may be refused because of the participant's status.
	// It counts the successful calls of each kind.
	call := func(kind string, run func() error) {
		err := run()
		if err != nil && !allFailed(err) && !errors.Is(err, affiliate.Refuse(affiliate.ReasonParticipantState)) {
			t.Errorf("%s: %v", kind, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			succeeded[kind]++
		}
	}
	var calls sync.WaitGroup
	for range 8 {
		applicant := f.NewPartner("John")
		calls.Go(func() {
			for range 24 {
				verb := verbs[rand.IntN(len(verbs))]
				call(verb, func() error {
					_, err := f.move(f.asOwner(), verb, f.Program.String(), ids[rand.IntN(len(ids))], nil)
					return err
				})
			}
		})
		calls.Go(func() {
			call("bulk approve", func() error {
				// Only 8 participants are approved here. The others stay pending until a
				// random move, so that some calls of reject can succeed.
				_, err := f.bulk(f.asOwner(), "approve", f.Program.String(), ids[:8]...)
				return err
			})
		})
		calls.Go(func() {
			call("apply", func() error {
				_, err := f.apply(applicant)
				return err
			})
		})
	}
	calls.Wait()
	for _, kind := range append([]string{"bulk approve", "apply"}, verbs...) {
		if succeeded[kind] == 0 {
			t.Errorf("no call of the kind %s succeeded; successful calls: %v", kind, succeeded)
		}
	}
	f.checkCounts()
	moves := f.Count(`select count(*) from audit_log where resource_type = 'participant' and action <> 'participant.apply'`)
	f.WantCount(moves, "events of moves", `select count(*) from events where type not in ('participant.applied', 'link.created')`)
}

func TestBulkUpdate_ChangesGroupAndTags(t *testing.T) {
	f := newFixture(t)
	silver, gold := f.NewGroup(f.Scope, f.Program, "Silver").ID.String(), f.NewGroup(f.Scope, f.Program, "Gold").ID.String()
	ada, bob := f.mustApply("Ada").Id, f.mustApply("Bob").Id
	f.Exec(`update participants set tags = '{old,press}', group_id = $2 where id = $1`, ada, silver)
	f.Exec(`update participants set tags = (select array_agg('t' || n) from generate_series(1, 20) n) where id = $1`, bob)
	elsewhere := f.inNewProgram().mustApply("Eve").Id
	type request = affiliatev1.BulkUpdateParticipantsRequest
	update := func(req *request, paths ...string) (*affiliatev1.BulkParticipantsResponse, error) {
		req.ProgramId, req.UpdateMask = f.Program.String(), &fieldmaskpb.FieldMask{Paths: paths}
		if err := servertest.Check(f.service, req); err != nil {
			return nil, err
		}
		return f.service.BulkUpdateParticipants(f.asOwner(), req)
	}
	got, err := update(&request{
		ParticipantIds: []string{ada, elsewhere, bob}, GroupId: &gold, AddTags: []string{"vip", " press"}, RemoveTags: []string{"old"},
	}, "participant_ids", "group_id", "add_tags", "remove_tags")
	if err != nil || got.GetSummary().GetSucceeded() != 1 || got.GetResults()[0].GetStatus() != pending ||
		got.GetResults()[1].GetStatusCode() != 404 || got.GetResults()[2].GetStatusCode() != 400 {
		t.Fatalf("BulkUpdateParticipants returned %v, %v, want one change, NOT_FOUND and a fault", got, err)
	}
	if p := f.get(ada); !slices.Equal(p.GetTags(), []string{"press", "vip"}) || p.GetGroupId() != gold {
		t.Errorf("the participant has the tags %q and the group %s, want press, vip and %s", p.GetTags(), p.GetGroupId(), gold)
	}
	if p := f.get(bob); len(p.GetTags()) != 20 || p.GroupId != nil {
		t.Errorf("a participant with too many tags has changed: %v", p)
	}
	if _, err := update(&request{ParticipantIds: []string{ada}, RemoveTags: []string{"press"}}, "participant_ids", "remove_tags"); err != nil {
		t.Fatal(err)
	}
	if p := f.get(ada); !slices.Equal(p.GetTags(), []string{"vip"}) || p.GetGroupId() != gold {
		t.Errorf("the participant has the tags %q and the group %s, want vip and the old group", p.GetTags(), p.GetGroupId())
	}
	if _, err := update(&request{ParticipantIds: []string{ada}}, "participant_ids", "group_id"); err != nil || f.get(ada).GroupId != nil {
		t.Errorf("the group was not removed: %v, %v", f.get(ada), err)
	}
	f.wantAudits(3, "participant.update", f.Owner)
	_, err = update(&request{ParticipantIds: []string{ada}}, "participant_ids")
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "add_tags")
	_, err = update(&request{ParticipantIds: []string{ada}, GroupId: new(f.NewGroup(f.Scope, f.NewProgram(f.Scope), "Gold").ID.String())}, "group_id")
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "group_id")
	for name, program := range map[string]string{"an unknown programme": affiliate.NewID[affiliate.ProgramID](f.Now()).String(), "no UUID": "x"} {
		_, err = f.service.BulkUpdateParticipants(f.asOwner(), &request{
			ProgramId: program, ParticipantIds: []string{ada}, GroupId: &gold, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"group_id"}},
		})
		if pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
			t.Errorf("%s: BulkUpdateParticipants returned %v, want NOT_FOUND", name, err)
		}
	}
	_, err = update(&request{ParticipantIds: []string{elsewhere}, AddTags: []string{"vip"}}, "add_tags")
	if err == nil || err.Error() != string(affiliate.ReasonBulkAllFailed) {
		t.Errorf("an update of another programme's participant returned the error %v", err)
	}
}

func TestBulkInvite_InvitesEachAddressSeparately(t *testing.T) {
	f := newFixture(t)
	f.Join("Ada", pgtest.Row{"partner_email": "ada@example.com"})
	invite := func(invites ...*affiliatev1.ParticipantInvitation) (*affiliatev1.BulkInvitesResponse, error) {
		req := &affiliatev1.BulkInviteParticipantsRequest{ProgramId: f.Program.String(), Invites: invites}
		if err := servertest.Check(f.service, req); err != nil {
			return nil, err
		}
		return f.service.BulkInviteParticipants(f.asOwner(), req)
	}
	got, err := invite(
		&affiliatev1.ParticipantInvitation{Email: "Bob@example.com", Name: new("Bob"), ReferralCode: new("bob-1")},
		&affiliatev1.ParticipantInvitation{Email: "ada@example.com"},
		&affiliatev1.ParticipantInvitation{Email: "bob@example.com"},
		&affiliatev1.ParticipantInvitation{Email: "full@example.com"},
	)
	if err != nil || got.GetSummary().GetSucceeded() != 2 || len(got.GetResults()) != 4 || got.GetResults()[3].GetStatusCode() != 429 {
		t.Fatalf("BulkInviteParticipants returned %v, %v, want two invitations of four and an item over the limit", got, err)
	}
	first, second, third := got.GetResults()[0], got.GetResults()[1], got.GetResults()[2]
	if !first.GetSuccess() || first.GetStatusCode() != 201 || !first.GetInvite().GetMailed() || first.GetInvite().GetToken() == "" || first.GetInvite().GetReferralCode() != "bob-1" {
		t.Errorf("the first result is %v, want a mailed invitation", first)
	}
	if second.GetIndex() != 1 || second.GetEmail() != "ada@example.com" || second.GetStatusCode() != 409 || second.GetCode() != string(affiliate.ReasonApplicationDuplicate) {
		t.Errorf("the second result is %v, want APPLICATION_DUPLICATE", second)
	}
	if !third.GetSuccess() || third.GetInvite().GetMailed() || third.GetInvite().GetId() != first.GetInvite().GetId() {
		t.Errorf("the third result is %v, want the first invitation without another mail", third)
	}
	_, err = invite(&affiliatev1.ParticipantInvitation{Email: "cyd@example.com"}, &affiliatev1.ParticipantInvitation{Email: "Dan <dan@example.com>", ReferralCode: new("admin")})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "invites[1].referral_code", "invites[1].email")
	f.WantCount(1, "mails", `select count(*) from mails where kind = 'participant_invite'`)
}
