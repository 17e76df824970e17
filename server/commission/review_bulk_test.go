package commission_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) bulkApprove(program affiliate.ProgramID, ids ...string) (*affiliatev1.BulkCommissionsResponse, error) {
	return f.service.BulkApproveCommissions(f.asOwner(), &affiliatev1.BulkApproveCommissionsRequest{ProgramId: program.String(), CommissionIds: ids})
}

func (f *fixture) bulkReject(program affiliate.ProgramID, ids ...string) (*affiliatev1.BulkCommissionsResponse, error) {
	return f.service.BulkRejectCommissions(f.asOwner(), &affiliatev1.BulkRejectCommissionsRequest{
		ProgramId: program.String(), CommissionIds: ids, Reason: new("spam"), Code: affiliatev1.RejectionCode_REJECTION_CODE_FRAUD,
	})
}

// requireAllFailed checks the error of a bulk request in which no item succeeded.
func requireAllFailed(t *testing.T, call string, err error) {
	t.Helper()
	if err == nil || err.Error() != string(affiliate.ReasonBulkAllFailed) {
		t.Errorf("%s returned the error %v, want %s", call, err, affiliate.ReasonBulkAllFailed)
	}
}

func TestBulk_OneFailureDoesNotAffectOtherCommissions(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	p := f.Join("Pat")
	create := func(change ...func(*commission.Commission)) string { return f.NewCommission(p, change...).ID.String() }
	plain := create()
	flagged := create(func(c *commission.Commission) { c.NeedsReview = true })
	held := create(func(c *commission.Commission) { c.HoldUntil = new(f.Now().Add(time.Hour)) })
	paid := create(func(c *commission.Commission) { c.Status = commission.Paid })
	elsewhere := f.NewCommission(f.NewParticipant(f.Scope, f.NewProgram(f.Scope), p.Partner)).ID.String()
	unknown := affiliate.NewID[affiliate.CommissionID](f.Now()).String()
	status := func(name string) affiliatev1.CommissionStatus {
		return server.EnumValue[affiliatev1.CommissionStatus](name)
	}
	succeeded := func(id, after string) *affiliatev1.BulkCommissionResult {
		return &affiliatev1.BulkCommissionResult{CommissionId: id, Success: true, StatusCode: 200, Status: status(after)}
	}
	failed := func(id, after string, code int32, reason affiliate.Reason) *affiliatev1.BulkCommissionResult {
		return &affiliatev1.BulkCommissionResult{
			CommissionId: id, StatusCode: code, Status: status(after), Code: new(string(reason)), Message: new(messageOf(reason)),
		}
	}

	onHold := failed(held, "pending", 409, affiliate.ReasonCommissionHoldActive)
	onHold.Message = new("The hold period ends at " + affiliate.FormatTime(f.Now().Add(time.Hour)) + ". Approve the commission then, or approve it early.")
	got, err := f.bulkApprove(f.Program, unknown, plain, held, strings.ToUpper(plain), paid, elsewhere, flagged, unknown)
	want := &affiliatev1.BulkCommissionsResponse{
		Summary: &affiliatev1.BulkSummary{Total: 6, Succeeded: 2, Failed: 4},
		Results: []*affiliatev1.BulkCommissionResult{
			failed(unknown, "", 404, affiliate.ReasonNotFound), succeeded(plain, "approved"), onHold,
			failed(paid, "paid", 409, affiliate.ReasonCommissionNotPending), failed(elsewhere, "", 404, affiliate.ReasonNotFound), succeeded(flagged, "approved"),
		},
	}
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("BulkApproveCommissions returned %v, error %v\nwant %v", got, err, want)
	}
	got, err = f.bulkReject(f.Program, held, paid, plain)
	want = &affiliatev1.BulkCommissionsResponse{
		Summary: &affiliatev1.BulkSummary{Total: 3, Succeeded: 2, Failed: 1},
		Results: []*affiliatev1.BulkCommissionResult{
			succeeded(held, "rejected"), failed(paid, "paid", 409, affiliate.ReasonCommissionTerminal), succeeded(plain, "rejected"),
		},
	}
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("BulkRejectCommissions returned %v, error %v\nwant %v", got, err, want)
	}
	if n := f.Count(`select count(*) from commissions where rejection_reason = 'spam' and rejection_code = 'fraud'`); n != 2 {
		t.Errorf("%d commissions have the reason and the code of the rejection, want 2", n)
	}
	if n := f.Count(`select count(*) from audit_log where action in ('commission.approve', 'commission.reject')`); n != 4 {
		t.Errorf("the audit log has %d approvals and rejections, want 4", n)
	}
	got, err = f.bulkReject(f.Program, flagged)
	want = &affiliatev1.BulkCommissionsResponse{
		Summary: &affiliatev1.BulkSummary{Total: 1, Succeeded: 1}, Results: []*affiliatev1.BulkCommissionResult{succeeded(flagged, "rejected")},
	}
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("BulkRejectCommissions returned %v, error %v\nwant %v", got, err, want)
	}
}

