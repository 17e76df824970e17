package account_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
)

func TestAPIKey_Roll(t *testing.T) {
	at := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	soon, late, past := at.Add(time.Hour), at.Add(100*time.Hour), at
	for _, tc := range []struct {
		name    string
		key     account.APIKey
		grace   time.Duration
		expires *time.Time
		revoked bool
		refused affiliate.Reason
	}{
		{name: "without expiry", grace: 2 * time.Hour, expires: pointer(at.Add(2 * time.Hour))},
		{name: "an earlier expiry stays", key: account.APIKey{ExpiresAt: &soon}, grace: 2 * time.Hour, expires: &soon},
		{name: "a later expiry is replaced", key: account.APIKey{ExpiresAt: &late}, grace: 2 * time.Hour, expires: pointer(at.Add(2 * time.Hour))},
		{name: "without grace period", key: account.APIKey{ExpiresAt: &late}, expires: &late, revoked: true},
		{name: "expired", key: account.APIKey{ExpiresAt: &past}, refused: affiliate.ReasonNotFound},
		{name: "revoked", key: account.APIKey{RevokedAt: &at}, refused: affiliate.ReasonNotFound},
		{name: "already rolled", key: account.APIKey{RolledAt: &at, ExpiresAt: &late}, refused: affiliate.ReasonNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.key.Roll(tc.grace, at)
			wantReason(t, "Roll", err, tc.refused)
			if err != nil {
				return
			}
			if (got.ExpiresAt == nil) != (tc.expires == nil) || got.ExpiresAt != nil && !got.ExpiresAt.Equal(*tc.expires) {
				t.Errorf("ExpiresAt is %v, want %v", got.ExpiresAt, tc.expires)
			}
			if got.RolledAt == nil || !got.RolledAt.Equal(at) {
				t.Errorf("RolledAt is %v, want %v", got.RolledAt, at)
			}
			if (got.RevokedAt != nil) != tc.revoked || got.Active(at) == tc.revoked {
				t.Errorf("RevokedAt is %v, and Active() = %v; want revoked: %v", got.RevokedAt, got.Active(at), tc.revoked)
			}
		})
	}
}

func pointer[T any](v T) *T { return &v }

func TestAPIKey_Revoke(t *testing.T) {
	at := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	for name, tc := range map[string]struct {
		key     account.APIKey
		refused affiliate.Reason
	}{
		"active":  {key: account.APIKey{Kind: account.SecretKey}},
		"public":  {key: account.APIKey{Kind: account.PublicKey}, refused: affiliate.ReasonNotFound},
		"expired": {key: account.APIKey{Kind: account.SecretKey, ExpiresAt: &at}, refused: affiliate.ReasonNotFound},
		"revoked": {key: account.APIKey{Kind: account.SecretKey, RevokedAt: &at}, refused: affiliate.ReasonNotFound},
	} {
		got, err := tc.key.Revoke(at)
		wantReason(t, name, err, tc.refused)
		if err == nil && got.Active(at) {
			t.Errorf("%s: the key is active after its revocation", name)
		}
	}
}

func TestCheckSecretKeys_Limit(t *testing.T) {
	wantReason(t, "one key less than allowed", account.CheckKeys(account.MaxSecretKeys-1, account.MaxSecretKeys), "")
	wantReason(t, "as many keys as allowed", account.CheckKeys(account.MaxSecretKeys, account.MaxSecretKeys), affiliate.ReasonAPIKeyLimitExceeded)
}

func TestInvite_Open(t *testing.T) {
	at := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	for name, tc := range map[string]struct {
		invite account.Invite
		open   bool
	}{
		"before its expiry": {account.Invite{ExpiresAt: at.Add(time.Millisecond)}, true},
		"at its expiry":     {account.Invite{ExpiresAt: at}, false},
		"ended":             {account.Invite{ExpiresAt: at.Add(time.Hour), EndedAt: &at}, false},
	} {
		if tc.invite.Open(at) != tc.open {
			t.Errorf("%s: Open() = %v, want %v", name, !tc.open, tc.open)
		}
	}
}
