package account_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/account"
	"github.com/tributary-hq/tributary/storage/postgres"
	accountpg "github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const password = "correct horse battery"

type fixture struct {
	*account.Service
	db    *postgres.DB
	store *accountpg.Store
	conn  *pgx.Conn
	now   time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	url := pgtest.New(t)
	store, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	f := &fixture{db: store.DB, store: accountpg.NewStore(store.DB), conn: conn, now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)}
	clock := func() time.Time { return f.now }
	keys, err := server.ParseTokenKeys("k:"+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", ed25519.SeedSize))), clock)
	if err != nil {
		t.Fatal(err)
	}
	f.Service = account.New(stores.Account(f.db), keys, []byte("hash key"), clock)
	return f
}

func (f *fixture) merchant(t *testing.T, email string) *affiliatev1.SessionResponse {
	t.Helper()
	resp, err := f.RegisterMerchant(t.Context(), &affiliatev1.RegisterMerchantRequest{
		Email: email, Password: password, Name: "Mara", WorkspaceName: "Shop",
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func (f *fixture) count(t *testing.T, query string, args ...any) int {
	t.Helper()
	var n int
	if err := f.conn.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func wantReason(t *testing.T, err error, reason affiliate.Reason) {
	t.Helper()
	if !errors.Is(err, affiliate.Refuse(reason)) {
		t.Fatalf("got %v, want %s", err, reason)
	}
}

func TestRegisterMerchant_CreatesWorkspaceWithPublicKeys(t *testing.T) {
	f := newFixture(t)
	resp := f.merchant(t, "Mara@Shop.example")
	if resp.User.Email != "mara@shop.example" || resp.User.Role != affiliatev1.Role_ROLE_OWNER || resp.Workspace.GetName() != "Shop" ||
		resp.TokenType != "Bearer" || resp.ExpiresIn != 900 || resp.AccessToken == "" {
		t.Errorf("got %v", resp)
	}
	workspace, _ := affiliate.ParseID[affiliate.Workspace](resp.Workspace.Id)
	for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
		keys, err := f.store.LiveKeys(t.Context(), affiliate.Scope{Workspace: workspace, Mode: mode}, f.now)
		if err != nil || len(keys) != 1 {
			t.Fatalf("%s keys %v, %v", mode, keys, err)
		}
		if parsed, ok := affiliate.ParseKey(keys[0].PublicText); !ok || parsed.Kind != affiliate.PublicKey || parsed.Mode != mode {
			t.Errorf("%s key %q", mode, keys[0].PublicText)
		}
	}
	if n := f.count(t, `select count(*) from users where password_hash like '$argon2id$v=19$m=19456,t=2,p=1$%'`); n != 1 {
		t.Error("the password is not stored as argon2id")
	}
	if n := f.count(t, `select count(*) from audit_log where action = 'workspace.create' and actor = $1`, resp.User.Id); n != 1 {
		t.Error("no audit line")
	}
}

func TestRegister_AllowsOneAccountPerAddressAndKind(t *testing.T) {
	f := newFixture(t)
	f.merchant(t, "ada@example.com")
	_, err := f.RegisterMerchant(t.Context(), &affiliatev1.RegisterMerchantRequest{
		Email: "ADA@example.com", Password: password, Name: "Ada", WorkspaceName: "Other",
	})
	wantReason(t, err, affiliate.ReasonEmailTaken)
	if n := f.count(t, `select count(*) from workspaces`); n != 1 {
		t.Errorf("%d workspaces after a rejected registration", n)
	}
	partner, err := f.RegisterPartner(t.Context(), &affiliatev1.RegisterPartnerRequest{Email: "ada@example.com", Password: password, Name: "Ada"})
	if err != nil || partner.Workspace != nil || partner.User.Kind != affiliatev1.AccountKind_ACCOUNT_KIND_PARTNER {
		t.Errorf("partner: %v, %v", partner, err)
	}
	if n := f.count(t, `select count(*) from account_audit_log where action = 'account.create' and user_id = $1`, partner.User.Id); n != 1 {
		t.Error("no audit line")
	}
}

func TestLogin_SameErrorForUnknownAddressAndWrongPassword(t *testing.T) {
	f := newFixture(t)
	f.merchant(t, "ada@example.com")
	_, wrong := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: "not this one"})
	_, unknown := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "eve@example.com", Password: "not this one"})
	_, otherKind := f.LoginPartner(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: password})
	for _, err := range []error{wrong, unknown, otherKind} {
		wantReason(t, err, affiliate.ReasonInvalidCredentials)
		if err.Error() != wrong.Error() {
			t.Errorf("%v differs from %v", err, wrong)
		}
	}
	resp, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "Ada@Example.com", Password: password})
	if err != nil || resp.Workspace == nil {
		t.Fatalf("the right password: %v", err)
	}
}

