// Package store has the SQL of the landing service: the waitlist and the contact messages
// in the schema landing, and their jobs in the schema landing_river.
//
// Guarantees: an address is on the waitlist at most once. A contact message and the job
// that mails it commit together, so a stored message is mailed even if the process stops
// right after the commit.
//
// If the connection is lost during COMMIT, it is unknown whether the transaction has
// committed.
package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/tributary-hq/tributary/storage/pgsession"
)

// maxConns is the maximum number of connections that requests and jobs share. The job
// queue keeps one connection open to listen for new jobs.
const maxConns = 10

// connSettings are the settings of each connection. A statement of the service takes
// milliseconds, except the purge, which works in batches.
var connSettings = pgsession.SetStatements(map[string]string{"statement_timeout": "10s", "timezone": "UTC", "jit": "off"})

// Store reads and writes the data of the landing service. It is safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool
	jobs *river.Client[pgx.Tx] // inserts jobs
}

// Open connects to the database at url, which is a libpq connection string. It returns an
// error if the database does not have the schema of this binary (Migrate), or if the
// connections do not keep their sessions (pgsession.Check).
// tracer records spans of statements; nil means none.
func Open(ctx context.Context, url string, tracer pgx.QueryTracer) (*Store, error) {
	if err := pgsession.Check(ctx, url); err != nil {
		return nil, err
	}
	config, err := pgsession.ParsePool(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = maxConns
	config.ConnConfig.Tracer = tracer
	config.ConnConfig.RuntimeParams["application_name"] = "tributary-landing"
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, connSettings)
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if err := checkSchema(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: queueSchema, Middleware: []rivertype.Middleware{&pgsession.DueNow{}}})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("job inserter: %w", err)
	}
	return &Store{pool: pool, jobs: jobs}, nil
}

// Close waits until no connection is in use and closes all connections.
func (s *Store) Close() { s.pool.Close() }

// Ping reports whether the database responds.
func (s *Store) Ping(ctx context.Context) error { return s.pool.Ping(ctx) }

// Time returns the time of the server.
func (s *Store) Time(ctx context.Context) (at time.Time, err error) {
	err = s.pool.QueryRow(ctx, `select clock_timestamp()`).Scan(&at)
	return at, err
}

// Pool returns the connection pool.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// WorkerClient creates a River client that runs the jobs for which cfg has workers. It
// sets the schema in cfg.
func (s *Store) WorkerClient(cfg *river.Config) (*river.Client[pgx.Tx], error) {
	cfg.Schema = queueSchema
	cfg.Middleware = append(cfg.Middleware, &pgsession.DueNow{})
	return river.NewClient(riverpgxv5.New(s.pool), cfg)
}

// MailQueue is the queue of MailContact jobs. A process without a mail server does not
// read it, so the jobs wait.
const MailQueue = "mail"

// MailContact is the job that mails a contact message to the operator.
type MailContact struct {
	Message uuid.UUID `json:"message"`
}

// Kind returns the name of the job in the database.
func (MailContact) Kind() string { return "mail_contact" }

// addToWaitlist updates the row if the address is already on the waitlist. The update
// changes no value. It makes both cases write to the WAL, so that the response time does
// not show whether the address is new.
const addToWaitlist = `
	insert into landing.waitlist_entries (email, created_at) values ($1, $2)
	on conflict (email) do update set email = excluded.email`

// AddToWaitlist adds an address. If the address is on the waitlist, its data does not change.
func (s *Store) AddToWaitlist(ctx context.Context, email string, at time.Time) error {
	_, err := s.pool.Exec(ctx, addToWaitlist, email, at)
	return err
}

// CountWaitlist returns the number of addresses on the waitlist.
func (s *Store) CountWaitlist(ctx context.Context) (n int64, err error) {
	err = s.pool.QueryRow(ctx, `select count(*) from landing.waitlist_entries`).Scan(&n)
	return n, err
}

// The statements of the purge. At the time $1, each deletes at most $2 rows that are at
// least 12 months old, the oldest first.
const (
	purgeWaitlist = `
		delete from landing.waitlist_entries where email = any (array(
			select email from landing.waitlist_entries where created_at <= $1::timestamptz - interval '12 months' order by created_at limit $2))`
	purgeContacts = `
		delete from landing.contact_messages where id = any (array(
			select id from landing.contact_messages where created_at <= $1::timestamptz - interval '12 months' order by created_at limit $2))`
)

// Purged contains the numbers of deleted rows.
type Purged struct{ Waitlist, Contacts int64 }

// Purge deletes the waitlist entries and contact messages that are at least 12 months old.
// Each transaction deletes at most batch rows. If a statement fails, Purged has the rows
// that were deleted before.
func (s *Store) Purge(ctx context.Context, now time.Time, batch int) (purged Purged, err error) {
	for _, table := range []struct {
		name, sql string
		deleted   *int64
	}{
		{"waitlist", purgeWaitlist, &purged.Waitlist},
		{"contact messages", purgeContacts, &purged.Contacts},
	} {
		for {
			tag, err := s.pool.Exec(ctx, table.sql, now, batch)
			if err != nil {
				return purged, fmt.Errorf("purge %s: %w", table.name, err)
			}
			*table.deleted += tag.RowsAffected()
			if tag.RowsAffected() < int64(batch) {
				break
			}
		}
	}
	return purged, nil
}
