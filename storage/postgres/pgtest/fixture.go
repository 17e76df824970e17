package pgtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Fixture is a database with a store on it, and what tests put there and read
// there past the store. Whatever goes wrong in a method ends the test.
type Fixture struct {
	t testing.TB
	// URL is the database's, for connections of a test's own.
	URL string
	// Store is what the service under test gets.
	Store *postgres.Store
	// SQL is the database as its owner sees it, whom no grant limits.
	SQL *pgxpool.Pool
	// Now dates the rows that the fixture makes.
	Now func() time.Time
}

// Row is a row's values by column.
type Row = map[string]any

// Open returns a fixture on a new database, which ends with the test.
func Open(t testing.TB, now func() time.Time) *Fixture {
	t.Helper()
	f := &Fixture{t: t, URL: New(t), Now: now}
	var err error
	if f.Store, err = postgres.Open(t.Context(), postgres.Config{URL: f.URL}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Store.Close)
	if f.SQL, err = pgxpool.New(t.Context(), f.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.SQL.Close)
	return f
}

// Exec runs a statement as the owner.
func (f *Fixture) Exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.SQL.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

// Count is the number that a query selects.
func (f *Fixture) Count(sql string, args ...any) (n int) {
	f.t.Helper()
	if err := f.SQL.QueryRow(f.t.Context(), sql, args...).Scan(&n); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// Texts is the one column of text that a query selects.
func (f *Fixture) Texts(sql string, args ...any) []string {
	f.t.Helper()
	rows, _ := f.SQL.Query(f.t.Context(), sql, args...)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return texts
}

// Insert stores a row, in which later values replace earlier ones.
func (f *Fixture) Insert(table string, values ...Row) {
	f.t.Helper()
	row := merged(values...)
	columns := slices.Sorted(maps.Keys(row))
	places, args := make([]string, len(columns)), make([]any, len(columns))
	for i, column := range columns {
		places[i], args[i] = fmt.Sprintf("$%d", i+1), row[column]
	}
	f.Exec("insert into "+table+" ("+strings.Join(columns, ", ")+") values ("+strings.Join(places, ", ")+")", args...)
}

func merged(values ...Row) Row {
	row := Row{}
	for _, v := range values {
		maps.Copy(row, v)
	}
	return row
}

// NewWorkspace makes a workspace that counts in euros.
func (f *Fixture) NewWorkspace(changes ...Row) affiliate.WorkspaceID {
	f.t.Helper()
	now := f.Now()
	id := affiliate.NewID[affiliate.Workspace](now)
	f.Insert("workspaces", append([]Row{{
		"id": id, "name": "Shop", "currency": "EUR", "timezone": "UTC", "created_at": now, "updated_at": now,
	}}, changes...)...)
	return id
}

// NewProgram makes a programme, active and public, of the default rules, with a
// page on shop.example and brand.example beside it.
func (f *Fixture) NewProgram(scope affiliate.Scope, changes ...Row) affiliate.ProgramID {
	f.t.Helper()
	now := f.Now()
	id := affiliate.NewID[affiliate.Program](now)
	rules, err := json.Marshal(affiliate.DefaultRules())
	if err != nil {
		f.t.Fatal(err)
	}
	f.Insert("programs", append([]Row{{
		"workspace_id": scope.Workspace, "id": id, "mode": scope.Mode, "name": "P", "slug": id.String(), "status": affiliate.ProgramActive,
		"website_url": "https://shop.example/", "allowed_domains": []string{"shop.example", "*.brand.example"}, "currency": "EUR",
		"attribution_window_days": 30, "attribution_model": affiliate.LastClick, "link_param": "via", "auto_approve_partners": false,
		"is_public": true, "rules": string(rules), "rules_version": 1, "created_at": now, "updated_at": now,
	}}, changes...)...)
	return id
}

// NewEndpoint adds a webhook endpoint that follows everything.
func (f *Fixture) NewEndpoint(scope affiliate.Scope) affiliate.EndpointID {
	f.t.Helper()
	id := affiliate.NewID[affiliate.Endpoint](f.Now())
	f.Insert("webhook_endpoints", Row{
		"workspace_id": scope.Workspace, "id": id, "mode": scope.Mode, "url": "https://example.com/", "subscriptions": []string{"*"},
		"active": true, "created_at": f.Now(), "updated_at": f.Now(), "version": 1,
	})
	return id
}

// NewPartner makes a partner's account, with an address that is nobody else's.
func (f *Fixture) NewPartner(name string, changes ...Row) affiliate.UserID {
	f.t.Helper()
	return f.newUser("partner", name, changes)
}

// NewMerchant makes the account of a merchant's person, a member of no workspace.
func (f *Fixture) NewMerchant(name string, changes ...Row) affiliate.UserID {
	f.t.Helper()
	return f.newUser("merchant", name, changes)
}

func (f *Fixture) newUser(kind, name string, changes []Row) affiliate.UserID {
	f.t.Helper()
	now := f.Now()
	id := affiliate.NewID[affiliate.User](now)
	f.Insert("users", append([]Row{{
		"id": id, "kind": kind, "email": "jane-" + id.String() + "@example.com", "password_hash": "", "name": name, "created_at": now,
	}}, changes...)...)
	return id
}

// Work runs the workers of a configuration until the test ends. What has no worker
// there is left.
func (f *Fixture) Work(config *river.Config) {
	f.t.Helper()
	config.SkipUnknownJobCheck, config.Logger = true, slog.New(slog.DiscardHandler)
	client, err := f.Store.WorkerClient(config)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := client.Start(context.WithoutCancel(f.t.Context())); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := client.StopAndCancel(ctx); err != nil {
			f.t.Error(err)
		}
	})
}

