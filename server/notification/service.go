// Package notification serves the notification feeds, the read state and the preferences
// of members and partners.
//
// It guarantees that a caller sees only notifications of the own workspace or account, of
// the own mode, and of the categories that the caller's role receives. Notifications
// themselves are created in the transaction of their cause, not here.
package notification

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

// Config holds the dependencies of the service.
type Config struct {
	DB  *postgres.DB
	Hub *Hub
	Log *slog.Logger
	// AppURL is the base URL of the dashboard. If it is empty, notifications have no
	// action URL.
	AppURL string
	// HashKeys are the secret keys with which e-mail addresses are hashed and unsubscribe
	// links are signed.
	HashKeys affiliate.HashKeys
	Now      func() time.Time
	// Metrics measures streams. nil means that they are not measured.
	Metrics *Metrics
}

// Service implements affiliate.v1.NotificationService.
type Service struct {
	affiliatev1.UnimplementedNotificationServiceServer
	db          *postgres.DB
	hub         *Hub
	log         *slog.Logger
	appURL      string
	hashKeys    affiliate.HashKeys
	now         func() time.Time
	unsubscribe notification.UnsubscribeTokens
	metrics     *Metrics
	// pingInterval is how often a stream sends a comment.
	pingInterval time.Duration
}

// New returns the service.
func New(config Config) *Service {
	if config.Metrics == nil {
		config.Metrics = NewMetrics(prometheus.NewRegistry(), func() time.Duration { return 0 })
	}
	return &Service{
		db: config.DB, hub: config.Hub, log: config.Log, appURL: config.AppURL, hashKeys: config.HashKeys, now: config.Now,
		unsubscribe: notification.NewUnsubscribeTokens(config.HashKeys),
		metrics:     config.Metrics, pingInterval: pingInterval,
	}
}

// currentTime returns the current time in UTC, truncated to the precision of the API,
// which is milliseconds.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// readerFrom returns the caller as the reader of a feed.
func readerFrom(ctx context.Context) notification.Reader {
	p := server.PrincipalFrom(ctx)
	reader := notification.Reader{User: p.User, Mode: p.Mode, Role: p.Role}
	if p.Kind == server.PartnerToken {
		reader.Kind, reader.Feed = affiliate.Partner, notification.PartnerFeed(p.User)
	} else {
		reader.Kind, reader.Feed = affiliate.Merchant, notification.WorkspaceFeed(p.Workspace)
	}
	return reader
}

// ListNotifications returns a page of the workspace's feed.
func (s *Service) ListNotifications(ctx context.Context, req *affiliatev1.ListNotificationsRequest) (*affiliatev1.ListNotificationsResponse, error) {
	return s.list(ctx, req)
}

// ListPartnerNotifications returns a page of the partner's feed.
func (s *Service) ListPartnerNotifications(ctx context.Context, req *affiliatev1.ListNotificationsRequest) (*affiliatev1.ListNotificationsResponse, error) {
	return s.list(ctx, req)
}

func (s *Service) list(ctx context.Context, req *affiliatev1.ListNotificationsRequest) (*affiliatev1.ListNotificationsResponse, error) {
	reader := readerFrom(ctx)
	choices, err := notifications.Choices(ctx, s.db, reader.User)
	if err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	filter := notification.Filter{Ranges: reader.Ranges(choices, categoryOf(req.GetCategory())), UnreadOnly: req.GetUnread()}
	entries, total, err := notifications.List(ctx, s.db, reader, filter, page, s.currentTime())
	if err != nil {
		return nil, err
	}
	resp := &affiliatev1.ListNotificationsResponse{
		Data: make([]*affiliatev1.Notification, len(entries)), Total: capped(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), // both were int32 in the request
	}
	for i, entry := range entries {
		resp.Data[i] = s.entryToProto(entry)
	}
	return resp, nil
}

// capped returns a number of notifications for the response. If it is higher than the
// number to which notifications are counted, the response gets the header Total-Capped.
func capped(ctx context.Context, counted int64) int64 {
	if counted <= notification.MaxNotificationCount {
		return counted
	}
	server.MarkCapped(ctx)
	return notification.MaxNotificationCount
}

// CountUnreadNotifications counts the unread notifications of a member.
func (s *Service) CountUnreadNotifications(ctx context.Context, _ *affiliatev1.CountUnreadNotificationsRequest) (*affiliatev1.UnreadCount, error) {
	return s.countUnread(ctx)
}

// CountPartnerUnreadNotifications counts the unread notifications of a partner.
func (s *Service) CountPartnerUnreadNotifications(ctx context.Context, _ *affiliatev1.CountUnreadNotificationsRequest) (*affiliatev1.UnreadCount, error) {
	return s.countUnread(ctx)
}

func (s *Service) countUnread(ctx context.Context) (*affiliatev1.UnreadCount, error) {
	reader := readerFrom(ctx)
	choices, err := notifications.Choices(ctx, s.db, reader.User)
	if err != nil {
		return nil, err
	}
	count, err := notifications.CountUnread(ctx, s.db, reader, reader.Ranges(choices, ""), s.currentTime())
	if err != nil {
		return nil, err
	}
	return &affiliatev1.UnreadCount{Count: capped(ctx, count)}, nil
}

func categoryOf(category affiliatev1.NotificationCategory) notification.Category {
	return notification.Category(server.EnumName(category))
}

func (s *Service) entryToProto(entry notification.Entry) *affiliatev1.Notification {
	rule := entry.Rule()
	title, body := entry.Text(entry.Names)
	out := &affiliatev1.Notification{
		Id:          entry.ID.String(),
		Category:    server.EnumValue[affiliatev1.NotificationCategory](rule.Category),
		Type:        string(entry.Type),
		Title:       title,
		Body:        body,
		Severity:    server.EnumValue[affiliatev1.NotificationSeverity](rule.Severity),
		ActionUrl:   entry.ActionURL(s.appURL),
		Read:        entry.ReadAt != nil,
		ReadAt:      server.OptionalTimestamp(entry.ReadAt),
		DismissedAt: server.OptionalTimestamp(entry.DismissedAt),
		CreatedAt:   server.Timestamp(entry.CreatedAt()),
	}
	if entry.Mode != nil {
		out.Mode = server.EnumValue[affiliatev1.Mode](*entry.Mode)
	}
	if entry.Resource != nil && rule.Resource != notification.NoResource {
		out.Resource = &affiliatev1.NotificationResource{
			Type: string(rule.Resource), Id: entry.Resource.String(), ProgramId: server.OptionalID(entry.Program),
		}
	}
	return out
}

func preferencesToProto(preferences []notification.CategoryPreference, suppressed bool) *affiliatev1.NotificationPreferences {
	out := &affiliatev1.NotificationPreferences{EmailSuppressed: suppressed}
	for _, p := range preferences {
		out.Categories = append(out.Categories, &affiliatev1.CategoryPreference{
			Category:  server.EnumValue[affiliatev1.NotificationCategory](p.Category),
			Label:     p.Label,
			Protected: p.Protected,
			Email:     p.Email,
			InApp:     p.InApp,
		})
	}
	return out
}
