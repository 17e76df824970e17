package commission_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (m *merchant) bulk(verb, program string, ids ...string) (*affiliatev1.BulkCommissionsResponse, error) {
	if verb == "approve" {
		return m.w.service.BulkApproveCommissions(m.call(), &affiliatev1.BulkApproveCommissionsRequest{ProgramId: program, CommissionIds: ids})
	}
	return m.w.service.BulkRejectCommissions(m.call(), &affiliatev1.BulkRejectCommissionsRequest{
		ProgramId: program, CommissionIds: ids, Reason: proto.String("spam"), Code: affiliatev1.RejectionCode_REJECTION_CODE_FRAUD,
	})
}

func TestBulk_MovesEachCommissionSeparately(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	p := m.somePartner()
	made := func(columns map[string]any) string { return m.commission(p, columns).String() }
	plain, flagged := made(nil), made(map[string]any{"needs_review": true})
	held, paid := made(map[string]any{"hold_until": w.now().Add(time.Hour)}), made(map[string]any{"status": "paid"})
	elsewhere := m.commission(m.partner(m.newProgram("Beta"), "Bo", "bo@example.com"), nil).String()
	unknown := affiliate.NewID[affiliate.Commission](w.now()).String()
	status := func(word string) affiliatev1.CommissionStatus {
		return server.EnumValue[affiliatev1.CommissionStatus](word)
	}
	good := func(id, after string) *affiliatev1.BulkCommissionResult {
		return &affiliatev1.BulkCommissionResult{CommissionId: id, Success: true, StatusCode: 200, Status: status(after)}
	}
	bad := func(id, after string, code int32, reason affiliate.Reason) *affiliatev1.BulkCommissionResult {
		return &affiliatev1.BulkCommissionResult{
			CommissionId: id, StatusCode: code, Status: status(after), Code: proto.String(string(reason)), Message: proto.String(sentence(reason)),
		}
	}

	got, err := m.bulk("approve", m.program.String(), unknown, plain, held, strings.ToUpper(plain), paid, elsewhere, flagged, unknown)
	want := &affiliatev1.BulkCommissionsResponse{
		Summary: &affiliatev1.BulkSummary{Total: 6, Succeeded: 2, Failed: 4},
		Results: []*affiliatev1.BulkCommissionResult{
			bad(unknown, "", 404, affiliate.ReasonNotFound), good(plain, "approved"), bad(held, "pending", 409, affiliate.ReasonCommissionHoldActive),
			bad(paid, "paid", 409, affiliate.ReasonCommissionNotPending), bad(elsewhere, "", 404, affiliate.ReasonNotFound), good(flagged, "approved"),
		},
	}
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("approve, %v\ngot  %v\nwant %v", err, got, want)
	}
	got, err = m.bulk("reject", m.program.String(), held, paid, plain)
	want = &affiliatev1.BulkCommissionsResponse{
		Summary: &affiliatev1.BulkSummary{Total: 3, Succeeded: 2, Failed: 1},
		Results: []*affiliatev1.BulkCommissionResult{
			good(held, "rejected"), bad(paid, "paid", 409, affiliate.ReasonCommissionTerminal), good(plain, "rejected"),
		},
	}
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("reject, %v\ngot  %v\nwant %v", err, got, want)
	}
	if n := w.Count(`select count(*) from commissions where rejection_reason = 'spam' and rejection_code = 'fraud'`); n != 2 {
		t.Errorf("%d commissions have the reason and the code", n)
	}
	if n := w.Count(`select count(*) from audit_log where action in ('commission.approve', 'commission.reject')`); n != 4 {
		t.Errorf("%d lines in the audit log", n)
	}
	if got, err := m.bulk("reject", m.program.String(), flagged); err != nil || got.Summary.Succeeded != 1 || got.Summary.Failed != 0 {
		t.Errorf("all of them: %v, %v", got, err)
	}
}

