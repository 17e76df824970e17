package account_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
)

func TestGenerateServiceToken_Expiry(t *testing.T) {
	at := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	for _, tc := range []struct {
		name          string
		expires, want time.Time
		refused       affiliate.Reason
	}{
		{name: "default", want: at.Add(90 * 24 * time.Hour)},
		{name: "a year", expires: at.AddDate(1, 0, 0), want: at.AddDate(1, 0, 0)},
		{name: "a moment", expires: at.Add(time.Millisecond), want: at.Add(time.Millisecond)},
		{name: "more than a year", expires: at.AddDate(1, 0, 0).Add(time.Millisecond), refused: affiliate.ReasonValidation},
		{name: "now", expires: at, refused: affiliate.ReasonValidation},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, token, err := account.GenerateServiceToken(account.ServiceToken{
				Scope: affiliate.Scope{Mode: affiliate.ModeTest}, ExpiresAt: tc.expires,
			}, at)
			wantReason(t, "GenerateServiceToken", err, tc.refused)
			if err != nil {
				return
			}
			if !token.ExpiresAt.Equal(tc.want) {
				t.Errorf("ExpiresAt is %v, want %v", token.ExpiresAt, tc.want)
			}
			if parsed, ok := account.ParseKey(text.Reveal()); !ok || parsed.Kind != account.ServiceKey || parsed.Digest() != [32]byte(token.Digest) {
				t.Errorf("%s is not the service token of the record", text)
			}
		})
	}
}

func TestServiceToken_Roll(t *testing.T) {
	created := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	at, life := created.Add(20*time.Hour), 24*time.Hour
	by := affiliate.NewID[affiliate.UserID](at)
	token := account.ServiceToken{
		Scope: affiliate.Scope{Mode: affiliate.ModeLive}, Name: "sync", Role: affiliate.RoleFinance, AllowPayouts: true,
		CreatedAt: created, ExpiresAt: created.Add(life),
	}
	for _, tc := range []struct {
		name    string
		change  func(*account.ServiceToken)
		grace   time.Duration
		expires time.Time
		revoked bool
		refused affiliate.Reason
	}{
		{name: "grace period", grace: time.Hour, expires: at.Add(time.Hour)},
		{name: "an earlier expiry stays", grace: 72 * time.Hour, expires: created.Add(life)},
		{name: "without grace period", expires: created.Add(life), revoked: true},
		{name: "revoked", change: func(t *account.ServiceToken) { t.RevokedAt = &at }, refused: affiliate.ReasonNotFound},
		{name: "already rolled", change: func(t *account.ServiceToken) { t.RolledAt = &at }, refused: affiliate.ReasonNotFound},
		{name: "expired", change: func(t *account.ServiceToken) { t.ExpiresAt = at }, refused: affiliate.ReasonNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := token
			if tc.change != nil {
				tc.change(&before)
			}
			after, _, successor, err := before.Roll(tc.grace, by, at)
			wantReason(t, "Roll", err, tc.refused)
			if err != nil {
				return
			}
			if !after.ExpiresAt.Equal(tc.expires) || (after.RevokedAt != nil) != tc.revoked || after.RolledAt == nil {
				t.Errorf("the old token expires at %v, revoked %t; want %v, %t", after.ExpiresAt, after.RevokedAt != nil, tc.expires, tc.revoked)
			}
			if !successor.ExpiresAt.Equal(at.Add(life)) || successor.CreatedBy != by || successor.Role != token.Role || !successor.AllowPayouts || successor.ID == after.ID {
				t.Errorf("the successor is %+v, want a token of the same role that is valid for %v", successor, life)
			}
		})
	}
}

func TestServiceToken_CheckManageable(t *testing.T) {
	for _, role := range affiliate.Roles() {
		for _, allowPayouts := range []bool{false, true} {
			want := affiliate.ReasonForbidden
			if role == affiliate.RoleOwner || role == affiliate.RoleAdmin && !allowPayouts {
				want = ""
			}
			err := account.ServiceToken{AllowPayouts: allowPayouts}.CheckManageable(role)
			wantReason(t, string(role), err, want)
		}
	}
}
