package postgres_test

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
)

// A partner applies twice at the same time. The second application must wait for the
// transaction of the first application. If this transaction is rolled back, the second
// application must succeed.
func TestApply_SucceedsAfterAnotherApplicationIsRolledBack(t *testing.T) {
	f := newFixture(t)
	partner := f.NewPartner("Jane")

	earlier, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := earlier.Exec(t.Context(), `
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code, application_answers, applied_at, created_at, updated_at)
		values ($1, gen_random_uuid(), $2, 'live', $3, 'Jane', 'jane@example.com', 'pending', 'jane', '{}', $4, $4, $4)`, f.Scope.Workspace, f.Program, partner, f.Now()); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := f.Store.Apply(t.Context(), affiliate.Application{Program: f.Program, Partner: partner, Mode: f.Scope.Mode}, f.Now(), by(partner))
		result <- err
	}()
	awaitLock(f.Fixture)
	if err := earlier.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Errorf("Apply returned %v, want no error", err)
	}
}
