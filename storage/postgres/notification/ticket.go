package notification

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// InsertTicket stores a ticket.
func InsertTicket(ctx context.Context, db *postgres.DB, t notification.StreamTicket) error {
	const insert = `
		insert into notification_stream_tickets (digest, session_id, kind, mode, created_at, expires_at)
		values (@digest, @session, @kind, @mode, @created_at, @expires_at)`
	_, err := db.Exec(ctx, insert, pgx.NamedArgs{
		"digest": t.Digest, "session": t.Session, "kind": t.Kind, "mode": t.Mode, "created_at": t.CreatedAt, "expires_at": t.ExpiresAt,
	})
	return err
}

type ticketRow struct {
	Digest    []byte
	SessionID affiliate.SessionID
	Kind      affiliate.AccountKind
	Mode      affiliate.Mode
	CreatedAt time.Time
	OpenedAt  *time.Time
	ExpiresAt time.Time
}

func (r ticketRow) ticket() notification.StreamTicket {
	return notification.StreamTicket{
		Digest: r.Digest, Session: r.SessionID, Kind: r.Kind, Mode: r.Mode,
		CreatedAt: r.CreatedAt, OpenedAt: r.OpenedAt, ExpiresAt: r.ExpiresAt,
	}
}

// StreamTicket returns the ticket with a digest. found is false if no ticket has it.
func StreamTicket(ctx context.Context, db *postgres.DB, digest []byte) (ticket notification.StreamTicket, found bool, err error) {
	const query = `
		select digest, session_id, kind, mode, created_at, opened_at, expires_at
		from notification_stream_tickets where digest = $1`
	rows, err := db.Query(ctx, query, digest)
	tickets, err := postgres.AllRows(rows, err, ticketRow.ticket)
	if err != nil || len(tickets) == 0 {
		return ticket, false, err
	}
	return tickets[0], true, nil
}
