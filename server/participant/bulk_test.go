package participant_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/participant"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) bulk(ctx context.Context, verb, program string, ids ...string) (*affiliatev1.BulkParticipantsResponse, error) {
	if verb == "approve" {
		return f.service.BulkApproveParticipants(ctx, &affiliatev1.BulkApproveParticipantsRequest{ProgramId: program, ParticipantIds: ids})
	}
	return f.service.BulkRejectParticipants(ctx, &affiliatev1.BulkRejectParticipantsRequest{ProgramId: program, ParticipantIds: ids, Reason: proto.String("spam")})
}

func TestBulk_ChangesEachParticipantSeparately(t *testing.T) {
	f := newFixture(t)
	owner := f.asMerchant(affiliate.RoleOwner)
	pending, pending2 := f.mustApply("Ada").Id, f.mustApply("Bob").Id
	approved, erased := f.mustApply("Cyd").Id, f.mustApply("Dan").Id
	if _, err := f.move(owner, "approve", f.Program.String(), approved, nil); err != nil {
		t.Fatal(err)
	}
	f.Exec(`update participants set erased_at = $1 where id = $2`, f.Now(), erased)
	own := f.Program
	f.Program = f.NewProgram(f.Scope)
	elsewhere := f.mustApply("Eve").Id
	f.Program = own
	unknown := affiliate.NewID[affiliate.Participant](f.Now()).String()

	got, err := f.bulk(owner, "reject", own.String(), unknown, pending, approved, strings.ToUpper(pending), erased, elsewhere, pending2, unknown)
	if err != nil {
		t.Fatal(err)
	}
	item := func(id string, status affiliatev1.ParticipantStatus, code int32, reason, message string) *affiliatev1.BulkParticipantResult {
		if reason == "" {
			return &affiliatev1.BulkParticipantResult{ParticipantId: id, Success: true, StatusCode: 200, Status: status}
		}
		return &affiliatev1.BulkParticipantResult{ParticipantId: id, StatusCode: code, Status: status, Code: &reason, Message: &message}
	}
	none, rejected := affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_UNSPECIFIED, affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_REJECTED
	want := &affiliatev1.BulkParticipantsResponse{
		Summary: &affiliatev1.BulkSummary{Total: 6, Succeeded: 2, Failed: 4},
		Results: []*affiliatev1.BulkParticipantResult{
			item(unknown, none, 404, "NOT_FOUND", standardMessage(affiliate.ReasonNotFound)),
			item(pending, rejected, 200, "", ""),
			item(approved, affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_APPROVED, 409, "PARTICIPANT_STATE_INVALID", standardMessage(affiliate.ReasonParticipantState)),
			item(erased, affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_PENDING, 409, "PARTICIPANT_ERASED", standardMessage(affiliate.ReasonParticipantErased)),
			item(elsewhere, none, 404, "NOT_FOUND", standardMessage(affiliate.ReasonNotFound)),
			item(pending2, rejected, 200, "", ""),
		},
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if f.get(pending).GetRejectionReason() != "spam" || f.Count(`select count(*) from events where type = 'participant.rejected'`) != 2 ||
		f.Count(`select count(*) from audit_log where action = 'participant.reject'`) != 2 {
		t.Error("the events or the audit records of the rejections are wrong")
	}
	if got, err := f.bulk(owner, "approve", own.String(), pending, pending2); err != nil || got.Summary.Succeeded != 2 || got.Summary.Failed != 0 {
		t.Errorf("approve both: %v, %v", got, err)
	}
	f.checkCounts()
}

func TestBulk_OfOtherScopesFailsCompletely(t *testing.T) {
	f := newFixture(t)
	p := f.mustApply("Jane")
	as := func(workspace affiliate.WorkspaceID, mode affiliate.Mode) context.Context {
		return server.WithPrincipal(t.Context(), server.Principal{Kind: server.MerchantToken, User: f.Owner, Workspace: workspace, Role: affiliate.RoleOwner, Mode: mode})
	}
	owner := f.asMerchant(affiliate.RoleOwner)
	before := f.rowText(p.Id)
	for name, tc := range map[string]struct {
		ctx     context.Context
		program string
	}{
		"another mode":      {as(f.Scope.Workspace, affiliate.ModeTest), p.ProgramId},
		"another workspace": {as(affiliate.NewID[affiliate.Workspace](f.Now()), affiliate.ModeLive), p.ProgramId},
		"another programme": {owner, f.NewProgram(f.Scope).String()},
		"unknown programme": {owner, affiliate.NewID[affiliate.Program](f.Now()).String()},
	} {
		t.Run(name, func(t *testing.T) {
			for _, verb := range []string{"approve", "reject"} {
				if _, err := f.bulk(tc.ctx, verb, tc.program, p.Id); err == nil || err.Error() != string(affiliate.ReasonBulkAllFailed) {
					t.Errorf("%s: %v", verb, err)
				}
			}
		})
	}
	_, err := f.bulk(owner, "approve", "42", p.Id)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if f.rowText(p.Id) != before {
		t.Error("a caller of another scope changed the participant")
	}
}

// failingStore returns an internal error for one participant.
type failingStore struct {
	*postgres.Store
	participant string
}

var errInternal = errors.New("connection lost")

func (u failingStore) MoveParticipant(
	ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID,
	move affiliate.ParticipantMove, reason *string, at time.Time, by affiliate.Actor,
) (affiliate.Participant, error) {
	if id.String() == u.participant {
		return affiliate.Participant{}, errInternal
	}
	return u.Store.MoveParticipant(ctx, scope, program, id, move, reason, at, by)
}

func TestBulk_EndsAfterAnInternalError(t *testing.T) {
	f := newFixture(t)
	ids := []string{f.mustApply("Ada").Id, f.mustApply("Bob").Id, f.mustApply("Cyd").Id}
	service := participant.New(failingStore{f.Store, ids[1]}, f.Now)
	req := &affiliatev1.BulkApproveParticipantsRequest{ProgramId: f.Program.String(), ParticipantIds: ids}
	if _, err := service.BulkApproveParticipants(f.asMerchant(affiliate.RoleOwner), req); !errors.Is(err, errInternal) {
		t.Fatalf("got %v", err)
	}
	got, err := f.service.BulkApproveParticipants(f.asMerchant(affiliate.RoleOwner), req)
	if err != nil || got.Results[0].GetCode() != string(affiliate.ReasonParticipantState) || !got.Results[1].Success || !got.Results[2].Success {
		t.Errorf("again: %v, %v", got, err)
	}
}

func TestListCounts_AreRightAfterParallelChanges(t *testing.T) {
	f := newFixture(t)
	owner := f.asMerchant(affiliate.RoleOwner)
	ids := make([]string, 12)
	for i := range ids {
		ids[i] = f.mustApply("Jane").Id
	}
	late := make([]affiliate.UserID, 8)
	for i := range late {
		late[i] = f.NewPartner("John")
	}
	var wg sync.WaitGroup
	for _, partner := range late {
		wg.Go(func() {
			for range 12 {
				// The call may be refused, depending on the participant's status at this time.
				_, err := f.move(owner, verbs[rand.IntN(len(verbs))], f.Program.String(), ids[rand.IntN(len(ids))], nil)
				if err != nil && !errors.Is(err, affiliate.Refuse(affiliate.ReasonParticipantState)) {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			if _, err := f.bulk(owner, "approve", f.Program.String(), ids...); err != nil && err.Error() != string(affiliate.ReasonBulkAllFailed) {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := f.apply(partner, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	f.checkCounts()
	moves := f.Count(`select count(*) from audit_log where resource_type = 'participant' and action <> 'participant.apply'`)
	if events := f.Count(`select count(*) from events where type not in ('participant.applied', 'link.created')`); moves == 0 || events != moves {
		t.Errorf("%d moves, %d events", moves, events)
	}
}

// standardMessage returns the API's message for the error code.
func standardMessage(reason affiliate.Reason) string {
	_, _, message := server.Failure(affiliate.Refuse(reason))
	return *message
}
