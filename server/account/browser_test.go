package account_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/server/workspace"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const (
	merchantKind = affiliatev1.AccountKind_ACCOUNT_KIND_MERCHANT
	partnerKind  = affiliatev1.AccountKind_ACCOUNT_KIND_PARTNER
)

// bind exchanges the refresh token of a session for the secret of a browser.
func (f *fixture) bind(session *affiliatev1.SessionResponse, keep bool) *affiliatev1.BindBrowserResponse {
	f.Helper()
	bound, err := f.BindBrowser(f.Context(), &affiliatev1.BindBrowserRequest{RefreshToken: session.RefreshToken, Kind: session.User.Kind, KeepLoggedIn: keep})
	if err != nil {
		f.Fatal(err)
	}
	return bound
}

func (f *fixture) renew(secret string, kind affiliatev1.AccountKind) (*affiliatev1.SessionResponse, error) {
	return f.RenewBrowserSession(f.Context(), &affiliatev1.RenewBrowserSessionRequest{BrowserSecret: secret, Kind: kind})
}

// wantEnded checks that a browser's secret gives no access token.
func (f *fixture) wantEnded(secret string, kind affiliatev1.AccountKind) {
	f.Helper()
	_, err := f.renew(secret, kind)
	pgtest.RequireRefusal(f.TB, err, affiliate.ReasonRefreshTokenInvalid)
}

func TestBindBrowser_ReplacesRefreshToken(t *testing.T) {
	f := newFixture(t)
	for _, open := range []func(email string) *affiliatev1.SessionResponse{f.merchant, f.partner} {
		session := open("ada@example.com")
		bound := f.bind(session, false)
		if bound.IdleExpiresIn != 12*60*60 || bound.ExpiresIn != 90*24*60*60 || len(bound.BrowserSecret) != 43 {
			t.Errorf("BindBrowser returned %v, want a secret for 12 hours without use and 90 days", bound)
		}
		for range 2 {
			renewed, err := f.renew(bound.BrowserSecret, session.User.Kind)
			if err != nil || renewed.AccessToken == "" || renewed.RefreshToken != "" || renewed.User.Id != session.User.Id ||
				renewed.Workspace.GetId() != session.Workspace.GetId() {
				t.Fatalf("RenewBrowserSession returned %v, %v, want the account and no refresh token", renewed, err)
			}
		}
		if n := f.Count(`select count(*) from refresh_tokens where used_at is null`); n != 0 {
			t.Errorf("%d refresh tokens are not used, want none", n)
		}
		// Somebody has copied the refresh token.
		_, err := f.refresh(session.RefreshToken)
		pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
		f.wantEnded(bound.BrowserSecret, session.User.Kind)
	}
}

func TestBindBrowser_WorksOnce(t *testing.T) {
	f := newFixture(t)
	session := f.merchant("ada@example.com")
	bind := func(token string, kind affiliatev1.AccountKind) error {
		_, err := f.BindBrowser(t.Context(), &affiliatev1.BindBrowserRequest{RefreshToken: token, Kind: kind})
		return err
	}
	pgtest.RequireRefusal(t, bind(session.RefreshToken, partnerKind), affiliate.ReasonRefreshTokenInvalid)
	for _, token := range []string{"x", strings.Repeat("A", 43)} {
		pgtest.RequireRefusal(t, bind(token, merchantKind), affiliate.ReasonRefreshTokenInvalid)
	}
	bound := f.bind(session, true)
	pgtest.RequireRefusal(t, bind(session.RefreshToken, merchantKind), affiliate.ReasonRefreshTokenInvalid)
	f.wantEnded(bound.BrowserSecret, merchantKind)
	if f.sessionWorks(session.User.Id) {
		t.Error("the session works after its refresh token was used twice")
	}
}

func TestRenewBrowserSession_RejectsOtherSecrets(t *testing.T) {
	f := newFixture(t)
	merchant, partner := f.bind(f.merchant("ada@example.com"), false), f.bind(f.partner("ada@example.com"), false)
	f.wantEnded(merchant.BrowserSecret, partnerKind)
	f.wantEnded(partner.BrowserSecret, merchantKind)
	for _, secret := range []string{"", "x", strings.Repeat("A", 43), strings.Repeat("A", 600)} {
		f.wantEnded(secret, merchantKind)
	}
	refresh := f.merchant("bob@example.com").RefreshToken
	f.wantEnded(refresh, merchantKind)
	if _, err := f.renew(merchant.BrowserSecret, merchantKind); err != nil {
		t.Errorf("the refused calls ended the session: %v", err)
	}
}

func TestRenewBrowserSession_Expires(t *testing.T) {
	const day = 24 * time.Hour
	for _, tc := range []struct {
		name string
		keep bool
		idle time.Duration
	}{
		{name: "12 hours without use", idle: 12 * time.Hour},
		{name: "30 days without use", keep: true, idle: 30 * day},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			start, session := f.Now(), f.partner("ada@example.com")
			bound := f.bind(session, tc.keep)
			// Each renewal moves the end of the idle time, until 90 days after the login.
			for f.Now().Sub(start)+tc.idle < 90*day {
				f.clock.Advance(tc.idle - time.Millisecond)
				if _, err := f.renew(bound.BrowserSecret, partnerKind); err != nil {
					t.Fatalf("a renewal after %v failed: %v", f.Now().Sub(start), err)
				}
			}
			f.clock.Set(start.Add(90 * day))
			f.wantEnded(bound.BrowserSecret, partnerKind)

			idle := f.bind(f.partner("bob@example.com"), tc.keep)
			f.clock.Advance(tc.idle)
			f.wantEnded(idle.BrowserSecret, partnerKind)
			if n, err := accounts.DeleteEndedSessions(t.Context(), f.DB, start.Add(91*day), 10); err != nil || n != 1 {
				t.Errorf("DeleteEndedSessions deleted %d sessions, %v, want 1", n, err)
			}
		})
	}
}