func TestBulk_WithoutProgram(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	p := f.Join("Pat")
	first, second := f.NewCommission(p), f.NewCommission(f.NewParticipant(f.Scope, f.NewProgram(f.Scope), p.Partner))
	ofStranger, inTestMode := f.NewCommission(f.NewShop(affiliate.ModeLive).Join("Pat")), f.NewCommission(f.InOtherMode().Join("Pat"))
	ids := []string{first.ID.String(), ofStranger.ID.String(), second.ID.String(), inTestMode.ID.String()}
	wantStatuses := func(call string, got *affiliatev1.BulkCommissionsResponse, err error, status affiliatev1.CommissionStatus) {
		t.Helper()
		if err != nil || got.GetSummary().GetSucceeded() != 2 || got.GetSummary().GetFailed() != 2 {
			t.Fatalf("%s returned %v, error %v, want two commissions and two failures", call, got, err)
		}
		for i, code := range []int32{200, 404, 200, 404} {
			if r := got.GetResults()[i]; r.GetCommissionId() != ids[i] || r.GetStatusCode() != code || code == 200 && r.GetStatus() != status {
				t.Errorf("%s: the result %d is %v, want the status %d for %s", call, i, r, code, ids[i])
			}
		}
	}
	got, err := f.service.BulkApproveCommissions(f.asOwner(), &affiliatev1.BulkApproveCommissionsRequest{CommissionIds: ids})
	wantStatuses("BulkApproveCommissions", got, err, affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED)
	got, err = f.service.BulkRejectCommissions(f.asOwner(), &affiliatev1.BulkRejectCommissionsRequest{CommissionIds: ids})
	wantStatuses("BulkRejectCommissions", got, err, affiliatev1.CommissionStatus_COMMISSION_STATUS_REJECTED)
	for _, c := range []commission.Commission{ofStranger, inTestMode} {
		f.requireStatuses(c, "pending")
	}
}

func TestBulk_FailsForCommissionsOfOtherScopes(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	stranger, testMode := f.NewShop(affiliate.ModeLive), f.InOtherMode()
	own := f.NewCommission(f.Join("Pat"))
	ofStranger, inTestMode := f.NewCommission(stranger.Join("Pat")), f.NewCommission(testMode.Join("Pat"))
	for name, tc := range map[string]struct {
		program    affiliate.ProgramID
		commission commission.Commission
	}{
		"commission of another workspace":                {stranger.Program, ofStranger},
		"commission of another workspace, own programme": {f.Program, ofStranger},
		"own commission, programme of another workspace": {stranger.Program, own},
		"own commission of the other mode":               {testMode.Program, inTestMode},
		"own commission, another own programme":          {f.NewProgram(f.Scope), own},
		"own commission, unknown programme":              {affiliate.NewID[affiliate.ProgramID](f.Now()), own},
	} {
		t.Run(name, func(t *testing.T) {
			_, approveErr := f.bulkApprove(tc.program, tc.commission.ID.String())
			requireAllFailed(t, "BulkApproveCommissions", approveErr)
			_, rejectErr := f.bulkReject(tc.program, tc.commission.ID.String())
			requireAllFailed(t, "BulkRejectCommissions", rejectErr)
		})
	}
	_, err := f.service.BulkApproveCommissions(f.asOwner(), &affiliatev1.BulkApproveCommissionsRequest{ProgramId: "42", CommissionIds: []string{own.ID.String()}})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	for _, c := range []commission.Commission{own, ofStranger, inTestMode} {
		f.requireStatuses(c, "pending")
	}
}

