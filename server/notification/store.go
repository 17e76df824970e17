package notification

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/server"
)

// Store reads and writes feeds and preferences.
type Store interface {
	// InTx runs fn in one transaction, which commits if fn returns nil. It may run fn
	// more than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
	// Choices returns what a user has chosen.
	Choices(ctx context.Context, user affiliate.UserID) (notification.CategoryChoices, error)
	// List returns a page of the notifications that a filter selects, newest first. It
	// also counts them; the number stops at notification.MaxNotificationCount.
	List(ctx context.Context, reader notification.Reader, filter notification.Filter, page affiliate.Page, now time.Time) ([]notification.Entry, int64, error)
	// CountUnread counts the notifications that the reader has not read. The number stops
	// at notification.MaxNotificationCount.
	CountUnread(ctx context.Context, reader notification.Reader, ranges []notification.FeedRange, now time.Time) (int64, error)
	// ReadTimes returns when the reader has read notifications; the time is nil for an
	// unread one. The map contains only notifications that are visible in the ranges.
	ReadTimes(ctx context.Context, reader notification.Reader, ranges []notification.FeedRange, positions []notification.FeedPosition, now time.Time) (map[notification.ID]*time.Time, error)
	// Address returns the e-mail address of a user. Errors: NOT_FOUND.
	Address(ctx context.Context, user affiliate.UserID) (string, error)
	// Suppressed reports whether mails to an address are held back. address is the result
	// of notification.MailDigest.
	Suppressed(ctx context.Context, address affiliate.Digests) (bool, error)
	// InsertTicket stores a ticket. CloseStream deletes a stream.
	InsertTicket(ctx context.Context, ticket notification.StreamTicket) error
	CloseStream(ctx context.Context, id notification.StreamID) error
	// Arrivals returns those of the oldest arrivals that contain notifications of a feed. It
	// reads at most limit arrivals. Waiting reports whether one of the arrivals was not
	// distributed yet.
	Arrivals(ctx context.Context, feed notification.FeedID, limit int) ([]notification.ArrivalID, error)
	Waiting(ctx context.Context, arrivals []notification.ArrivalID) (bool, error)
	// FeedStates returns the states of feeds.
	FeedStates(ctx context.Context, feeds []notification.FeedID) (map[notification.FeedID]notification.FeedState, error)
}

// Tx is a transaction of the store.
type Tx interface {
	server.KeyTx
	// LockFeed locks the read state of a feed until the end of the transaction, so that
	// concurrent calls report what each of them has changed.
	LockFeed(ctx context.Context, feed notification.FeedID) error
	// Choices returns what a user has chosen.
	Choices(ctx context.Context, user affiliate.UserID) (notification.CategoryChoices, error)
	// StoreChoices stores choices. A field that is nil does not change.
	StoreChoices(ctx context.Context, user affiliate.UserID, choices notification.CategoryChoices) error
	// Entry returns a notification, even if it is dismissed. Errors: NOT_FOUND.
	Entry(ctx context.Context, reader notification.Reader, ranges []notification.FeedRange, id notification.ID, now time.Time) (notification.Entry, error)
	// MarkRead stores that a user has read a notification. MarkDismissed stores that a
	// notification is dismissed.
	MarkRead(ctx context.Context, user affiliate.UserID, n notification.Notification, at time.Time) error
	MarkDismissed(ctx context.Context, n notification.Notification, at time.Time) error
	// MarkAllRead marks the notifications before the given time as read. DismissRead
	// dismisses those of them that the reader has read. Both return how many they have
	// changed; the number stops at notification.MaxNotificationCount.
	MarkAllRead(ctx context.Context, reader notification.Reader, ranges []notification.FeedRange, before, now time.Time) (int64, error)
	DismissRead(ctx context.Context, reader notification.Reader, ranges []notification.FeedRange, before, now time.Time) (int64, error)
	// LockProgram locks a programme and returns its status. Errors: NOT_FOUND.
	LockProgram(ctx context.Context, scope affiliate.Scope, id affiliate.ProgramID) (program.Status, error)
	// RecentAnnouncements counts the announcements of a programme since the given time
	// and returns the time of the first of them.
	RecentAnnouncements(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, since time.Time) (count int, first time.Time, err error)
	// Announce stores an announcement and its notifications. It returns the number of
	// participants that it was sent to.
	Announce(ctx context.Context, a notification.Announcement) (recipients int64, err error)
	// Audit appends a line to the audit log of a workspace.
	Audit(ctx context.Context, line affiliate.AuditLine) error
	// AfterCommit registers a callback that runs after the commit.
	AfterCommit(callback func())
	// FeedChanged makes the open streams of a feed count unread notifications again.
	FeedChanged(ctx context.Context, feed notification.FeedID) error

	// LockUser locks a user, so that the user's streams are opened one after another.
	LockUser(ctx context.Context, user affiliate.UserID) error
	// CloseStreamsOfTicket deletes the streams that a ticket has opened, and stores that
	// the ticket was used.
	CloseStreamsOfTicket(ctx context.Context, ticket []byte, now time.Time) error
	// CountStreams counts the streams of a user that were seen since the given time.
	CountStreams(ctx context.Context, user affiliate.UserID, since time.Time) (int, error)
	// OpenStream stores an open stream and returns the state of its feed.
	OpenStream(ctx context.Context, stream notification.Stream, now time.Time) (notification.FeedState, error)
}
