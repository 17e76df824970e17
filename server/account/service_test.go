package account_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestRegisterMerchant_CreatesWorkspaceWithPublicKeys(t *testing.T) {
	f := newFixture(t)
	resp := f.merchant("Mara@Shop.example")
	if resp.User.Email != "mara@shop.example" || resp.User.Role != affiliatev1.Role_ROLE_OWNER || resp.Workspace.GetName() != "Shop" ||
		resp.TokenType != "Bearer" || resp.ExpiresIn != 900 || resp.AccessToken == "" {
		t.Errorf("RegisterMerchant returned %v, want an owner of the workspace Shop with a token for 900 s", resp)
	}
	workspace, _ := affiliate.ParseID[affiliate.WorkspaceID](resp.Workspace.Id)
	for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
		keys, err := accounts.ActiveKeys(t.Context(), f.DB, affiliate.Scope{Workspace: workspace, Mode: mode}, f.Now())
		if err != nil || len(keys) != 1 {
			t.Fatalf("%s mode has the keys %v, %v, want one public key", mode, keys, err)
		}
		if parsed, ok := account.ParseKey(keys[0].PublicText); !ok || parsed.Kind != account.PublicKey || parsed.Mode != mode {
			t.Errorf("%s mode has the key %q, want a public key of the mode", mode, keys[0].PublicText)
		}
	}
	if n := f.Count(`select count(*) from users where password_hash like '$argon2id$v=19$m=19456,t=2,p=1$%'`); n != 1 {
		t.Errorf("%d passwords are stored as argon2id, want 1", n)
	}
	if n := f.Count(`select count(*) from audit_log where action = 'workspace.create' and actor = $1`, resp.User.Id); n != 1 {
		t.Errorf("%d audit records of the new workspace, want 1", n)
	}
}

func TestRegisterMerchant_SlugsOfWorkspacesAreUnique(t *testing.T) {
	f := newFixture(t)
	const n = 5
	errs := make(chan error, n)
	for i := range n {
		go func() {
			_, err := f.RegisterMerchant(t.Context(), &affiliatev1.RegisterMerchantRequest{
				Email: fmt.Sprintf("owner-%d@example.com", i), Password: "correct horse battery", Name: "Mia", WorkspaceName: "Acme Shop",
			})
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	want := []string{"acme-shop", "acme-shop-2", "acme-shop-3", "acme-shop-4", "acme-shop-5"}
	if got := f.Texts(`select slug from workspaces order by slug`); !slices.Equal(got, want) {
		t.Errorf("the slugs are %v, want %v", got, want)
	}
}

func TestRegister_AllowsOneAccountPerAddressAndKind(t *testing.T) {
	f := newFixture(t)
	f.merchant("ada@example.com")
	_, err := f.RegisterMerchant(t.Context(), &affiliatev1.RegisterMerchantRequest{
		Email: "ADA@example.com", Password: password, Name: "Ada", WorkspaceName: "Other",
	})
	pgtest.RequireRefusal(t, err, affiliate.ReasonEmailTaken)
	if n := f.Count(`select count(*) from workspaces`); n != 1 {
		t.Errorf("%d workspaces after a rejected registration, want 1", n)
	}
	partner, err := f.RegisterPartner(t.Context(), &affiliatev1.RegisterPartnerRequest{Email: "ada@example.com", Password: password, Name: "Ada"})
	if err != nil || partner.Workspace != nil || partner.User.Kind != affiliatev1.AccountKind_ACCOUNT_KIND_PARTNER {
		t.Errorf("RegisterPartner returned %v, %v, want a partner without a workspace", partner, err)
	}
	if n := f.Count(`select count(*) from account_audit_log where action = 'account.create' and user_id = $1`, partner.User.Id); n != 1 {
		t.Errorf("%d audit records of the new partner, want 1", n)
	}
}

func TestLogin_SameErrorForUnknownAddressAndWrongPassword(t *testing.T) {
	f := newFixture(t)
	f.merchant("ada@example.com")
	_, wrong := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: "not this one"})
	_, unknown := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "eve@example.com", Password: "not this one"})
	_, otherKind := f.LoginPartner(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: password})
	for _, err := range []error{wrong, unknown, otherKind} {
		pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
		if err.Error() != wrong.Error() {
			t.Errorf("got the error %q, want %q as after a wrong password", err, wrong)
		}
	}
	resp, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "Ada@Example.com", Password: password})
	if err != nil || resp.Workspace == nil {
		t.Fatalf("a login with the right password returned %v, %v", resp, err)
	}
}

