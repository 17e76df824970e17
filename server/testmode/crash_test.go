package testmode_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/server/testmode"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// killer ends the connections of a process at a transaction: before the commit of the
// transaction with the number kill, or after it if committed is true. The database refuses
// all later statements of the process.
type killer struct {
	mu        sync.Mutex
	kill      int
	committed bool
	begun     int // number of transactions until now
	killed    bool
}

// arm makes the killer end the next process at a transaction.
func (k *killer) arm(kill int, committed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kill, k.committed, k.begun, k.killed = kill, committed, 0, false
}

func (k *killer) hook(sql string, _ []any) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if sql == "begin" {
		k.begun++
	}
	atEnd := sql == "commit" && k.begun == k.kill
	if atEnd && k.committed && !k.killed {
		k.killed = true
		return pgtest.ErrResponseLost
	}
	// The transaction with the number kill may have been rolled back.
	if k.killed = k.killed || atEnd || k.begun > k.kill; k.killed {
		return errors.New("the process was killed")
	}
	return nil
}

// newKilledService returns a service whose process a killer ends as soon as the killer is armed.
func (f *fixture) newKilledService() (*testmode.Service, *killer) {
	f.Helper()
	k := &killer{kill: math.MaxInt}
	return f.newService(f.OpenHooked(k.hook)), k
}

// If the process of the request ends at any point, the job does the rest. The counts in the
// audit log include what the request has deleted.
func TestDeleteTestData_IsFinishedByTheJobAfterACrash(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	populate(f.Fixture, f.InOtherMode(), "live")
	f.Exec(`delete from programs where id = $1`, f.Program)
	before := f.dump()
	service, killer := f.newKilledService()
	f.runJobs(f.service) // the worker runs all the time; the jobs of requests are not due
	for kill, ended := 2, false; !ended; kill++ {
		for _, committed := range []bool{false, true} {
			f.Program = f.NewProgram(f.Scope)
			populate(f.Fixture, f.Shop, fmt.Sprintf("test-%d-%t", kill, committed))
			killer.arm(kill, committed)
			response, err := f.reset(service)
			if err != nil {
				t.Fatalf("crash at transaction %d: DeleteTestData returned %v, want the status processing", kill, err)
			}
			ended = response.GetDeleted() != nil // the deletion has fewer transactions
			f.makeJobsDue()
			f.waitUntilFinished()
			f.wantDump(before)
			if _, after := f.audited(); after.Programs != 1 || after.Conversions != 1 || after.Clicks != 1 {
				t.Errorf("crash at transaction %d (committed: %t): the audit log says that %+v was deleted", kill, committed, after)
			}
		}
		if kill > 50 {
			t.Fatal("the deletion does not end")
		}
	}
}

// A crash in the deletion of many rows, which has many transactions, is continued too.
func TestDelete_ContinuesAfterACrashBetweenParts(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	f.Exec(`delete from programs where id = $1`, f.Program)
	before := f.dump()
	service, killer := f.newKilledService()
	const refunds = 5_500
	for _, kill := range []int{7, 8, 20, 30} {
		f.Program = f.NewProgram(f.Scope)
		populate(f.Fixture, f.Shop, fmt.Sprintf("test-%d", kill))
		f.Exec(`
			insert into refunds (workspace_id, id, mode, external_refund_id, external_transaction_id, created_at, expires_at)
			select $1, gen_random_uuid(), 'test', n::text, 'unknown', now(), now() from generate_series(1, $2::int) n`, f.Scope.Workspace, refunds)
		killer.arm(kill, false)
		if response, err := f.reset(service); err != nil || response.GetDeleted() != nil {
			t.Fatalf("crash at transaction %d: DeleteTestData returned %v, %v, want the status processing", kill, response, err)
		}
		id := privacy.TestDataReset{Workspace: f.Scope.Workspace}
		if err := f.SQL.QueryRow(t.Context(), `select id from test_data_resets where finished_at is null`).Scan(&id.ID.UUID); err != nil {
			t.Fatal(err)
		}
		if _, done, err := f.service.Delete(t.Context(), id, f.clock.Now().AddDate(0, 0, 1)); err != nil || !done {
			t.Fatalf("Delete returned done %t, %v", done, err)
		}
		f.wantDump(before)
	}
}

// A call that runs out of time keeps its progress, and the next call continues.
func TestDelete_StopsWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`delete from programs where id = $1`, f.Program)
	before := f.dump()
	f.Program = f.NewProgram(f.Scope)
	populate(f.Fixture, f.Shop, "test")
	service, killer := f.newKilledService()
	killer.arm(1, false)
	if response, err := f.reset(service); err == nil {
		t.Fatalf("DeleteTestData returned %v although the process was killed", response)
	}
	f.WantCount(0, "deletions, because the first transaction did not commit", `select count(*) from test_data_resets`)
	killer.arm(2, true)
	if _, err := f.reset(service); err != nil {
		t.Fatal(err)
	}
	id := privacy.TestDataReset{Workspace: f.Scope.Workspace}
	if err := f.SQL.QueryRow(t.Context(), `select id from test_data_resets`).Scan(&id.ID.UUID); err != nil {
		t.Fatal(err)
	}
	if _, done, err := f.service.Delete(t.Context(), id, f.clock.Now()); err != nil || done {
		t.Errorf("Delete without time returned done %t, %v", done, err)
	}
	f.WantCount(1, "conversions", `select count(*) from conversions where workspace_id = $1`, f.Scope.Workspace)
	if _, done, err := f.service.Delete(t.Context(), id, f.clock.Now().AddDate(0, 0, 1)); err != nil || !done {
		t.Errorf("Delete returned done %t, %v", done, err)
	}
	f.wantDump(before)
	if deleted, done, err := f.service.Delete(t.Context(), id, f.clock.Now().AddDate(0, 0, 1)); err != nil || !done || deleted != nil {
		t.Errorf("Delete of a finished deletion returned %v, %t, %v, want nothing and done", deleted, done, err)
	}
}
