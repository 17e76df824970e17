package mail

import (
	"context"
	"encoding/json"
	"log/slog"
	netmail "net/mail"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/webhook"
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

// Check returns the violations of the rules of a request that the proto files cannot express.
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
	out.Data = server.ConvertAll(entries, entryToProto)
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
	out := &affiliatev1.NotificationLogEntryDetail{Html: server.OptionalString(entry.HTML), Text: server.OptionalString(entry.Text)}
	server.CopyShared(out.ProtoReflect(), entryToProto(entry).ProtoReflect())
	return out, nil
}

func entryToProto(entry notification.MailLogEntry) *affiliatev1.NotificationLogEntry {
	return &affiliatev1.NotificationLogEntry{
		Id:           entry.ID.String(),
		Type:         entry.Type,
		Category:     server.OptionalString(string(entry.Category)),
		Recipient:    entry.Recipient,
		From:         server.OptionalString(entry.Sender),
		Subject:      server.OptionalString(entry.Subject),
		Status:       server.EnumValue[affiliatev1.MailStatus](entry.Status),
		RedirectedTo: server.OptionalString(entry.RedirectedTo),
		Reason:       server.OptionalString(string(entry.Reason)),
		CreatedAt:    server.Timestamp(entry.CreatedAt),
	}
}

// ProviderConfig holds the dependencies of a ProviderService.
type ProviderConfig struct {
	DB *postgres.DB
	// Provider is the last part of the path to which the mail provider sends its events.
	Provider string
	// Secrets are the secrets with which the provider signs events. If there is none, the path
	// does not exist.
	Secrets []webhook.Secret
	// HashKeys are the secret keys of the digests of addresses.
	HashKeys affiliate.HashKeys
	Log      *slog.Logger
	Now      func() time.Time
}

// ProviderService implements affiliate.v1.MailService.
type ProviderService struct {
	affiliatev1.UnimplementedMailServiceServer
	config ProviderConfig
}

// NewProviderService returns a ProviderService.
func NewProviderService(c ProviderConfig) *ProviderService { return &ProviderService{config: c} }

// ReceiveProviderEvent checks the signature of an event of the mail provider and suppresses the
// addresses in the event. The id of an event is stored in the same transaction, so that a
// repeated event has no effect. The ids of events without an effect are not stored.
func (s *ProviderService) ReceiveProviderEvent(ctx context.Context, req *affiliatev1.ReceiveProviderEventRequest) (*affiliatev1.ReceiveProviderEventResponse, error) {
	if req.GetProvider() != s.config.Provider || len(s.config.Secrets) == 0 {
		return nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	signature, body, now := signatureFrom(ctx), req.GetBody().GetData(), s.config.Now()
	if err := webhook.Verify(s.config.Secrets, signature, body, now); err != nil {
		return nil, affiliate.Refuse(affiliate.ReasonInvalidSignature)
	}
	var event providerEvent
	if err := json.Unmarshal(body, &event); err != nil {
		return nil, affiliate.Invalid(affiliate.WholeBody, "must be a JSON object with a type and data")
	}
	reason, ok := event.suppression()
	if !ok && event.Type != eventFailed {
		return providerResponse(affiliatev1.ProviderEventStatus_PROVIDER_EVENT_STATUS_IGNORED), nil
	}
	var digests [][]byte
	for _, address := range event.Data.To {
		digests = append(digests, notification.MailDigest(s.config.HashKeys, bareAddress(address)).First())
	}
	var isNew bool
	err := s.config.DB.InTx(ctx, func(tx *postgres.Tx) error {
		var err error
		if isNew, err = mails.RecordProviderMessage(ctx, tx, signature.ID, now); err != nil || !isNew || !ok {
			return err
		}
		return mails.Suppress(ctx, tx, reason, now, digests...)
	})
	switch {
	case err != nil:
		return nil, err
	case !isNew:
		return providerResponse(affiliatev1.ProviderEventStatus_PROVIDER_EVENT_STATUS_DUPLICATE), nil
	case !ok:
		s.config.Log.LogAttrs(ctx, slog.LevelWarn, "the mail provider could not send a mail", slog.String("message", signature.ID))
	}
	return providerResponse(affiliatev1.ProviderEventStatus_PROVIDER_EVENT_STATUS_PROCESSED), nil
}

func providerResponse(status affiliatev1.ProviderEventStatus) *affiliatev1.ReceiveProviderEventResponse {
	return &affiliatev1.ReceiveProviderEventResponse{Status: status}
}

// signatureFrom returns the signature in the metadata of a call. The headers have the
// names of Svix, which Resend uses, or the names of Standard Webhooks.
func signatureFrom(ctx context.Context) webhook.Signature {
	md, _ := metadata.FromIncomingContext(ctx)
	prefix := "webhook-"
	if len(md.Get("svix-id")) > 0 {
		prefix = "svix-"
	}
	value := func(name string) string { return strings.Join(md.Get(prefix+name), " ") }
	return webhook.Signature{ID: value("id"), Timestamp: value("timestamp"), Signatures: value("signature")}
}

// The types of the events that have an effect.
const (
	eventBounced    = "email.bounced"
	eventComplained = "email.complained"
	eventSuppressed = "email.suppressed"
	eventFailed     = "email.failed"
)

// providerEvent contains the fields of an event that the service reads.
type providerEvent struct {
	Type string `json:"type"`
	Data struct {
		To     addressList `json:"to"`
		Bounce struct {
			Type string `json:"type"`
		} `json:"bounce"`
	} `json:"data"`
}

// suppression returns the reason for which the addresses of an event are suppressed. ok is
// false if they are not.
func (e providerEvent) suppression() (reason notification.SuppressionReason, ok bool) {
	switch e.Type {
	case eventBounced:
		return notification.SuppressionBounced, strings.EqualFold(e.Data.Bounce.Type, "permanent")
	case eventComplained:
		return notification.SuppressionComplained, true
	case eventSuppressed:
		return notification.SuppressionSuppressed, true
	}
	return "", false
}

// addressList is one address, or a list of addresses.
type addressList []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *addressList) UnmarshalJSON(text []byte) error {
	var one string
	if err := json.Unmarshal(text, &one); err == nil {
		*l = addressList{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(l))
}

// bareAddress returns the address without a display name. If the text is not a valid
// address, bareAddress returns the text without spaces around it.
func bareAddress(text string) string {
	if parsed, err := netmail.ParseAddress(text); err == nil {
		return parsed.Address
	}
	return strings.TrimSpace(text)
}
