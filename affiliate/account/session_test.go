package account_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
)

var sessionStart = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

// A session of a browser is idle for 12 hours, or for 30 days if the user stays logged in, but
// never longer than 90 days after the login.
func TestSession_BindBrowser(t *testing.T) {
	const day = 24 * time.Hour
	partner := account.Account{User: account.User{Kind: affiliate.Partner}}
	for _, tc := range []struct {
		name string
		kind affiliate.AccountKind
		keep bool
		// renewed is the time from the login to a renewal, and idle from the login to the idle
		// expiry after the renewal. idle is 0 if the renewal is rejected.
		renewed, idle time.Duration
	}{
		{name: "not kept", kind: affiliate.Partner, renewed: 12*time.Hour - time.Millisecond, idle: 24*time.Hour - time.Millisecond},
		{name: "not kept, after 12 hours", kind: affiliate.Partner, renewed: 12 * time.Hour},
		{name: "kept", kind: affiliate.Partner, keep: true, renewed: 30*day - time.Millisecond, idle: 60*day - time.Millisecond},
		{name: "kept, after 30 days", kind: affiliate.Partner, keep: true, renewed: 30 * day},
		{name: "other kind", kind: affiliate.Merchant},
	} {
		t.Run(tc.name, func(t *testing.T) {
			session := account.NewSession(affiliate.NewID[affiliate.UserID](sessionStart), "", "", sessionStart)
			bound, err := session.BindBrowser(partner, tc.kind, [32]byte{1}, tc.keep, sessionStart)
			if err == nil {
				bound, err = bound.Refresh(partner, nil, "203.0.113.0/24", sessionStart.Add(tc.renewed))
			}
			if tc.idle == 0 {
				if !errors.Is(err, affiliate.Refuse(affiliate.ReasonRefreshTokenInvalid)) {
					t.Errorf("the renewal returns %v, error %v; want %s", bound, err, affiliate.ReasonRefreshTokenInvalid)
				}
				return
			}
			if want := sessionStart.Add(tc.idle); err != nil || !bound.IdleExpiresAt.Equal(want) || !bound.ExpiresAt.Equal(session.ExpiresAt) {
				t.Errorf("the renewed session is %v, error %v; want the idle expiry %v", bound, err, want)
			}
		})
	}
}

func TestSession_Refresh(t *testing.T) {
	const day = 24 * time.Hour
	member := &account.Member{Role: affiliate.RoleViewer}
	merchant, partner := affiliate.Merchant, affiliate.Partner
	for _, tc := range []struct {
		name    string
		account account.Account
		kind    *affiliate.AccountKind
		revoked bool
		after   time.Duration
		idle    time.Duration // time from the start to the idle expiry of the refreshed session; 0 if rejected
	}{
		{name: "at once", account: account.Account{User: account.User{Kind: merchant}, Member: member}, idle: 30 * day},
		{name: "in the last millisecond", account: account.Account{User: account.User{Kind: partner}}, after: 30*day - time.Millisecond, idle: 60*day - time.Millisecond},
		{name: "after 30 days", account: account.Account{User: account.User{Kind: partner}}, after: 30 * day},
		{name: "revoked", account: account.Account{User: account.User{Kind: partner}}, revoked: true},
		{name: "removed merchant", account: account.Account{User: account.User{Kind: merchant}}},
		{name: "route for the account's kind", account: account.Account{User: account.User{Kind: partner}}, kind: &partner, idle: 30 * day},
		{name: "route for the other kind", account: account.Account{User: account.User{Kind: partner}}, kind: &merchant},
	} {
		t.Run(tc.name, func(t *testing.T) {
			session := account.NewSession(affiliate.NewID[affiliate.UserID](sessionStart), "192.0.2.0/24", "", sessionStart)
			if tc.revoked {
				session.RevokedAt = &sessionStart
			}
			got, err := session.Refresh(tc.account, tc.kind, "", sessionStart.Add(tc.after))
			if tc.idle == 0 {
				if !errors.Is(err, affiliate.Refuse(affiliate.ReasonRefreshTokenInvalid)) {
					t.Errorf("Refresh returns %v, error %v; want %s", got, err, affiliate.ReasonRefreshTokenInvalid)
				}
				return
			}
			if want := sessionStart.Add(tc.idle); err != nil || !got.IdleExpiresAt.Equal(want) || got.ExpiresAt != session.ExpiresAt {
				t.Errorf("Refresh returns idle expiry %v and expiry %v, error %v; want %v and %v", got.IdleExpiresAt, got.ExpiresAt, err, want, session.ExpiresAt)
			}
		})
	}
}

func TestSession_RefreshEndsAfterNinetyDays(t *testing.T) {
	owner := account.Account{User: account.User{Kind: affiliate.Partner}}
	session := account.NewSession(affiliate.NewID[affiliate.UserID](sessionStart), "192.0.2.0/24", "", sessionStart)
	var err error
	for day := 25; day < 90; day += 25 {
		if session, err = session.Refresh(owner, nil, "", sessionStart.AddDate(0, 0, day)); err != nil {
			t.Fatal(err)
		}
	}
	if session.IdleExpiresAt != session.ExpiresAt || session.ExpiresAt != sessionStart.AddDate(0, 0, 90) {
		t.Errorf("idle expiry %v, expiry %v; want both 90 days after %v", session.IdleExpiresAt, session.ExpiresAt, sessionStart)
	}
	if _, err := session.Refresh(owner, nil, "", session.ExpiresAt); !errors.Is(err, affiliate.Refuse(affiliate.ReasonRefreshTokenInvalid)) {
		t.Errorf("Refresh after 90 days: error %v, want %s", err, affiliate.ReasonRefreshTokenInvalid)
	}
}

func TestLoginWait(t *testing.T) {
	last := sessionStart
	for _, tc := range []struct {
		failures int
		wait     time.Duration
	}{
		{0, 0},
		{9, 0},
		{10, time.Second},
		{11, 2 * time.Second},
		{15, 32 * time.Second},
		{16, time.Minute},
		{1000, time.Minute},
	} {
		if got := account.LoginWait(tc.failures, last, last); got != tc.wait {
			t.Errorf("LoginWait after %d failures = %v, want %v", tc.failures, got, tc.wait)
		}
		if got := account.LoginWait(tc.failures, last, last.Add(tc.wait)); got != 0 {
			t.Errorf("LoginWait after %d failures and the wait = %v, want 0", tc.failures, got)
		}
	}
}
