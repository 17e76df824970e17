package account_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

// sessions returns the ids of the sessions that the list has.
func (f *fixture) sessions(session *affiliatev1.SessionResponse) (ids []string) {
	f.Helper()
	list, err := f.ListPartnerSessions(f.as(session), &affiliatev1.ListSessionsRequest{})
	if err != nil || list.Total != int64(len(list.Data)) {
		f.Fatalf("ListPartnerSessions: %v, %v", list, err)
	}
	for _, s := range list.Data {
		ids = append(ids, s.Id)
	}
	return ids
}

func TestListSessions_ShowsWhereAndWhenSessionsAreUsed(t *testing.T) {
	f := newFixture(t)
	client := f.inServer(t, f.DB)
	began := f.Now()
	first, err := client.RegisterPartner(callFrom(t, "203.0.113.9", firefox), &affiliatev1.RegisterPartnerRequest{
		Email: "ada@blog.example", Password: password, Name: "Ada",
	})
	if err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Minute)
	second, err := client.LoginPartner(callFrom(t, "2001:db8:1:2::3", "a script"), &affiliatev1.LoginRequest{Email: "ada@blog.example", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Minute)
	if _, err := client.RefreshSession(callFrom(t, "198.51.100.7", "another agent"), &affiliatev1.RefreshSessionRequest{RefreshToken: first.RefreshToken}); err != nil {
		t.Fatal(err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+second.AccessToken)
	list, err := client.ListPartnerSessions(ctx, &affiliatev1.ListSessionsRequest{})
	if err != nil || len(list.Data) != 2 || list.Total != 2 {
		t.Fatalf("ListPartnerSessions returned %v, %v, want two sessions", list, err)
	}
	refreshed, login := list.Data[0], list.Data[1]
	if refreshed.Device != "Firefox on Linux" || refreshed.Network != "198.51.100.0/24" || refreshed.Current || !refreshed.CreatedAt.AsTime().Equal(began) ||
		!refreshed.LastUsedAt.AsTime().Equal(f.Now()) || !refreshed.ExpiresAt.AsTime().Equal(f.Now().Add(30*24*time.Hour)) {
		t.Errorf("the refreshed session is %v", refreshed)
	}
	if login.Device != "" || login.Network != "2001:db8:1::/48" || !login.Current || !login.LastUsedAt.AsTime().Equal(f.Now().Add(-time.Minute)) {
		t.Errorf("the session of the call is %v", login)
	}
	ctx = metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+second.AccessToken)
	page, err := client.ListPartnerSessions(ctx, &affiliatev1.ListSessionsRequest{Page: new(int32(2)), PageSize: new(int32(1))})
	if err != nil || page.Total != 2 || len(page.Data) != 1 || page.Data[0].Id != login.Id {
		t.Errorf("the second page is %v, %v", page, err)
	}
}

func TestListSessions_OmitsEndedSessionsAndThoseOfOthers(t *testing.T) {
	f := newFixture(t)
	idle := f.partner("ada@blog.example")
	idleID := f.sessions(idle)[0]
	f.clock.Advance(30 * 24 * time.Hour)
	f.partner("eve@blog.example")
	revoked, err := f.loginPartner("ada@blog.example", password)
	if err != nil {
		t.Fatal(err)
	}
	revokedID := f.sessions(revoked)[0]
	if _, err := f.Logout(t.Context(), &affiliatev1.LogoutRequest{RefreshToken: revoked.RefreshToken}); err != nil {
		t.Fatal(err)
	}
	live, err := f.loginPartner("ada@blog.example", password)
	if err != nil {
		t.Fatal(err)
	}
	if ids := f.sessions(live); len(ids) != 1 || ids[0] == idleID || ids[0] == revokedID {
		t.Errorf("the list has the sessions %v, want only the last login", ids)
	}
}

func TestEndSession(t *testing.T) {
	f := newFixture(t)
	first := f.partner("ada@blog.example")
	firstID := f.sessions(first)[0]
	stranger := f.partner("eve@blog.example")
	strangerID := f.sessions(stranger)[0]
	second, err := f.loginPartner("ada@blog.example", password)
	if err != nil {
		t.Fatal(err)
	}
	end := func(id string) error {
		_, err := f.EndPartnerSession(f.as(second), &affiliatev1.EndSessionRequest{SessionId: id})
		return err
	}
	for _, id := range []string{strangerID, affiliate.NewID[affiliate.SessionID](f.Now()).String(), "no-uuid"} {
		pgtest.RequireRefusal(t, end(id), affiliate.ReasonNotFound)
	}
	if err := end(firstID); err != nil {
		t.Fatal(err)
	}
	pgtest.RequireRefusal(t, end(firstID), affiliate.ReasonNotFound)
	_, err = f.refresh(first.RefreshToken)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	if _, err := f.refresh(stranger.RefreshToken); err != nil {
		t.Errorf("the session of another partner: %v", err)
	}
	if ids := f.sessions(second); len(ids) != 1 || ids[0] == firstID {
		t.Errorf("the list has the sessions %v, want only the session of the call", ids)
	}
	f.WantCount(1, "audit record of the end", `select count(*) from account_audit_log where action = 'account.end_session' and before ->> 'session' = $1`, firstID)
}

func TestEndOtherSessions_KeepsTheSessionOfTheCall(t *testing.T) {
	f := newFixture(t)
	first := f.merchant("mara@shop.example")
	other := f.merchant("mia@other.example")
	f.clock.Advance(time.Second)
	second, err := f.LoginMerchant(f.Context(), &affiliatev1.LoginRequest{Email: "mara@shop.example", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := f.EndOtherMerchantSessions(f.as(second), &affiliatev1.EndOtherSessionsRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = f.refresh(first.RefreshToken)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	for _, kept := range []*affiliatev1.SessionResponse{second, other} {
		if _, err := f.refresh(kept.RefreshToken); err != nil {
			t.Errorf("the session of %s: %v, want success", kept.User.Email, err)
		}
	}
	if !slices.Equal(f.Texts(`select resource_type from audit_log where action = 'account.end_other_sessions'`), []string{"member", "member"}) {
		t.Error("the audit log of the workspace does not have the two calls")
	}
}