// Tabs of a browser renew at the same time, and the responses to some of them are lost.
func TestRenewBrowserSession_InParallel(t *testing.T) {
	f := newFixture(t)
	session := f.partner("ada@example.com")
	bound := f.bind(session, false)
	f.clock.Advance(time.Hour)
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if _, err := f.renew(bound.BrowserSecret, partnerKind); err != nil {
				t.Errorf("a renewal failed: %v", err)
			}
		})
	}
	wg.Wait()
	if n := f.Count(`select count(*) from sessions where idle_expires_at = $1 and revoked_at is null`, f.Now().Add(account.BrowserIdle)); n != 1 || !f.sessionWorks(session.User.Id) {
		t.Errorf("%d sessions end 12 hours after the renewals, want 1", n)
	}
	if f.limiter.counts[server.ZoneSession] != 200 || f.limiter.counts[server.ZoneAuth] != 0 {
		t.Errorf("the renewals count as %v, want 200 in the zone session", f.limiter.counts)
	}
}

func TestRenewBrowserSession_StoresDeviceAndOriginOnceAnHour(t *testing.T) {
	f := newFixture(t)
	client := f.inServer(t, f.DB)
	bound := f.bind(f.partner("ada@example.com"), true)
	for _, wait := range []time.Duration{10 * time.Minute, time.Second, 10 * time.Minute, time.Hour} {
		f.clock.Advance(wait)
		request := &affiliatev1.RenewBrowserSessionRequest{BrowserSecret: bound.BrowserSecret, Kind: partnerKind}
		if _, err := client.RenewBrowserSession(callFrom(t, "203.0.113.9", "Browser"), request); err != nil {
			t.Fatal(err)
		}
	}
	// The fixture starts at 07:08:09, so only the last renewal is in another hour.
	if n := f.Count(`select count(*) from user_origins where ip_prefix = '203.0.113.0/24' and seen_at = $1`, f.Now()); n != 1 || len(f.origins()) != 1 {
		t.Errorf("the origins are %v, want one of the last renewal", f.origins())
	}
	f.WantCount(1, "devices of the last renewal", `select count(*) from user_devices where seen_at = $1`, f.Now())
}

func TestBrowserSession_Ends(t *testing.T) {
	for _, tc := range []struct {
		name string
		kind affiliatev1.AccountKind
		end  func(f *fixture, session *affiliatev1.SessionResponse, secret string)
	}{
		{"logout", merchantKind, func(f *fixture, _ *affiliatev1.SessionResponse, secret string) {
			for _, text := range []string{secret, secret, strings.Repeat("A", 43), "nonsense"} {
				if _, err := f.EndBrowserSession(f.Context(), &affiliatev1.EndBrowserSessionRequest{BrowserSecret: text}); err != nil {
					f.Error(err)
				}
			}
		}},
		{"password reset", partnerKind, func(f *fixture, session *affiliatev1.SessionResponse, _ string) {
			if err := f.resetPartner(f.resetToken(session.User.Email), newPassword); err != nil {
				f.Fatal(err)
			}
		}},
		{"removal from the workspace", merchantKind, func(f *fixture, session *affiliatev1.SessionResponse, _ string) {
			id, _ := affiliate.ParseID[affiliate.WorkspaceID](session.Workspace.Id)
			user, _ := affiliate.ParseID[affiliate.UserID](session.User.Id)
			scope, other := affiliate.Scope{Workspace: id, Mode: affiliate.ModeLive}, f.NewMember(id, affiliate.RoleOwner)
			members := workspace.New(f.DB, f.sealer, server.Invitations{Limiter: servertest.Unlimited{}}, f.Now)
			ctx := servertest.AsMember(f, scope, other, affiliate.RoleOwner)
			if _, err := members.RemoveMember(ctx, &affiliatev1.RemoveMemberRequest{MemberId: user.String()}); err != nil {
				f.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			session := f.partner("ada@example.com")
			if tc.kind == merchantKind {
				session = f.merchant("ada@example.com")
			}
			bound := f.bind(session, true)
			if _, err := f.renew(bound.BrowserSecret, tc.kind); err != nil {
				t.Fatal(err)
			}
			tc.end(f, session, bound.BrowserSecret)
			f.wantEnded(bound.BrowserSecret, tc.kind)
			if f.sessionWorks(session.User.Id) {
				t.Error("the access token of the browser still works")
			}
		})
	}
}

func TestBrowserSession_Limits(t *testing.T) {
	f := newFixture(t)
	session := f.partner("ada@example.com")
	bound := f.bind(session, false)
	f.limiter.limits = map[server.Zone]int{server.ZoneSession: 2, server.ZoneAuth: 3}
	for range 2 {
		if _, err := f.renew(bound.BrowserSecret, partnerKind); err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.renew(bound.BrowserSecret, partnerKind)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRateLimitExceeded)

	f.wantEnded(strings.Repeat("A", 43), partnerKind)
	f.wantEnded(bound.BrowserSecret, merchantKind)
	_, err = f.BindBrowser(t.Context(), &affiliatev1.BindBrowserRequest{RefreshToken: "x", Kind: partnerKind})
	pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	_, err = f.renew("x", partnerKind)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRateLimitExceeded)
	_, err = f.BindBrowser(t.Context(), &affiliatev1.BindBrowserRequest{RefreshToken: "x", Kind: partnerKind})
	pgtest.RequireRefusal(t, err, affiliate.ReasonRateLimitExceeded)
}