func TestLogin_DelaysAddressAfterTenFailures(t *testing.T) {
	f := newFixture(t)
	f.merchant("ada@example.com")
	for _, email := range []string{"ada@example.com", "nobody@example.com"} {
		try := func(p string) error {
			_, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: email, Password: p})
			return err
		}
		for range 10 {
			pgtest.RequireRefusal(t, try("wrong password"), affiliate.ReasonInvalidCredentials)
		}
		for _, wait := range []struct {
			seconds int
			header  string
		}{{1, "1"}, {2, "2"}, {4, "4"}, {8, "8"}, {16, "16"}, {32, "32"}, {60, "60"}, {60, "60"}} {
			if got := pgtest.RequireRefusal(t, try(password), affiliate.ReasonRateLimitExceeded)["retry_after"]; got != wait.header {
				t.Errorf("%s: retry after %s s, want %s s", email, got, wait.header)
			}
			f.clock.Advance(time.Duration(wait.seconds)*time.Second - time.Millisecond)
			pgtest.RequireRefusal(t, try(password), affiliate.ReasonRateLimitExceeded)
			f.clock.Advance(time.Millisecond)
			pgtest.RequireRefusal(t, try("wrong password"), affiliate.ReasonInvalidCredentials)
		}
		f.clock.Advance(16 * time.Minute)
	}
	if _, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: password}); err != nil {
		t.Fatal(err)
	}
	if n := f.Count(`select count(*) from login_failures`); n == 0 {
		t.Error("a login deleted the failed logins of another email address")
	}
}

func TestLogin_ThrottlesParallelAttempts(t *testing.T) {
	f := newFixture(t)
	f.merchant("ada@example.com")
	var wg sync.WaitGroup
	results := make(chan error, 40)
	for range cap(results) {
		wg.Go(func() {
			_, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: "wrong password"})
			results <- err
		})
	}
	wg.Wait()
	close(results)
	comparedPasswords := 0
	for err := range results {
		if errors.Is(err, affiliate.Refuse(affiliate.ReasonInvalidCredentials)) {
			comparedPasswords++
			continue
		}
		pgtest.RequireRefusal(t, err, affiliate.ReasonRateLimitExceeded)
	}
	// All may be refused, because each attempt counts all the others.
	if comparedPasswords > 10 {
		t.Errorf("%d of 40 passwords were compared, want at most 10", comparedPasswords)
	}
	// Refused attempts do not count, so the next one is compared if it is among the first ten.
	if comparedPasswords < 10 {
		_, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: "wrong password"})
		pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	}
}

func TestRegister_RejectsAddressWithDisplayName(t *testing.T) {
	f := newFixture(t)
	for _, email := range []string{"Eve <bob@example.com>", "bob@example.com (x)", "<bob@example.com>"} {
		found := f.Check(&affiliatev1.RegisterMerchantRequest{Email: email, Name: "B", Password: password})
		if len(found) != 1 || found[0].Field != "email" {
			t.Errorf("the address %q has the violations %v, want one of email", email, found)
		}
	}
}

func TestRefresh_RotatesTokenAndReuseRevokesSession(t *testing.T) {
	f := newFixture(t)
	first := f.merchant("ada@example.com")
	second, err := f.refresh(first.RefreshToken)
	if err != nil || second.RefreshToken == first.RefreshToken || second.Workspace.GetId() != first.Workspace.Id {
		t.Fatalf("RefreshSession returned %v, %v, want a new token for the same workspace", second, err)
	}
	if !f.sessionWorks(first.User.Id) {
		t.Fatal("the refresh ended the session")
	}
	_, err = f.refresh(first.RefreshToken)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	_, err = f.refresh(second.RefreshToken)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	if f.sessionWorks(first.User.Id) {
		t.Error("the session works after a used token was used again")
	}
}

func TestRefresh_ParallelReuseRevokesSession(t *testing.T) {
	f := newFixture(t)
	first := f.merchant("ada@example.com")
	var wg sync.WaitGroup
	results := make(chan error, 20)
	for range cap(results) {
		wg.Go(func() {
			_, err := f.refresh(first.RefreshToken)
			results <- err
		})
	}
	wg.Wait()
	close(results)
	succeeded := 0
	for err := range results {
		if err == nil {
			succeeded++
			continue
		}
		pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	}
	if succeeded != 1 || f.sessionWorks(first.User.Id) {
		t.Errorf("%d calls succeeded and the session works: %v, want 1 and false", succeeded, f.sessionWorks(first.User.Id))
	}
}

