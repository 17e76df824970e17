// Package notification serves the notification feeds, the read state and the preferences
// of members and partners.
//
// It guarantees that a caller sees only notifications of the caller's workspace or account,
// in the mode of the call, and of the categories that the caller's role receives.
// Notifications themselves are created in the transaction of their cause, not here.
package notification

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

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
	// Apps are the apps to which the action URLs of notifications lead.
	Apps notification.Apps
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
	Config
	unsubscribe notification.UnsubscribeTokens
	// pingInterval is how often a stream sends a comment.
	pingInterval time.Duration
}

// New returns the service.
func New(config Config) *Service {
	if config.Metrics == nil {
		config.Metrics = NewMetrics(prometheus.NewRegistry(), func() time.Duration { return 0 })
	}
	return &Service{Config: config, unsubscribe: notification.NewUnsubscribeTokens(config.HashKeys), pingInterval: pingInterval}
}

func (s *Service) currentTime() time.Time { return s.Now().UTC().Truncate(time.Millisecond) } // the precision of the API

func readerFrom(ctx context.Context) notification.Reader {
	p := server.PrincipalFrom(ctx)
	if p.Kind == server.PartnerToken {
		return notification.Reader{Kind: affiliate.Partner, Feed: notification.PartnerFeed(p.User), User: p.User, Mode: p.Mode, Role: p.Role}
	}
	return notification.Reader{Kind: affiliate.Merchant, Feed: notification.WorkspaceFeed(p.Workspace), User: p.User, Mode: p.Mode, Role: p.Role}
}

// ListNotifications returns a page of the workspace's feed.
func (s *Service) ListNotifications(ctx context.Context, req *affiliatev1.ListNotificationsRequest) (*affiliatev1.ListNotificationsResponse, error) {
	reader := readerFrom(ctx)
	choices, err := notifications.Choices(ctx, s.DB, reader.User)
	if err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	filter := notification.Filter{Ranges: reader.Ranges(choices, categoryOf(req.GetCategory())), UnreadOnly: req.GetUnread()}
	entries, total, err := notifications.List(ctx, s.DB, reader, filter, page, s.currentTime())
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListNotificationsResponse{
		Data: server.ConvertAll(entries, s.entryToProto), Total: capped(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), // both were int32 in the request
	}, nil
}

// ListPartnerNotifications returns a page of the partner's feed.
func (s *Service) ListPartnerNotifications(ctx context.Context, req *affiliatev1.ListNotificationsRequest) (*affiliatev1.ListNotificationsResponse, error) {
	return s.ListNotifications(ctx, req)
}

// capped returns the number of notifications for the response, at most
// notification.MaxNotificationCount. If more were counted, the response gets the header Total-Capped.
func capped(ctx context.Context, counted int64) int64 {
	if counted <= notification.MaxNotificationCount {
		return counted
	}
	server.MarkCapped(ctx)
	return notification.MaxNotificationCount
}

// CountUnreadNotifications counts the unread notifications of a member.
func (s *Service) CountUnreadNotifications(ctx context.Context, _ *affiliatev1.CountUnreadNotificationsRequest) (*affiliatev1.UnreadCount, error) {
	reader := readerFrom(ctx)
	choices, err := notifications.Choices(ctx, s.DB, reader.User)
	if err != nil {
		return nil, err
	}
	count, err := notifications.CountUnread(ctx, s.DB, reader, reader.Ranges(choices, ""), s.currentTime())
	if err != nil {
		return nil, err
	}
	return &affiliatev1.UnreadCount{Count: capped(ctx, count)}, nil
}

