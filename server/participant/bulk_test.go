package participant_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
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
