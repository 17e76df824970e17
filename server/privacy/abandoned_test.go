package privacy_test

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestEraseAbandoned(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	unclaimed := pgtest.Row{"unclaimed": true}
	newParticipant := func(name string, row pgtest.Row) pgtest.Participant {
		return f.NewParticipant(f.Scope, f.Program, f.NewPartner(name, row))
	}
	active, erased, claimed := newParticipant("Active", unclaimed), newParticipant("Erased", unclaimed), newParticipant("Claimed", pgtest.Row{})
	f.NewPartner("Deleted with the test data", unclaimed)
	for _, p := range []pgtest.Participant{erased, claimed} {
		if err := f.eraseParticipant(p); err != nil {
			t.Fatal(err)
		}
		f.finish(f.erasure())
	}
	for range 2 { // the second run finds nothing
		if err := f.service.EraseAbandoned(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f.WantCount(2, "accounts of partners that were erased", `select count(*) from users where kind = 'partner' and erased_at is not null`)
	f.WantCount(0, "names of erased accounts", `select count(*) from users where name in ('Erased', 'Deleted with the test data')`)
	f.WantCount(2, "accounts that stay", `select count(*) from users where id = any($1) and erased_at is null`, []affiliate.UserID{active.Partner, claimed.Partner})
	f.WantCount(2, "erasures of accounts in the erasure log", `select count(*) from erasures where subject = 'partner' and logged_at is not null`)
	if n := len(f.log.entries); n != 4 {
		t.Errorf("the erasure log has %d entries, want 4", n)
	}
}