// CountPartnerUnreadNotifications counts the unread notifications of a partner.
func (s *Service) CountPartnerUnreadNotifications(ctx context.Context, req *affiliatev1.CountUnreadNotificationsRequest) (*affiliatev1.UnreadCount, error) {
	return s.CountUnreadNotifications(ctx, req)
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
		ActionUrl:   entry.ActionURL(s.Apps),
		Mode:        server.OptionalEnum[affiliatev1.Mode](entry.Mode),
		Read:        entry.ReadAt != nil,
		ReadAt:      server.OptionalTimestamp(entry.ReadAt),
		DismissedAt: server.OptionalTimestamp(entry.DismissedAt),
		CreatedAt:   server.Timestamp(entry.CreatedAt()),
		Facts:       entry.TextFacts(entry.Names),
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

// Metrics are the metrics of streams and of the Distributor. They have no labels, because
// workspaces and users would create any number of time series.
type Metrics struct {
	open             prometheus.Gauge
	refused, resyncs prometheus.Counter
	delay            prometheus.Histogram
}

// NewMetrics returns Metrics and registers them in registry. undistributed is
// Distributor.Undistributed.
func NewMetrics(registry prometheus.Registerer, undistributed func() time.Duration) *Metrics {
	m := &Metrics{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tributary_notification_streams_open", Help: "Streams of notifications that are open in this process.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_notification_streams_refused_total", Help: "Streams that were refused because the user had too many.",
		}),
		resyncs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_notification_stream_resyncs_total",
			Help: "Streams that could not continue without a gap, so that the client had to load the feed again.",
		}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "tributary_notification_stream_delay_seconds",
			Help:    "Time from the creation of a notification until it was sent to a stream, for each stream. Replayed notifications are not counted.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
	}
	registry.MustRegister(m.open, m.refused, m.resyncs, m.delay, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tributary_notification_undistributed_seconds",
		Help: "Age of the oldest notification that this process is distributing to streams and mails, or could not distribute. 0 if there is none.",
	}, func() float64 { return undistributed().Seconds() }))
	return m
}

// CreateAnnouncement sends a text to the approved participants of a programme. A request
// with the Idempotency-Key of an earlier request sends nothing and returns the earlier
// response.
func (s *Service) CreateAnnouncement(ctx context.Context, req *affiliatev1.CreateAnnouncementRequest) (*affiliatev1.Announcement, error) {
	program := server.PathID[affiliate.ProgramID](req.GetProgramId())
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	announcement := notification.Announcement{
		ID: affiliate.NewID[notification.AnnouncementID](at), Scope: caller.Scope(), Program: program,
		Title: req.GetTitle(), Body: req.GetBody(), CreatedBy: server.ActorFrom(ctx).ID(), CreatedAt: at,
	}
	if err := announcement.CheckText(); err != nil {
		return nil, err
	}
	key, err := server.OptionalKey(ctx, affiliatev1.NotificationService_CreateAnnouncement_FullMethodName, req, at)
	if err != nil {
		return nil, err
	}
	response, replayed := &affiliatev1.Announcement{}, false
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		stored, err := server.ClaimKey(ctx, tx, announcement.Scope, key)
		if err != nil {
			return err
		}
		if replayed = stored != nil; replayed {
			return proto.Unmarshal(stored, response)
		}
		status, err := notifications.LockProgram(ctx, tx, announcement.Scope, program)
		if err != nil {
			return err
		}
		recent, first, err := notifications.RecentAnnouncements(ctx, tx, announcement.Scope, program, at.Add(-notification.AnnouncementWindow))
		if err != nil {
			return err
		}
		if err := notification.CheckAnnouncement(status, recent, first, at); err != nil {
			return err
		}
		if announcement.Recipients, err = notifications.Announce(ctx, tx, announcement); err != nil {
			return err
		}
		if err := tx.Audit(ctx, affiliate.AuditLine{
			Workspace: announcement.Scope.Workspace, Mode: &announcement.Scope.Mode, Actor: server.ActorFrom(ctx), At: at,
			Action: "program.announce", ResourceType: "program", ResourceID: program,
			After: map[string]any{"announcement": announcement.ID, "title": announcement.Title, "recipients": announcement.Recipients},
		}); err != nil {
			return err
		}
		sent, err := notifications.GetAnnouncement(ctx, tx, announcement)
		if err != nil {
			return err
		}
		response = announcementToProto(sent)
		if stored, err = proto.Marshal(response); err != nil {
			return err
		}
		return server.StoreResponse(ctx, tx, announcement.Scope, key, stored)
	})
	if err != nil {
		return nil, err
	}
	if replayed {
		server.MarkReplayed(ctx)
	}
	return response, nil
}

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