func TestBulkApprove_EndsAtInternalErrorAndCanBeRepeated(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	p := f.Join("Pat")
	ids := []string{f.NewCommission(p).ID.String(), f.NewCommission(p).ID.String(), f.NewCommission(p).ID.String()}
	db := f.OpenHooked(func(sql string, args []any) error {
		if strings.Contains(sql, "for update of c") && strings.Contains(fmt.Sprint(args), ids[1]) {
			return errors.New("the connection was lost")
		}
		return nil
	})
	service := commissionservice.New(db, f.clock.Now)
	_, err := service.BulkApproveCommissions(f.asOwner(), &affiliatev1.BulkApproveCommissionsRequest{ProgramId: f.Program.String(), CommissionIds: ids})
	if err == nil || errors.As(err, new(*affiliate.Error)) {
		t.Fatalf("BulkApproveCommissions returned the error %v, want the failure of the database", err)
	}
	got, err := f.bulkApprove(f.Program, ids...)
	if err != nil {
		t.Fatal(err)
	}
	if code := got.Results[0].GetCode(); code != string(affiliate.ReasonCommissionNotPending) {
		t.Errorf("the repeated request has the code %q for the first commission, want %s", code, affiliate.ReasonCommissionNotPending)
	}
	if !got.Results[1].Success || !got.Results[2].Success {
		t.Errorf("the repeated request has the results %v, want success for the second and third commission", got.Results)
	}
}

// Parallel requests with the same commissions in different orders approve each commission
// once.
func TestBulkApprove_ParallelRequestsApproveEachCommissionOnce(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	p := f.Join("Pat")
	commissions := make([]commission.Commission, 20)
	ids := make([]string, len(commissions))
	for i := range commissions {
		commissions[i] = f.NewCommission(p)
		ids[i] = commissions[i].ID.String()
	}
	type outcome struct {
		order    []string // of the ids in the request
		response *affiliatev1.BulkCommissionsResponse
		err      error
	}
	outcomes := make(chan outcome, 8)
	for range cap(outcomes) {
		go func() {
			order := slices.Clone(ids)
			rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			response, err := f.bulkApprove(f.Program, order...)
			outcomes <- outcome{order, response, err}
		}()
	}
	approvals := map[string]int{} // by commission
	for range cap(outcomes) {
		o := <-outcomes
		if o.err != nil {
			requireAllFailed(t, "BulkApproveCommissions", o.err)
			continue
		}
		var order []string
		for _, result := range o.response.Results {
			order = append(order, result.CommissionId)
			if result.Success {
				approvals[result.CommissionId]++
			} else if result.GetCode() != string(affiliate.ReasonCommissionNotPending) || result.Status != affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED {
				t.Errorf("the result of a commission that another request approved is %v, want %s and the status approved", result, affiliate.ReasonCommissionNotPending)
			}
		}
		if !slices.Equal(order, o.order) {
			t.Errorf("the results are in the order %v, want that of the request %v", order, o.order)
		}
	}
	for _, c := range commissions {
		if n := approvals[c.ID.String()]; n != 1 {
			t.Errorf("a commission was approved by %d requests, want 1", n)
		}
		f.requireStatuses(c, "pending approved")
	}
	if got, want := f.Count(`select sum(balance_cents) from ledger_balances where participant_id = $1`, p.ID), 200*len(commissions); got != want {
		t.Errorf("the balance of the participant is %d cents, want %d", got, want)
	}
}

// messageOf returns the standard message of an error code.
func messageOf(reason affiliate.Reason) string {
	_, _, message := server.Failure(affiliate.Refuse(reason))
	return *message
}
