package notification

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

// ReadNotification marks a notification of the workspace as read by the member.
func (s *Service) ReadNotification(ctx context.Context, req *affiliatev1.ReadNotificationRequest) (*affiliatev1.Notification, error) {
	return s.change(ctx, req.GetNotificationId(), func(tx *postgres.Tx, reader notification.Reader, entry *notification.Entry, at time.Time) error {
		if entry.ReadAt != nil {
			return nil
		}
		entry.ReadAt = &at
		return notifications.MarkRead(ctx, tx, reader.User, entry.Notification, at)
	})
}

// ReadPartnerNotification marks a notification of the partner as read.
func (s *Service) ReadPartnerNotification(ctx context.Context, req *affiliatev1.ReadNotificationRequest) (*affiliatev1.Notification, error) {
	return s.ReadNotification(ctx, req)
}

// DismissNotification removes a notification from the workspace's feed.
func (s *Service) DismissNotification(ctx context.Context, req *affiliatev1.DismissNotificationRequest) (*affiliatev1.Notification, error) {
	return s.change(ctx, req.GetNotificationId(), func(tx *postgres.Tx, _ notification.Reader, entry *notification.Entry, at time.Time) error {
		if entry.DismissedAt != nil {
			return nil
		}
		entry.DismissedAt = &at
		return notifications.MarkDismissed(ctx, tx, entry.Notification, at)
	})
}

// DismissPartnerNotification removes a notification from the partner's feed.
func (s *Service) DismissPartnerNotification(ctx context.Context, req *affiliatev1.DismissNotificationRequest) (*affiliatev1.Notification, error) {
	return s.DismissNotification(ctx, req)
}

// change reads a notification of the caller's feed, applies a change and returns the
// changed notification. Errors: NOT_FOUND.
func (s *Service) change(
	ctx context.Context, idText string,
	apply func(tx *postgres.Tx, reader notification.Reader, entry *notification.Entry, at time.Time) error,
) (*affiliatev1.Notification, error) {
	id := server.PathID[notification.ID](idText)
	reader, at := readerFrom(ctx), s.currentTime()
	var entry notification.Entry
	err := s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		if err := notifications.LockFeed(ctx, tx, reader.Feed); err != nil {
			return err
		}
		choices, err := notifications.Choices(ctx, tx, reader.User)
		if err != nil {
			return err
		}
		if entry, err = notifications.Entry(ctx, tx, reader, reader.Ranges(choices, ""), id, at); err != nil {
			return err
		}
		if err := apply(tx, reader, &entry, at); err != nil {
			return err
		}
		return s.stateChanged(ctx, tx, reader)
	})
	if err != nil {
		return nil, err
	}
	return s.entryToProto(entry), nil
}

// stateChanged makes the open streams of the reader's feed count unread notifications
// again after the commit.
func (s *Service) stateChanged(ctx context.Context, tx *postgres.Tx, reader notification.Reader) error {
	tx.AfterCommit(func() { s.Hub.Changed(reader.Feed) })
	return notifications.FeedChanged(ctx, tx, reader.Feed)
}

// ReadAllNotifications marks the notifications of the workspace as read by the member.
func (s *Service) ReadAllNotifications(ctx context.Context, req *affiliatev1.SelectNotificationsRequest) (*affiliatev1.UpdatedNotifications, error) {
	return s.changeAll(ctx, req, notifications.MarkAllRead)
}

// ReadAllPartnerNotifications marks the notifications of the partner as read.
func (s *Service) ReadAllPartnerNotifications(ctx context.Context, req *affiliatev1.SelectNotificationsRequest) (*affiliatev1.UpdatedNotifications, error) {
	return s.changeAll(ctx, req, notifications.MarkAllRead)
}

// DismissReadNotifications removes the notifications that the member has read from the
// workspace's feed.
func (s *Service) DismissReadNotifications(ctx context.Context, req *affiliatev1.SelectNotificationsRequest) (*affiliatev1.UpdatedNotifications, error) {
	return s.changeAll(ctx, req, notifications.DismissRead)
}

// DismissReadPartnerNotifications removes the notifications that the partner has read
// from the partner's feed.
func (s *Service) DismissReadPartnerNotifications(ctx context.Context, req *affiliatev1.SelectNotificationsRequest) (*affiliatev1.UpdatedNotifications, error) {
	return s.changeAll(ctx, req, notifications.DismissRead)
}

func (s *Service) changeAll(
	ctx context.Context, req *affiliatev1.SelectNotificationsRequest,
	apply func(ctx context.Context, tx *postgres.Tx, reader notification.Reader, ranges []notification.FeedRange, before, now time.Time) (int64, error),
) (*affiliatev1.UpdatedNotifications, error) {
	reader, at := readerFrom(ctx), s.currentTime()
	before := at.Add(time.Millisecond) // includes the notifications of the current millisecond
	if given := req.GetBefore(); given != nil && given.AsTime().Before(before) {
		before = given.AsTime()
	}
	var updated int64
	err := s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		if err := notifications.LockFeed(ctx, tx, reader.Feed); err != nil {
			return err
		}
		choices, err := notifications.Choices(ctx, tx, reader.User)
		if err != nil {
			return err
		}
		if updated, err = apply(ctx, tx, reader, reader.Ranges(choices, categoryOf(req.GetCategory())), before, at); err != nil {
			return err
		}
		return s.stateChanged(ctx, tx, reader)
	})
	if err != nil {
		return nil, err
	}
	return &affiliatev1.UpdatedNotifications{Updated: capped(ctx, updated)}, nil
}
