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

// Fixture is a test database with a store. Its methods insert and read rows directly,
// without the store. An error in a method ends the test.
type Fixture struct {
	t testing.TB
	// URL is the URL of the database. A test can use it to open its own connections.
	URL string
	// Store is the store for the service under test.
	Store *postgres.Store
	// SQL is a pool of connections as the owner of the database, who has all rights.
	SQL *pgxpool.Pool
	// Now returns the time of the rows that the fixture inserts.
	Now func() time.Time
}

// Row holds the values of a row by column name.
type Row = map[string]any

// Open creates a database and returns a fixture for it. The database is dropped when
// the test ends.
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

// Exec runs a statement as the owner of the database.
func (f *Fixture) Exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.SQL.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

// Count returns the number that a query selects.
func (f *Fixture) Count(sql string, args ...any) (n int) {
	f.t.Helper()
	if err := f.SQL.QueryRow(f.t.Context(), sql, args...).Scan(&n); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// Texts returns the values of a query that selects one column of type text.
func (f *Fixture) Texts(sql string, args ...any) []string {
	f.t.Helper()
	rows, _ := f.SQL.Query(f.t.Context(), sql, args...)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return texts
}

// Insert inserts a row into a table. If several values contain the same column, the
// last one is used.
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

// NewWorkspace inserts a workspace with the currency EUR.
func (f *Fixture) NewWorkspace(changes ...Row) affiliate.WorkspaceID {
	f.t.Helper()
	now := f.Now()
	id := affiliate.NewID[affiliate.Workspace](now)
	f.Insert("workspaces", append([]Row{{
		"id": id, "name": "Shop", "currency": "EUR", "timezone": "UTC", "created_at": now, "updated_at": now,
	}}, changes...)...)
	return id
}

// NewProgram inserts an active, public programme with the default rules. Its website
// is https://shop.example/, and its allowed domains are shop.example and the subdomains
// of brand.example.
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

// NewEndpoint inserts an active webhook endpoint that receives all events.
func (f *Fixture) NewEndpoint(scope affiliate.Scope) affiliate.EndpointID {
	f.t.Helper()
	id := affiliate.NewID[affiliate.Endpoint](f.Now())
	f.Insert("webhook_endpoints", Row{
		"workspace_id": scope.Workspace, "id": id, "mode": scope.Mode, "url": "https://example.com/", "subscriptions": []string{"*"},
		"active": true, "created_at": f.Now(), "updated_at": f.Now(), "version": 1,
	})
	return id
}

// NewPartner inserts the account of a partner with a unique email address.
func (f *Fixture) NewPartner(name string, changes ...Row) affiliate.UserID {
	f.t.Helper()
	return f.newUser("partner", name, changes)
}

// NewMerchant inserts the account of a merchant who is not a member of any workspace.
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

// StartWorkers starts the job workers of config and stops them when the test ends. Jobs without
// a worker in config stay in the queue.
func (f *Fixture) StartWorkers(config *river.Config) {
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

// Participant is a participant that the fixture has inserted.
type Participant struct {
	ID      affiliate.ParticipantID
	Link    affiliate.LinkID // the default link
	Partner affiliate.UserID
}

// NewParticipant makes a partner an approved participant in a programme. It inserts the
// same rows as an application: the participant, its totals, its default link and
// referral code, and the counts of the lists that contain it.
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

// AuditActions returns the actions on a resource in the audit log, oldest first.
func (f *Fixture) AuditActions(resourceType, id string) []string {
	f.t.Helper()
	return f.Texts(`select action from audit_log where resource_type = $1 and resource_id::text = $2 order by at, id`, resourceType, id)
}

// CountJobs returns the number of jobs of a kind that were inserted.
func (f *Fixture) CountJobs(kind string) int {
	f.t.Helper()
	return f.Count(`select count(*) from river.river_job where kind = $1`, kind)
}

// Events returns the types and the objects of events in the order of publication. If
// ids are given, it returns only the events about objects with these ids.
func (f *Fixture) Events(ids ...string) (types []string, objects []map[string]any) {
	f.t.Helper()
	rows, _ := f.SQL.Query(f.t.Context(), `select type, body from events order by created_at, ctid`)
	var name string
	var body []byte
	_, err := pgx.ForEachRow(rows, []any{&name, &body}, func() error {
		object, _, err := eventData(body)
		if id, _ := object["id"].(string); len(ids) == 0 || slices.Contains(ids, id) {
			types, objects = append(types, name), append(objects, object)
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return types, objects
}

// LastEvent returns the data of the newest event of a type: the object, and the
// previous values of its changed attributes.
func (f *Fixture) LastEvent(name affiliate.EventName) (object, previous map[string]any) {
	f.t.Helper()
	var body []byte
	err := f.SQL.QueryRow(f.t.Context(), `select body from events where type = $1 order by created_at desc, ctid desc limit 1`, name).Scan(&body)
	if err == nil {
		object, previous, err = eventData(body)
	}
	if err != nil {
		f.t.Fatalf("%s: %v", name, err)
	}
	return object, previous
}

// eventData decodes the data of an event's body.
func eventData(event []byte) (object, previous map[string]any, err error) {
	var envelope struct {
		Data struct {
			Object   map[string]any `json:"object"`
			Previous map[string]any `json:"previous_attributes"`
		} `json:"data"`
	}
	err = json.Unmarshal(event, &envelope)
	return envelope.Data.Object, envelope.Data.Previous, err
}

// ReasonOf returns the error code of err, or the empty string if err is nil. It ends the
// test if err has no error code.
func ReasonOf(t testing.TB, err error) affiliate.Reason {
	t.Helper()
	var refusal *affiliate.Error
	if errors.As(err, &refusal) {
		return refusal.Reason
	}
	if err != nil {
		t.Fatalf("the error has no error code: %v", err)
	}
	return ""
}

// RequireRefusal ends the test unless err has the error code reason. fields are the expected
// fields of the first violations in err. An empty string accepts any violation, or
// none, at its position. Refused returns the metadata of the error.
func RequireRefusal(t testing.TB, err error, reason affiliate.Reason, fields ...string) map[string]string {
	t.Helper()
	var refusal *affiliate.Error
	if !errors.As(err, &refusal) || refusal.Reason != reason {
		t.Fatalf("got %v, want %s", err, reason)
	}
	for i, field := range fields {
		if field != "" && (i >= len(refusal.Violations) || refusal.Violations[i].Field != field) {
			t.Fatalf("got %v with the violations %v, want violation %d to be of the field %s", err, refusal.Violations, i, field)
		}
	}
	return refusal.Metadata
}
