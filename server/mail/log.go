package mail

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	mails "github.com/tributary-hq/tributary/storage/postgres/mail"
)

// LogService implements affiliate.v1.NotificationLogService.
type LogService struct {
	affiliatev1.UnimplementedNotificationLogServiceServer
	db *postgres.DB
}

// NewLogService returns a LogService.
func NewLogService(db *postgres.DB) *LogService { return &LogService{db: db} }

// Check returns the violations of a request that the proto files do not describe.
func (*LogService) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	if list, ok := req.(*affiliatev1.ListNotificationLogRequest); ok {
		_, found = affiliate.ParsePeriod(list.GetDateFrom(), list.GetDateTo(), list.GetTimezone())
		server.CheckEnum("status", list.GetStatus(), &found)
	}
	return found
}

// ListNotificationLog returns one page of the notification log, newest first. In live mode
// the log is empty.
func (s *LogService) ListNotificationLog(ctx context.Context, req *affiliatev1.ListNotificationLogRequest) (*affiliatev1.ListNotificationLogResponse, error) {
	period, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	out := &affiliatev1.ListNotificationLogResponse{
		Page: int32(page.Number), Limit: int32(page.Size), // both were int32 in the request
	}
	scope := server.PrincipalFrom(ctx).Scope()
	if scope.Mode != affiliate.ModeTest {
		return out, nil
	}
	entries, total, err := mails.Log(ctx, s.db, scope.Workspace, notification.MailLogFilter{
		Status:    notification.MailStatus(server.EnumName(req.GetStatus())),
		Type:      req.GetType(),
		Recipient: strings.ToLower(strings.TrimSpace(req.GetRecipient())),
		CreatedAt: period,
	}, page)
	if err != nil {
		return nil, err
	}
	out.Total = server.Total(ctx, total)
	for _, entry := range entries {
		out.Data = append(out.Data, entryToProto(entry))
	}
	return out, nil
}

// GetNotificationLogEntry returns an entry with the content of its mail.
func (s *LogService) GetNotificationLogEntry(ctx context.Context, req *affiliatev1.GetNotificationLogEntryRequest) (*affiliatev1.NotificationLogEntryDetail, error) {
	scope := server.PrincipalFrom(ctx).Scope()
	id, ok := affiliate.ParseID[notification.MailID](req.GetEntryId())
	if !ok || scope.Mode != affiliate.ModeTest {
		return nil, affiliate.Refuse(affiliate.ReasonNotificationLogNotFound)
	}
	entry, err := mails.LogEntry(ctx, s.db, scope.Workspace, id)
	if err != nil {
		return nil, err
	}
	e := entryToProto(entry)
	return &affiliatev1.NotificationLogEntryDetail{
		Id: e.GetId(), Type: e.GetType(), Category: e.Category, Recipient: e.GetRecipient(), From: e.From, Subject: e.Subject,
		Status: e.GetStatus(), RedirectedTo: e.RedirectedTo, Reason: e.Reason, CreatedAt: e.GetCreatedAt(),
		Html: optional(entry.HTML), Text: optional(entry.Text),
	}, nil
}

func entryToProto(entry notification.MailLogEntry) *affiliatev1.NotificationLogEntry {
	return &affiliatev1.NotificationLogEntry{
		Id:           entry.ID.String(),
		Type:         entry.Type,
		Category:     optional(entry.Category),
		Recipient:    entry.Recipient,
		From:         optional(entry.Sender),
		Subject:      optional(entry.Subject),
		Status:       server.EnumValue[affiliatev1.MailStatus](entry.Status),
		RedirectedTo: optional(entry.RedirectedTo),
		Reason:       optional(entry.Reason),
		CreatedAt:    server.Timestamp(entry.CreatedAt),
	}
}

// optional returns nil for an empty text.
func optional[S ~string](text S) *string {
	if text == "" {
		return nil
	}
	s := string(text)
	return &s
}
