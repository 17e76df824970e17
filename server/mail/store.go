package mail

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// Store reads and changes mails, suppressed addresses and messages of the mail provider in
// the database. The digests of an address are the result of notification.MailDigest.
type Store interface {
	// Mail returns a mail. Errors: NOT_FOUND.
	Mail(ctx context.Context, id notification.MailID) (notification.StoredMail, error)
	// Suppressed reports whether an address is suppressed. It stores a suppression under the
	// first digest if it was stored under another one.
	Suppressed(ctx context.Context, address affiliate.Digests) (bool, error)
	// Log returns one page of the notification log of a workspace, newest first, and the
	// number of all matching entries. The number stops at affiliate.MaxTotal. The entries
	// have no HTML and no text.
	Log(ctx context.Context, workspace affiliate.WorkspaceID, filter notification.MailLogFilter, page affiliate.Page) ([]notification.MailLogEntry, int64, error)
	// LogEntry returns an entry of the notification log. Errors:
	// NOTIFICATION_LOG_NOT_FOUND.
	LogEntry(ctx context.Context, workspace affiliate.WorkspaceID, id notification.MailID) (notification.MailLogEntry, error)
	// InTx runs fn in one transaction, which commits if fn returns nil.
	InTx(ctx context.Context, fn func(tx Tx) error) error
}

// Tx is a transaction of the store.
type Tx interface {
	// CompleteMail stores the outcome of a mail and deletes its token. It has no effect
	// if the mail is not pending.
	CompleteMail(ctx context.Context, outcome notification.MailOutcome) error
	// Suppress suppresses addresses. An address that is already suppressed keeps its
	// earlier reason. digests are the first digests of the addresses.
	Suppress(ctx context.Context, reason notification.SuppressionReason, at time.Time, digests ...[]byte) error
	// RecordProviderMessage stores the id of a message of the mail provider. isNew is
	// false if the id is already stored.
	RecordProviderMessage(ctx context.Context, id string, at time.Time) (isNew bool, err error)
}
