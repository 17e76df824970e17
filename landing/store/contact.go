package store

import (
	"context"
	"errors"
	"fmt"
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
		_, err := s.jobs.InsertTx(ctx, tx, MailContact{Message: m.ID}, &river.InsertOpts{Queue: MailQueue})
		if err != nil {
			return fmt.Errorf("enqueue the mail: %w", err)
		}
		return nil
	})
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

// ContactMessages returns at most limit messages, newest first. If before is not the zero
// UUID, it returns only older messages than the message with this id.
func (s *Store) ContactMessages(ctx context.Context, before uuid.UUID, limit int) ([]ContactMessage, error) {
	if before == uuid.Nil {
		before = uuid.Max
	}
	rows, _ := s.pool.Query(ctx, contactColumns+`where id < $1 order by id desc limit $2`, before, limit) // CollectRows returns the error
	return pgx.CollectRows(rows, pgx.RowToStructByName[ContactMessage])
}

// MarkMailed stores that the mail server has accepted the mail of a message.
func (s *Store) MarkMailed(ctx context.Context, id uuid.UUID, at time.Time) error {
	_, err := s.pool.Exec(ctx, `update landing.contact_messages set mailed_at = $2 where id = $1`, id, at)
	return err
}