func TestLogin_DelaysAddressAfterTenFailures(t *testing.T) {
	f := newFixture(t)
	f.merchant(t, "ada@example.com")
	for _, email := range []string{"ada@example.com", "nobody@example.com"} {
		try := func(p string) error {
			_, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: email, Password: p})
			return err
		}
		for range 10 {
			wantReason(t, try("wrong password"), affiliate.ReasonInvalidCredentials)
		}
		for _, wait := range []struct {
			seconds int
			header  string
		}{{1, "1"}, {2, "2"}, {4, "4"}, {8, "8"}, {16, "16"}, {32, "32"}, {60, "60"}, {60, "60"}} {
			err := try(password)
			wantReason(t, err, affiliate.ReasonRateLimitExceeded)
			var refusal *affiliate.Error
			if errors.As(err, &refusal); refusal.Metadata["retry_after"] != wait.header {
				t.Errorf("%s: retry after %s, want %s", email, refusal.Metadata["retry_after"], wait.header)
			}
			f.now = f.now.Add(time.Duration(wait.seconds)*time.Second - time.Millisecond)
			wantReason(t, try(password), affiliate.ReasonRateLimitExceeded)
			f.now = f.now.Add(time.Millisecond)
			wantReason(t, try("wrong password"), affiliate.ReasonInvalidCredentials)
		}
		f.now = f.now.Add(16 * time.Minute)
	}
	if _, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: password}); err != nil {
		t.Fatal(err)
	}
	if n := f.count(t, `select count(*) from login_failures`); n == 0 {
		t.Error("a login deleted the failures of another address")
	}
}

func TestLogin_ThrottlesParallelAttempts(t *testing.T) {
	f := newFixture(t)
	f.merchant(t, "ada@example.com")
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
	tried := 0
	for err := range results {
		if errors.Is(err, affiliate.Refuse(affiliate.ReasonInvalidCredentials)) {
			tried++
			continue
		}
		wantReason(t, err, affiliate.ReasonRateLimitExceeded)
	}
	if tried > 10 {
		t.Errorf("%d passwords were compared in parallel", tried)
	}
}

func TestRegister_RejectsAddressWithDisplayName(t *testing.T) {
	f := newFixture(t)
	for _, email := range []string{"Eve <bob@example.com>", "bob@example.com (x)", "<bob@example.com>"} {
		found := f.Check(&affiliatev1.RegisterMerchantRequest{Email: email, Name: "B", Password: password})
		if len(found) != 1 || found[0].Field != "email" {
			t.Errorf("%q: %v", email, found)
		}
	}
}

func refresh(f *fixture, token string) (*affiliatev1.SessionResponse, error) {
	return f.RefreshSession(context.Background(), &affiliatev1.RefreshSessionRequest{RefreshToken: token})
}