// Participant is a participation that the fixture made.
type Participant struct {
	ID      affiliate.ParticipantID
	Link    affiliate.LinkID // the default one
	Partner affiliate.UserID
}

// NewParticipant makes a partner an approved participant, with all that an
// application makes: totals, the default link and its code, and the lengths of
// the lists that it is in.
func (f *Fixture) NewParticipant(scope affiliate.Scope, program affiliate.ProgramID, partner affiliate.UserID, changes ...Row) Participant {
	f.t.Helper()
	now := f.Now()
	p := Participant{affiliate.NewID[affiliate.Participant](now), affiliate.NewID[affiliate.Link](now), partner}
	var name, email string
	if err := f.SQL.QueryRow(f.t.Context(), `select name, email from users where id = $1`, partner).Scan(&name, &email); err != nil {
		f.t.Fatal(err)
	}
	row := merged(append([]Row{{
		"workspace_id": scope.Workspace, "id": p.ID, "program_id": program, "mode": scope.Mode, "partner_id": partner,
		"partner_name": name, "partner_email": email, "status": affiliate.ParticipantApproved, "referral_code": p.ID.String(),
		"application_answers": "{}", "applied_at": now, "created_at": now, "updated_at": now,
	}}, changes...)...)
	code := row["referral_code"]
	f.Insert("participants", row)
	f.Insert("participant_totals", Row{"workspace_id": scope.Workspace, "participant_id": p.ID, "program_id": program})
	f.Insert("links", Row{
		"workspace_id": scope.Workspace, "id": p.Link, "program_id": program, "participant_id": p.ID, "mode": scope.Mode, "code": code,
		"short_key": affiliate.NewShortKey(), "is_default": true, "created_at": now, "updated_at": now,
	})
	f.Insert("link_totals", Row{"workspace_id": scope.Workspace, "link_id": p.Link})
	f.Insert("referral_codes", Row{
		"workspace_id": scope.Workspace, "mode": scope.Mode, "code": code, "program_id": program, "participant_id": p.ID,
		"link_id": p.Link, "created_at": now,
	})
	for _, list := range []string{"links", fmt.Sprintf("participants.%s", row["status"])} {
		f.Exec(`insert into list_counts as c (workspace_id, program_id, what, slot, n) values ($1, $2, $3, 0, 1)
			on conflict (workspace_id, program_id, what, slot) do update set n = c.n + 1`, scope.Workspace, program, list)
	}
	return p
}

// Actions is what the audit log says was done to a thing, in order.
func (f *Fixture) Actions(resourceType, id string) []string {
	f.t.Helper()
	return f.Texts(`select action from audit_log where resource_type = $1 and resource_id::text = $2 order by at, id`, resourceType, id)
}

// Jobs is how many jobs of a kind were asked for.
func (f *Fixture) Jobs(kind string) int {
	f.t.Helper()
	return f.Count(`select count(*) from river.river_job where kind = $1`, kind)
}

// Events are the types and objects of events in the order of publication: of
// those about some things, or of all when no id is given.
func (f *Fixture) Events(about ...string) (types []string, objects []map[string]any) {
	f.t.Helper()
	rows, _ := f.SQL.Query(f.t.Context(), `select type, body from events order by created_at, ctid`)
	var name string
	var body []byte
	_, err := pgx.ForEachRow(rows, []any{&name, &body}, func() error {
		object, _, err := data(body)
		if id, _ := object["id"].(string); len(about) == 0 || slices.Contains(about, id) {
			types, objects = append(types, name), append(objects, object)
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return types, objects
}

// LastEvent is the data of the newest event of a type: its object, and what
// changed of it as it was before.
func (f *Fixture) LastEvent(name affiliate.EventName) (object, previous map[string]any) {
	f.t.Helper()
	var body []byte
	err := f.SQL.QueryRow(f.t.Context(), `select body from events where type = $1 order by created_at desc, ctid desc limit 1`, name).Scan(&body)
	if err == nil {
		object, previous, err = data(body)
	}
	if err != nil {
		f.t.Fatalf("%s: %v", name, err)
	}
	return object, previous
}

func data(event []byte) (object, previous map[string]any, err error) {
	var envelope struct {
		Data struct {
			Object   map[string]any `json:"object"`
			Previous map[string]any `json:"previous_attributes"`
		} `json:"data"`
	}
	err = json.Unmarshal(event, &envelope)
	return envelope.Data.Object, envelope.Data.Previous, err
}

// ReasonOf is what a call was refused with, empty when it succeeded. An accident
// ends the test.
func ReasonOf(t testing.TB, err error) affiliate.Reason {
	t.Helper()
	var refusal *affiliate.Error
	if errors.As(err, &refusal) {
		return refusal.Reason
	}
	if err != nil {
		t.Fatalf("an accident: %v", err)
	}
	return ""
}

// Refused ends the test unless err is a refusal for that reason, and returns the
// refusal's metadata. Fields are those of its first violations; an empty one is
// any, or none.
func Refused(t testing.TB, err error, reason affiliate.Reason, fields ...string) map[string]string {
	t.Helper()
	var refusal *affiliate.Error
	if !errors.As(err, &refusal) || refusal.Reason != reason {
		t.Fatalf("got %v, want %s", err, reason)
	}
	for i, field := range fields {
		if field != "" && (i >= len(refusal.Violations) || refusal.Violations[i].Field != field) {
			t.Fatalf("got %v, violations %v; want one of %s", err, refusal.Violations, field)
		}
	}
	return refusal.Metadata
}
