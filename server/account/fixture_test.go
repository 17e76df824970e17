package account_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/account"
	"github.com/tributary-hq/tributary/server/seal"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

const password = "correct horse battery"

// fixture is an empty database with the service under test.
type fixture struct {
	*account.Service
	*pgtest.Fixture
	keys *server.TokenKeys
	// sealer encrypts the tokens of mails.
	sealer *seal.Keys
	clock  *pgtest.Clock
	// hashKeys are the hash keys of newService.
	hashKeys affiliate.HashKeys
	limiter  limiter
}

// limiter counts calls by zone. In a zone with a limit, it refuses the calls above the limit.
type limiter struct {
	mu     sync.Mutex
	counts map[server.Zone]int
	limits map[server.Zone]int
}

func (l *limiter) Allow(_ context.Context, zone server.Zone, _ string) server.Allowance {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = map[server.Zone]int{}
	}
	l.counts[zone]++
	limit, limited := l.limits[zone]
	return server.Allowance{Allowed: !limited || l.counts[zone] <= limit, RetryAfter: 7}
}

var hashKeys = affiliate.HashKeys{[]byte("hash key")}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	f := &fixture{Fixture: pgtest.Open(t, clock.Now), clock: clock, hashKeys: hashKeys}
	var err error
	f.keys, err = server.ParseTokenKeys("k:"+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", ed25519.SeedSize))), f.Now)
	if err != nil {
		t.Fatal(err)
	}
	f.sealer = servertest.Seal(t)
	f.Service = f.newService(f.DB)
	return f
}

// newService returns an account service that uses a handle of the database.
func (f *fixture) newService(db *postgres.DB) *account.Service {
	return account.New(account.Config{DB: db, Signer: f.keys, Seal: f.sealer, HashKeys: f.hashKeys, Limiter: &f.limiter, Now: f.Now})
}

// merchant registers a merchant with a workspace.
func (f *fixture) merchant(email string) *affiliatev1.SessionResponse {
	f.Helper()
	session, err := f.RegisterMerchant(f.Context(), &affiliatev1.RegisterMerchantRequest{
		Email: email, Password: password, Name: "Mara", WorkspaceName: "Shop",
	})
	if err != nil {
		f.Fatal(err)
	}
	return session
}

func (f *fixture) refresh(token string) (*affiliatev1.SessionResponse, error) {
	return f.RefreshSession(context.Background(), &affiliatev1.RefreshSessionRequest{RefreshToken: token})
}

// sessionWorks reports whether a call with the newest session of a user would be accepted
// now.
func (f *fixture) sessionWorks(user string) bool {
	f.Helper()
	var session affiliate.SessionID
	if err := f.SQL.QueryRow(f.Context(), `select id from sessions where user_id = $1 order by created_at desc limit 1`, user).Scan(&session); err != nil {
		f.Fatal(err)
	}
	_, _, ok, err := accounts.ActiveSession(f.Context(), f.DB, session, f.Now())
	if err != nil {
		f.Fatal(err)
	}
	return ok
}
