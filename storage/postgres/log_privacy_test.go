package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/partner"
	partners "github.com/tributary-hq/tributary/storage/postgres/partner"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestAccountAuditLog_OmitsValues(t *testing.T) {
	f := newFixture(t)
	user := f.NewPartner("Secretia")
	for _, patch := range []partner.ProfilePatch{
		{Name: affiliate.Set("Secretina"), Country: affiliate.Set("DE"), CompanyName: affiliate.Set("Secret Inc.")},
		{Name: affiliate.Set("Secretina"), WebsiteURL: affiliate.Set("https://secret.example/")},
		{Name: affiliate.Set("Secretina")},
	} {
		f.Clock.Advance(time.Millisecond)
		if _, err := partners.UpdateProfile(t.Context(), f.DB, user, patch, f.Now(), pgtest.By(user)); err != nil {
			t.Fatal(err)
		}
	}
	got := f.Texts(`select concat(action, ' ', before, ' → ', after) from account_audit_log where user_id = $1 order by at, id`, user)
	if want := []string{
		`profile.update  → {"changed": ["company_name", "country", "name"]}`,
		`profile.update  → {"changed": ["website_url"]}`,
	}; !slices.Equal(got, want) {
		t.Errorf("the account's audit log is\n%q\nwant\n%q", got, want)
	}
}
