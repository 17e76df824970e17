package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

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
// is not finished. $1 is the last message of the page before.
const unmailed = `
	select m.id, bool_or(j.id is not null)
	from (select id from landing.contact_messages where mailed_at is null and id > $1 order by id limit $2) m
	left join landing_river.river_job j
		on j.kind = 'mail_contact' and j.finalized_at is null and j.args->>'message' = m.id::text
	group by m.id order by m.id`

// EnqueueLostMails enqueues a mail job for each message that was not mailed and has no
// unfinished job, and returns the number of jobs. It reads batch messages at a time.
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
// UUID, it returns only messages that are older than the one with this id.
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

// Unmailed returns the number of messages that were not mailed, and the time of the oldest
// one. The time is zero if there is none.
func (s *Store) Unmailed(ctx context.Context) (n int64, oldest time.Time, err error) {
	var first *time.Time
	err = s.pool.QueryRow(ctx, `select count(*), min(created_at) from landing.contact_messages where mailed_at is null`).Scan(&n, &first)
	if first != nil {
		oldest = *first
	}
	return n, oldest, err
}