func TestRefresh_TokensExpire(t *testing.T) {
	f := newFixture(t)
	idle := f.merchant("idle@example.com")
	f.clock.Advance(account.RefreshTokenIdle - time.Millisecond)
	refreshed, err := f.refresh(idle.RefreshToken)
	if err != nil {
		t.Fatalf("a refresh in the last millisecond failed: %v", err)
	}
	f.clock.Advance(account.RefreshTokenIdle)
	_, err = f.refresh(refreshed.RefreshToken)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)

	busy := f.merchant("busy@example.com")
	start := f.Now()
	for f.Now().Before(start.Add(account.RefreshTokenAbsolute - 20*24*time.Hour)) {
		f.clock.Advance(20 * 24 * time.Hour)
		if busy, err = f.refresh(busy.RefreshToken); err != nil {
			t.Fatalf("a refresh after %v failed: %v", f.Now().Sub(start), err)
		}
	}
	f.clock.Set(start.Add(account.RefreshTokenAbsolute))
	_, err = f.refresh(busy.RefreshToken)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	if f.sessionWorks(busy.User.Id) {
		t.Error("the session works after 90 days")
	}
	deleted, err := accounts.DeleteEndedSessions(t.Context(), f.DB, f.Now().Add(time.Millisecond), 10)
	if err != nil || deleted != 2 || f.Count(`select count(*) from refresh_tokens`) != 0 {
		t.Errorf("DeleteEndedSessions deleted %d sessions, %v, want 2 with all their tokens", deleted, err)
	}
}

func TestRefresh_RejectsTokenOfOtherKind(t *testing.T) {
	f := newFixture(t)
	merchant := f.merchant("ada@example.com")
	_, err := f.RefreshPartnerSession(t.Context(), &affiliatev1.RefreshSessionRequest{RefreshToken: merchant.RefreshToken})
	pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	if _, err = f.RefreshMerchantSession(t.Context(), &affiliatev1.RefreshSessionRequest{RefreshToken: merchant.RefreshToken}); err != nil {
		t.Errorf("the rejected call has used the token: %v", err)
	}
	for _, text := range []string{"", "x", strings.Repeat("A", 43), strings.Repeat("A", 600)} {
		_, err := f.refresh(text)
		pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	}
}

func TestLogout_EndsSessionAndAlwaysSucceeds(t *testing.T) {
	f := newFixture(t)
	session := f.merchant("ada@example.com")
	for range 2 {
		if _, err := f.Logout(t.Context(), &affiliatev1.LogoutRequest{RefreshToken: session.RefreshToken}); err != nil {
			t.Fatal(err)
		}
	}
	if f.sessionWorks(session.User.Id) {
		t.Error("the session works after the logout")
	}
	if _, err := f.Logout(t.Context(), &affiliatev1.LogoutRequest{RefreshToken: "nonsense"}); err != nil {
		t.Error(err)
	}
}

func TestCheck_RejectsNamesThatMailsMustNotShow(t *testing.T) {
	f := newFixture(t)
	for _, bad := range []string{"Win at https://evil.example", "WWW.evil.example", "a\nb", "a\rb", "a\u2028b", "a\u202eb", "\u2066a", "a\u200f"} {
		for _, req := range []proto.Message{
			&affiliatev1.RegisterMerchantRequest{Email: "a@example.com", Password: password, Name: bad, WorkspaceName: bad},
			&affiliatev1.RegisterPartnerRequest{Email: "a@example.com", Password: password, Name: bad},
			&affiliatev1.AcceptInviteRequest{Password: password, Name: bad},
		} {
			want := []string{"name"}
			if _, merchant := req.(*affiliatev1.RegisterMerchantRequest); merchant {
				want = append(want, "workspace_name")
			}
			var fields []string
			for _, v := range f.Check(req) {
				fields = append(fields, v.Field)
			}
			if !slices.Equal(fields, want) {
				t.Errorf("%T with the name %q has violations of %q, want of %q", req, bad, fields, want)
			}
		}
	}
	for _, good := range []string{"Jane Doe", "Smith & Sons: Coffee/Tea", "www coffee", "محمد", "a.example"} {
		if found := f.Check(&affiliatev1.RegisterPartnerRequest{Email: "a@example.com", Password: password, Name: good}); len(found) != 0 {
			t.Errorf("the name %q has the violations %v, want none", good, found)
		}
	}
}

func TestCheck_RejectsCommonPasswords(t *testing.T) {
	f := newFixture(t)
	for _, bad := range []string{"password123", "PassWord123", "aaaaaaaaaaaa", "1234567890", "qwertyuiop"} {
		found := f.Check(&affiliatev1.RegisterPartnerRequest{Email: "a@example.com", Name: "A", Password: bad})
		if len(found) != 1 || found[0].Field != "password" {
			t.Errorf("the password %q has the violations %v, want one of password", bad, found)
		}
	}
	if found := f.Check(&affiliatev1.RegisterMerchantRequest{Email: "a@example.com", Name: "A", Password: password}); len(found) != 0 {
		t.Errorf("a good password has the violations %v", found)
	}
	if found := f.Check(&affiliatev1.LoginRequest{Password: "password123"}); len(found) != 0 {
		t.Errorf("login rejects a common password: %v", found)
	}
}
