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

func (w *world) bulk(ctx context.Context, verb, program string, ids ...string) (*affiliatev1.BulkParticipantsResponse, error) {
	if verb == "approve" {
		return w.service.BulkApproveParticipants(ctx, &affiliatev1.BulkApproveParticipantsRequest{ProgramId: program, ParticipantIds: ids})
	}
	return w.service.BulkRejectParticipants(ctx, &affiliatev1.BulkRejectParticipantsRequest{ProgramId: program, ParticipantIds: ids, Reason: proto.String("spam")})
}

func TestBulk_ChangesEachParticipantSeparately(t *testing.T) {
	w := newWorld(t)
	owner := w.asMerchant(affiliate.RoleOwner)
	pending, pending2 := w.mustApply("Ada").Id, w.mustApply("Bob").Id
	approved, erased := w.mustApply("Cyd").Id, w.mustApply("Dan").Id
	if _, err := w.move(owner, "approve", w.program.String(), approved, nil); err != nil {
		t.Fatal(err)
	}
	w.Exec(`update participants set erased_at = $1 where id = $2`, w.now, erased)
	own := w.program
	w.program = w.newProgram()
	elsewhere := w.mustApply("Eve").Id
	w.program = own
	unknown := affiliate.NewID[affiliate.Participant](w.now).String()

	got, err := w.bulk(owner, "reject", own.String(), unknown, pending, approved, strings.ToUpper(pending), erased, elsewhere, pending2, unknown)
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
	if w.get(pending).GetRejectionReason() != "spam" || w.Count(`select count(*) from events where type = 'participant.rejected'`) != 2 ||
		w.Count(`select count(*) from audit_log where action = 'participant.reject'`) != 2 {
		t.Error("the events or the audit records of the rejections are wrong")
	}
	if got, err := w.bulk(owner, "approve", own.String(), pending, pending2); err != nil || got.Summary.Succeeded != 2 || got.Summary.Failed != 0 {
		t.Errorf("approve both: %v, %v", got, err)
	}
	w.checkCounts()
}

func TestBulk_OfOtherScopesFailsCompletely(t *testing.T) {
	w := newWorld(t)
	p := w.mustApply("Jane")
	as := func(workspace affiliate.WorkspaceID, mode affiliate.Mode) context.Context {
		return server.WithPrincipal(t.Context(), server.Principal{Kind: server.MerchantToken, User: w.user, Workspace: workspace, Role: affiliate.RoleOwner, Mode: mode})
	}
	owner := w.asMerchant(affiliate.RoleOwner)
	before := w.rowText(p.Id)
	for name, tc := range map[string]struct {
		ctx     context.Context
		program string
	}{
		"another mode":      {as(w.workspace, affiliate.ModeTest), p.ProgramId},
		"another workspace": {as(affiliate.NewID[affiliate.Workspace](w.now), affiliate.ModeLive), p.ProgramId},
		"another programme": {owner, w.newProgram().String()},
		"unknown programme": {owner, affiliate.NewID[affiliate.Program](w.now).String()},
	} {
		t.Run(name, func(t *testing.T) {
			for _, verb := range []string{"approve", "reject"} {
				if _, err := w.bulk(tc.ctx, verb, tc.program, p.Id); err == nil || err.Error() != string(affiliate.ReasonBulkAllFailed) {
					t.Errorf("%s: %v", verb, err)
				}
			}
		})
	}
	_, err := w.bulk(owner, "approve", "42", p.Id)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if w.rowText(p.Id) != before {
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
	w := newWorld(t)
	ids := []string{w.mustApply("Ada").Id, w.mustApply("Bob").Id, w.mustApply("Cyd").Id}
	service := participant.New(failingStore{w.Store, ids[1]}, w.Now)
	req := &affiliatev1.BulkApproveParticipantsRequest{ProgramId: w.program.String(), ParticipantIds: ids}
	if _, err := service.BulkApproveParticipants(w.asMerchant(affiliate.RoleOwner), req); !errors.Is(err, errInternal) {
		t.Fatalf("got %v", err)
	}
	got, err := w.service.BulkApproveParticipants(w.asMerchant(affiliate.RoleOwner), req)
	if err != nil || got.Results[0].GetCode() != string(affiliate.ReasonParticipantState) || !got.Results[1].Success || !got.Results[2].Success {
		t.Errorf("again: %v, %v", got, err)
	}
}

func TestListCounts_AreRightAfterParallelChanges(t *testing.T) {
	w := newWorld(t)
	owner := w.asMerchant(affiliate.RoleOwner)
	ids := make([]string, 12)
	for i := range ids {
		ids[i] = w.mustApply("Jane").Id
	}
	late := make([]affiliate.UserID, 8)
	for i := range late {
		late[i] = w.NewPartner("John")
	}
	var wg sync.WaitGroup
	for _, partner := range late {
		wg.Go(func() {
			for range 12 {
				// The call may be refused, depending on the participant's status at this time.
				_, err := w.move(owner, verbs[rand.IntN(len(verbs))], w.program.String(), ids[rand.IntN(len(ids))], nil)
				if err != nil && !errors.Is(err, affiliate.Refuse(affiliate.ReasonParticipantState)) {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			if _, err := w.bulk(owner, "approve", w.program.String(), ids...); err != nil && err.Error() != string(affiliate.ReasonBulkAllFailed) {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := w.apply(partner, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.checkCounts()
	moves := w.Count(`select count(*) from audit_log where resource_type = 'participant' and action <> 'participant.apply'`)
	if events := w.Count(`select count(*) from events where type not in ('participant.applied', 'link.created')`); moves == 0 || events != moves {
		t.Errorf("%d moves, %d events", moves, events)
	}
}

// standardMessage returns the API's message for the error code.
func standardMessage(reason affiliate.Reason) string {
	_, _, message := server.Failure(affiliate.Refuse(reason))
	return *message
}
