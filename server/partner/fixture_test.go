package partner_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/commission"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/partner"
	"github.com/tributary-hq/tributary/server/seal"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	counters "github.com/tributary-hq/tributary/storage/postgres/stats"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

const linkHost = "https://go.example"

// fixture is an empty database with the service under test.
type fixture struct {
	*pgtest.Fixture
	service *partner.Service
	keys    *seal.Keys
	clock   *pgtest.Clock
	// owner has the time since which the callers have a second factor.
	owner *anyOwner
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 3, 4, 5, 6, 7, 891_234_567, time.UTC))
	f := &fixture{Fixture: pgtest.Open(t, clock.Now), clock: clock, owner: &anyOwner{}}
	f.useKeys(encryptionKeyEntry("k1", 1))
	return f
}

// encryptionKeyEntry returns one entry of the setting that seal.New parses: the id and the 32
// bytes of an encryption key. All bytes have the value fill.
func encryptionKeyEntry(kid string, fill byte) string {
	return kid + ":" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))
}

// useKeys replaces the service by a service with other encryption keys.
func (f *fixture) useKeys(keys string) {
	f.Helper()
	var err error
	if f.keys, err = seal.New(keys); err != nil {
		f.Fatal(err)
	}
	f.service = partner.New(partner.Config{DB: f.DB, Seal: f.keys, Reauthenticator: f.owner, LinkHost: linkHost, Now: f.Now})
}

func (f *fixture) asPartner(user affiliate.UserID, mode affiliate.Mode) context.Context {
	return servertest.AsPartner(f, user, mode)
}

func (f *fixture) asLivePartner(user affiliate.UserID) context.Context {
	return f.asPartner(user, affiliate.ModeLive)
}

// user creates a partner, whose email address begins with the name.
func (f *fixture) user(name string) affiliate.UserID {
	f.Helper()
	return f.NewPartner(name, pgtest.Row{"email": strings.ToLower(name) + "@example.com", "password_hash": "x"})
}

func (f *fixture) workspace(name string) affiliate.WorkspaceID {
	f.Helper()
	return f.NewWorkspace(pgtest.Row{"name": name})
}

// program is a programme of a workspace.
type programme struct {
	*pgtest.Shop
	clock *pgtest.Clock
}

// program creates a programme one second after the previous one. It is active, public and
// in live mode, unless columns say otherwise.
func (f *fixture) program(workspace affiliate.WorkspaceID, name string, columns pgtest.Row) programme {
	f.Helper()
	f.clock.Advance(time.Second)
	scope := affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeLive}
	if mode, ok := columns["mode"].(string); ok {
		scope.Mode = affiliate.Mode(mode)
	}
	id := f.NewProgram(scope, pgtest.Row{"name": name, "allowed_domains": []string{}, "auto_approve_partners": true}, columns)
	return programme{&pgtest.Shop{Fixture: f.Fixture, Scope: scope, Program: id}, f.clock}
}

// join creates a participant for the partner. The participant has texts that the partner
// must not see; they contain the word secret.
func (p programme) join(partner affiliate.UserID, columns pgtest.Row) pgtest.Participant {
	p.Helper()
	p.clock.Advance(time.Second)
	return p.NewParticipant(p.Scope, p.Program, partner, pgtest.Row{
		"partner_name": "Name", "partner_email": "x@example.com", "note": "secret note", "tags": []string{"secret tag"},
	}, columns)
}

// addCommission records a sale and its commission, which needs review. Both have texts
// that the partner must not see; they contain the word secret.
func (p programme) addCommission(participant pgtest.Participant, change ...func(*commission.Commission)) affiliate.CommissionID {
	p.Helper()
	p.clock.Advance(time.Second)
	secrets := func(c *commission.Commission) {
		c.ExternalTransactionID, c.CustomerRef = "secret-"+c.ExternalTransactionID, new("secret customer "+c.ID.String())
		c.NeedsReview, c.ReviewReasons = true, []string{"secret reason"}
		c.OverrideReason, c.RejectionReason = new("secret override"), new("secret rejection")
	}
	return p.NewCommission(participant, append([]func(*commission.Commission){secrets}, change...)...).ID
}

// addDelta stores a statistics delta that is not yet added to the totals. The tests
// insert deltas by hand, because they need large counts.
func (p programme) addDelta(participant pgtest.Participant, columns pgtest.Row) {
	p.Helper()
	p.Insert("stats_deltas", pgtest.Row{
		"workspace_id": p.Scope.Workspace, "id": affiliate.NewID[affiliate.ID[analytics.StatsDelta]](p.Now()), "mode": p.Scope.Mode, "program_id": p.Program,
		"participant_id": participant.ID, "currency": "",
	}, columns)
}

// foldStats adds all statistics deltas to the stored totals.
func (f *fixture) foldStats() {
	f.Helper()
	if _, err := counters.Fold(f.Context(), f.DB, 1000); err != nil {
		f.Fatal(err)
	}
}

// profile returns the profile as the partner sees it in live mode.
func (f *fixture) profile(user affiliate.UserID) *affiliatev1.PartnerProfile {
	f.Helper()
	p, err := f.service.GetPartnerProfile(f.asLivePartner(user), &affiliatev1.GetPartnerProfileRequest{})
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// dump returns the text of all rows of all tables. Binary columns are hexadecimal.
func (f *fixture) dump() string {
	f.Helper()
	var all strings.Builder
	for _, table := range f.Texts(`
		select format('%I.%I', schemaname, tablename) from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`) {
		all.WriteString(strings.Join(f.Texts(`select t::text from `+table+` t`), "\n") + "\n")
	}
	return all.String()
}

// anyOwner accepts every caller as the owner of the account, unless check returns an error. The
// tests of package account cover the check.
type anyOwner struct {
	factorSince *time.Time
	check       func() error
}

func (o *anyOwner) Reauthenticate(context.Context, string, string) (*time.Time, error) {
	if o.check != nil {
		if err := o.check(); err != nil {
			return nil, err
		}
	}
	return o.factorSince, nil
}