func (f *fixture) sessionActive(t *testing.T, id string) bool {
	t.Helper()
	var session affiliate.SessionID
	if err := f.conn.QueryRow(t.Context(), `select id from sessions where user_id = $1 order by created_at desc limit 1`, id).Scan(&session); err != nil {
		t.Fatal(err)
	}
	_, _, ok, err := f.store.LiveSession(t.Context(), session, f.now)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestRefresh_RotatesTokenAndReuseRevokesSession(t *testing.T) {
	f := newFixture(t)
	first := f.merchant(t, "ada@example.com")
	second, err := refresh(f, first.RefreshToken)
	if err != nil || second.RefreshToken == first.RefreshToken || second.Workspace.GetId() != first.Workspace.Id {
		t.Fatalf("refresh: %v, %v", second, err)
	}
	if !f.sessionActive(t, first.User.Id) {
		t.Fatal("the refresh ended the session")
	}
	_, err = refresh(f, first.RefreshToken)
	wantReason(t, err, affiliate.ReasonRefreshTokenInvalid)
	_, err = refresh(f, second.RefreshToken)
	wantReason(t, err, affiliate.ReasonRefreshTokenInvalid)
	if f.sessionActive(t, first.User.Id) {
		t.Error("the session is active after a used token was used again")
	}
}

func TestRefresh_ParallelReuseRevokesSession(t *testing.T) {
	f := newFixture(t)
	first := f.merchant(t, "ada@example.com")
	var wg sync.WaitGroup
	results := make(chan error, 20)
	for range cap(results) {
		wg.Go(func() {
			_, err := refresh(f, first.RefreshToken)
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
		wantReason(t, err, affiliate.ReasonRefreshTokenInvalid)
	}
	if succeeded != 1 || f.sessionActive(t, first.User.Id) {
		t.Errorf("%d calls succeeded; session active: %v", succeeded, f.sessionActive(t, first.User.Id))
	}
}

func TestRefresh_TokensExpire(t *testing.T) {
	f := newFixture(t)
	idle := f.merchant(t, "idle@example.com")
	f.now = f.now.Add(affiliate.RefreshTokenIdle - time.Millisecond)
	used, err := refresh(f, idle.RefreshToken)
	if err != nil {
		t.Fatalf("in the last millisecond: %v", err)
	}
	f.now = f.now.Add(affiliate.RefreshTokenIdle)
	_, err = refresh(f, used.RefreshToken)
	wantReason(t, err, affiliate.ReasonRefreshTokenInvalid)

	busy := f.merchant(t, "busy@example.com")
	start := f.now
	for f.now.Before(start.Add(affiliate.RefreshTokenAbsolute - 20*24*time.Hour)) {
		f.now = f.now.Add(20 * 24 * time.Hour)
		if busy, err = refresh(f, busy.RefreshToken); err != nil {
			t.Fatalf("after %v: %v", f.now.Sub(start), err)
		}
	}
	f.now = start.Add(affiliate.RefreshTokenAbsolute)
	_, err = refresh(f, busy.RefreshToken)
	wantReason(t, err, affiliate.ReasonRefreshTokenInvalid)
	if f.sessionActive(t, busy.User.Id) {
		t.Error("the session is active after 90 days")
	}
	deleted, err := f.store.DeleteEndedSessions(t.Context(), f.now.Add(time.Millisecond), 10)
	if err != nil || deleted != 2 || f.count(t, `select count(*) from refresh_tokens`) != 0 {
		t.Errorf("deleted %d sessions, %v", deleted, err)
	}
}

func TestRefresh_RejectsTokenOfOtherKind(t *testing.T) {
	f := newFixture(t)
	merchant := f.merchant(t, "ada@example.com")
	_, err := f.RefreshPartnerSession(t.Context(), &affiliatev1.RefreshSessionRequest{RefreshToken: merchant.RefreshToken})
	wantReason(t, err, affiliate.ReasonRefreshTokenInvalid)
	if _, err = f.RefreshMerchantSession(t.Context(), &affiliatev1.RefreshSessionRequest{RefreshToken: merchant.RefreshToken}); err != nil {
		t.Errorf("the rejected call has used the token: %v", err)
	}
	for _, text := range []string{"", "x", strings.Repeat("A", 43), strings.Repeat("A", 600)} {
		_, err := refresh(f, text)
		wantReason(t, err, affiliate.ReasonRefreshTokenInvalid)
	}
}

func TestLogout_EndsSessionAndAlwaysSucceeds(t *testing.T) {
	f := newFixture(t)
	session := f.merchant(t, "ada@example.com")
	for range 2 {
		if _, err := f.Logout(t.Context(), &affiliatev1.LogoutRequest{RefreshToken: session.RefreshToken}); err != nil {
			t.Fatal(err)
		}
	}
	if f.sessionActive(t, session.User.Id) {
		t.Error("the session is active after the logout")
	}
	if _, err := f.Logout(t.Context(), &affiliatev1.LogoutRequest{RefreshToken: "nonsense"}); err != nil {
		t.Error(err)
	}
}

func TestCheck_RejectsCommonPasswords(t *testing.T) {
	f := newFixture(t)
	for _, bad := range []string{"password123", "PassWord123", "aaaaaaaaaaaa", "1234567890", "qwertyuiop"} {
		found := f.Check(&affiliatev1.RegisterPartnerRequest{Email: "a@example.com", Name: "A", Password: bad})
		if len(found) != 1 || found[0].Field != "password" {
			t.Errorf("%q: %v", bad, found)
		}
	}
	if found := f.Check(&affiliatev1.RegisterMerchantRequest{Email: "a@example.com", Name: "A", Password: password}); len(found) != 0 {
		t.Error(found)
	}
	if found := f.Check(&affiliatev1.LoginRequest{Password: "password123"}); len(found) != 0 {
		t.Errorf("login rejects a common password: %v", found)
	}
}
