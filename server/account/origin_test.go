package account_test

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate/fraud"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// inServer returns a client that calls the service through a server in the same process.
func (f *fixture) inServer(t *testing.T, db *postgres.DB) affiliatev1.AccountServiceClient {
	t.Helper()
	core, err := server.New(server.Config{
		DB: f.DB, Tokens: f.keys, Limiter: servertest.Unlimited{}, Log: slog.New(slog.DiscardHandler), Now: f.Now,
	}, server.Service{Desc: &affiliatev1.AccountService_ServiceDesc, Impl: f.newService(db)})
	if err != nil {
		t.Fatal(err)
	}
	return affiliatev1.NewAccountServiceClient(core.Channel())
}

// callFrom returns the context of a call from a client with this address and user agent.
func callFrom(t *testing.T, address, agent string) context.Context {
	t.Helper()
	md := metadata.Pairs("x-client-ip", address)
	if agent != "" {
		md.Set("x-user-agent", agent)
	}
	return metadata.NewOutgoingContext(t.Context(), md)
}

// origins returns the stored origins of partners as text, oldest first. An origin is the
// network and the browser from which a partner has called the API.
func (f *fixture) origins() []string {
	f.Helper()
	return f.Texts(`
		select concat_ws(' ', ip_prefix, encode(ua_hash, 'hex'), to_char(seen_at at time zone 'UTC', 'HH24:MI:SS'))
		from user_origins order by seen_at, ip_prefix`)
}

func TestPartnerSessions_StoreOrigins(t *testing.T) {
	f := newFixture(t)
	client := f.inServer(t, f.DB)
	agent := func(name string) string {
		return hex.EncodeToString(fraud.AgentHash(hashKeys, name, f.Now()).First())
	}
	credentials := &affiliatev1.LoginRequest{Email: "pat@example.com", Password: password}

	registered, err := client.RegisterPartner(callFrom(t, "203.0.113.9", "Browser/1"), &affiliatev1.RegisterPartnerRequest{
		Email: credentials.Email, Password: password, Name: "Pat",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"203.0.113.0/24 " + agent("Browser/1") + " 07:08:09"}
	if got := f.origins(); !slices.Equal(got, want) {
		t.Fatalf("origins after the registration: %q, want %q", got, want)
	}

	f.clock.Advance(time.Minute)
	if _, err := client.LoginPartner(callFrom(t, "2001:db8:1:2::3", ""), credentials); err != nil {
		t.Fatal(err)
	}
	want = append(want, "2001:db8:1::/48  07:09:09")
	if got := f.origins(); !slices.Equal(got, want) {
		t.Fatalf("origins after the login: %q, want %q", got, want)
	}

	// A client in the same network with the same browser updates the stored origin.
	f.clock.Advance(time.Minute)
	if _, err := client.RefreshSession(callFrom(t, "203.0.113.200", "Browser/1"), &affiliatev1.RefreshSessionRequest{RefreshToken: registered.GetRefreshToken()}); err != nil {
		t.Fatal(err)
	}
	want = []string{want[1], "203.0.113.0/24 " + agent("Browser/1") + " 07:10:09"}
	if got := f.origins(); !slices.Equal(got, want) {
		t.Fatalf("origins after the refresh: %q, want %q", got, want)
	}

	// Rejected calls and calls of merchants store no origins.
	_, _ = client.LoginPartner(callFrom(t, "198.51.100.1", "Browser/1"), &affiliatev1.LoginRequest{Email: credentials.Email, Password: "wrong horse battery"})
	_, _ = client.RefreshSession(callFrom(t, "198.51.100.1", "Browser/1"), &affiliatev1.RefreshSessionRequest{RefreshToken: registered.GetRefreshToken()})
	if _, err := client.RegisterMerchant(callFrom(t, "198.51.100.1", "Browser/1"), &affiliatev1.RegisterMerchantRequest{
		Email: "mara@example.com", Password: password, Name: "Mara", WorkspaceName: "Shop",
	}); err != nil {
		t.Fatal(err)
	}
	if got := f.origins(); !slices.Equal(got, want) {
		t.Errorf("origins after rejected calls and a merchant's call: %q, want %q", got, want)
	}
	if n := f.Count(`select count(*) from user_origins where position('203.0.113.9' in ip_prefix) + position('Browser' in encode(ua_hash, 'escape')) > 0`); n != 0 {
		t.Error("an IP address or a user agent is stored in clear text")
	}
}

func TestSession_OpensWhenOriginCannotBeStored(t *testing.T) {
	f := newFixture(t)
	var failed atomic.Int32
	client := f.inServer(t, f.OpenHooked(func(sql string, _ []any) error {
		if strings.Contains(sql, "insert into user_origins") {
			failed.Add(1)
			return errors.New("disk full")
		}
		return nil
	}))
	session, err := client.RegisterPartner(callFrom(t, "203.0.113.9", "Browser/1"), &affiliatev1.RegisterPartnerRequest{
		Email: "pat@example.com", Password: password, Name: "Pat",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.RefreshSession(callFrom(t, "203.0.113.9", "Browser/1"), &affiliatev1.RefreshSessionRequest{RefreshToken: session.GetRefreshToken()}); err != nil {
		t.Error(err)
	}
	if got := f.origins(); failed.Load() != 2 || len(got) != 0 {
		t.Errorf("%d attempts to store an origin failed and the origins are %q, want 2 failures and no origins", failed.Load(), got)
	}
}
