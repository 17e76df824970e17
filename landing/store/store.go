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
	"errors"
	"fmt"
	"math"
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

// Time returns the time of the database server.
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
// Each transaction deletes at most the given number of rows. If a statement fails, the result purged has
// the numbers of rows that were deleted before.
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

// ContactMessage is a message of the contact form.
type ContactMessage struct {
	ID        uuid.UUID  `json:"id"`
	CreatedAt time.Time  `json:"createdAt"`
	Name      string     `json:"name"`
	Email     string     `json:"email"`
	Message   string     `json:"message"`
	MailedAt  *time.Time `json:"mailedAt"` // nil until the mail server has accepted the mail
}

// AddContactMessage stores a message, and the job that mails it, in one transaction.
func (s *Store) AddContactMessage(ctx context.Context, m ContactMessage) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		const insert = `
			insert into landing.contact_messages (id, created_at, name, email, message)
			values (@id, @created_at, @name, @email, @message)`
		args := pgx.NamedArgs{"id": m.ID, "created_at": m.CreatedAt, "name": m.Name, "email": m.Email, "message": m.Message}
		if _, err := tx.Exec(ctx, insert, args); err != nil {
			return err
		}
		return s.enqueueMail(ctx, tx, m.ID)
	})
}

func (s *Store) enqueueMail(ctx context.Context, tx pgx.Tx, message uuid.UUID) error {
	_, err := s.jobs.InsertTx(ctx, tx, MailContact{Message: message}, &river.InsertOpts{Queue: MailQueue, MaxAttempts: math.MaxInt16})
	if err != nil {
		return fmt.Errorf("enqueue the mail: %w", err)
	}
	return nil
}

// unmailed returns up to $2 messages that were not mailed, and whether each has a job that
// is not finished. $1 is the id of the last message of the previous page.
const unmailed = `
	select m.id, bool_or(j.id is not null)
	from (select id from landing.contact_messages where mailed_at is null and id > $1 order by id limit $2) m
	left join landing_river.river_job j
		on j.kind = 'mail_contact' and j.finalized_at is null and j.args->>'message' = m.id::text
	group by m.id order by m.id`

// EnqueueLostMails enqueues a mail job for each message that was not mailed and has no
// unfinished job. It returns the number of new jobs. Each transaction reads at most the given number of messages.
func (s *Store) EnqueueLostMails(ctx context.Context, batch int) (enqueued int, err error) {
	for after := uuid.Nil; ; {
		read, lost := 0, 0
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			var ids []uuid.UUID
			var id uuid.UUID
			var hasJob bool
			rows, _ := tx.Query(ctx, unmailed, after, batch) // ForEachRow returns the error
			_, err := pgx.ForEachRow(rows, []any{&id, &hasJob}, func() error {
				read++
				if after = id; !hasJob {
					ids = append(ids, id)
				}
				return nil
			})
			for _, id := range ids {
				if err == nil {
					err = s.enqueueMail(ctx, tx, id)
				}
			}
			lost = len(ids)
			return err
		})
		if err != nil {
			return enqueued, err
		}
		if enqueued += lost; read < batch {
			return enqueued, nil
		}
	}
}

const contactColumns = `select id, created_at, name, email, message, mailed_at from landing.contact_messages `

// ContactMessage returns a message. found is false if the message was purged.
func (s *Store) ContactMessage(ctx context.Context, id uuid.UUID) (m ContactMessage, found bool, err error) {
	rows, _ := s.pool.Query(ctx, contactColumns+`where id = $1`, id) // CollectExactlyOneRow returns the error
	m, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[ContactMessage])
	if errors.Is(err, pgx.ErrNoRows) {
		return ContactMessage{}, false, nil
	}
	return m, err == nil, err
}

// ContactMessages returns at most limit messages, newest first. If beforeID is not the zero
// UUID, it returns only messages that are older than the message with this id.
func (s *Store) ContactMessages(ctx context.Context, beforeID uuid.UUID, limit int) ([]ContactMessage, error) {
	if beforeID == uuid.Nil {
		beforeID = uuid.Max
	}
	rows, _ := s.pool.Query(ctx, contactColumns+`where id < $1 order by id desc limit $2`, beforeID, limit) // CollectRows returns the error
	return pgx.CollectRows(rows, pgx.RowToStructByName[ContactMessage])
}

// MarkMailed stores that the mail server has accepted the mail of a message.
func (s *Store) MarkMailed(ctx context.Context, id uuid.UUID, at time.Time) error {
	_, err := s.pool.Exec(ctx, `update landing.contact_messages set mailed_at = $2 where id = $1`, id, at)
	return err
}

// Unmailed returns the number of messages that were not mailed, and the time of the oldest of
// these messages. The time is zero if all messages were mailed.
func (s *Store) Unmailed(ctx context.Context) (n int64, oldest time.Time, err error) {
	var first *time.Time
	err = s.pool.QueryRow(ctx, `select count(*), min(created_at) from landing.contact_messages where mailed_at is null`).Scan(&n, &first)
	if first != nil {
		oldest = *first
	}
	return n, oldest, err
}