func TestBulk_FailsForCommissionsOfOtherScopes(t *testing.T) {
	w := newWorld(t)
	mine, foreign := w.merchant(affiliate.ModeLive), w.merchant(affiliate.ModeLive)
	test := mine.other()
	second := mine.newProgram("Beta")
	id := map[*merchant]string{}
	for _, m := range []*merchant{mine, foreign, test} {
		id[m] = m.commission(m.somePartner(), nil).String()
	}
	for name, c := range map[string]struct{ program, id string }{
		"another workspace's":                      {foreign.program.String(), id[foreign]},
		"an own one under a foreign programme":     {foreign.program.String(), id[mine]},
		"a foreign one under an own programme":     {mine.program.String(), id[foreign]},
		"an own one of the other mode":             {test.program.String(), id[test]},
		"an own one under another own programme":   {second.String(), id[mine]},
		"an own one under a programme of no one's": {affiliate.NewID[affiliate.Program](w.now()).String(), id[mine]},
	} {
		for _, verb := range []string{"approve", "reject"} {
			if _, err := mine.bulk(verb, c.program, c.id); err == nil || err.Error() != string(affiliate.ReasonBulkAllFailed) {
				t.Errorf("%s %s: %v", verb, name, err)
			}
		}
	}
	_, err := mine.bulk("approve", "42", id[mine])
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if n := w.Count(`select count(*) from commissions where version > 1`); n != 0 {
		t.Errorf("%d commissions of other scopes were changed", n)
	}
}

// failingStore fails to lock one commission.
type failingStore struct {
	commission.Store
	fails string
}

type failingTx struct {
	commission.Tx
	fails string
}

var errLock = errors.New("the connection was lost")

func (s failingStore) InTx(ctx context.Context, fn func(tx commission.Tx) error) error {
	return s.Store.InTx(ctx, func(tx commission.Tx) error { return fn(failingTx{tx, s.fails}) })
}

func (tx failingTx) LockCommission(
	ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID,
) (affiliate.LockedCommission, error) {
	if id.String() == tx.fails {
		return affiliate.LockedCommission{}, errLock
	}
	return tx.Tx.LockCommission(ctx, scope, program, id)
}

func TestBulkApprove_EndsAtInternalErrorAndCanBeRepeated(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	p := m.somePartner()
	ids := []string{m.commission(p, nil).String(), m.commission(p, nil).String(), m.commission(p, nil).String()}
	service := commission.New(failingStore{stores.Commission(w.Store), ids[1]}, w.now)
	_, err := service.BulkApproveCommissions(m.call(), &affiliatev1.BulkApproveCommissionsRequest{ProgramId: m.program.String(), CommissionIds: ids})
	if !errors.Is(err, errLock) {
		t.Fatalf("got %v", err)
	}
	got, err := m.bulk("approve", m.program.String(), ids...)
	if err != nil || got.Results[0].GetCode() != string(affiliate.ReasonCommissionNotPending) || !got.Results[1].Success || !got.Results[2].Success {
		t.Errorf("again: %v, %v", got, err)
	}
}

// Parallel requests with the same commissions in different orders approve each commission
// once.
func TestBulk_ParallelRequestsMoveEachOnce(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	p := m.somePartner()
	ids := make([]affiliate.CommissionID, 20)
	for i := range ids {
		ids[i] = m.commission(p, nil)
	}
	var group sync.WaitGroup
	var lock sync.Mutex
	won := map[string]int{}
	for range 8 {
		group.Go(func() {
			order := make([]string, len(ids))
			for i, id := range ids {
				order[i] = id.String()
			}
			rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			got, err := m.bulk("approve", m.program.String(), order...)
			if err != nil {
				if err.Error() != string(affiliate.ReasonBulkAllFailed) {
					t.Error(err)
				}
				return
			}
			lock.Lock()
			defer lock.Unlock()
			for _, result := range got.Results {
				if result.Success {
					won[result.CommissionId]++
				} else if result.GetCode() != string(affiliate.ReasonCommissionNotPending) || result.Status != affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED {
					t.Errorf("%v", result)
				}
			}
			if !slices.EqualFunc(got.Results, order, func(r *affiliatev1.BulkCommissionResult, id string) bool { return r.CommissionId == id }) {
				t.Error("the results are not in the order given")
			}
		})
	}
	group.Wait()
	for _, id := range ids {
		if path := w.path(id); won[id.String()] != 1 || path != "pending approved" {
			t.Errorf("%d requests approved it: %s", won[id.String()], path)
		}
	}
	if n := w.Count(`select sum(balance_cents) from ledger_balances where participant_id = $1`, p.participant); n != 200*len(ids) {
		t.Errorf("the balance is %d", n)
	}
}

// sentence returns the standard message of an error code.
func sentence(reason affiliate.Reason) string {
	_, _, message := server.Failure(affiliate.Refuse(reason))
	return *message
}
