package assemble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/mail"
	servermail "github.com/tributary-hq/tributary/server/mail"
	"github.com/tributary-hq/tributary/server/seal"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// newMailWorker returns the worker that sends mails. It logs a warning if the settings
// name no mail server.
func (c *Core) newMailWorker(sealer *seal.Keys) (*servermail.Worker, error) {
	config := servermail.WorkerConfig{
		DB:   c.db,
		From: c.cfg.MailFrom,
		Seal: sealer,
		Composer: servermail.NewComposer(servermail.ComposerConfig{
			PublicURL: c.cfg.PublicURL, Apps: notification.Apps{Console: c.cfg.AppURL, Portal: c.cfg.PortalURL},
			Unsubscribe:   notification.NewUnsubscribeTokens(c.cfg.HashKeys.Keys()),
			Notifications: notificationTexts{c.db, c.apps()},
			Branding: func(ctx context.Context, id affiliate.WorkspaceID) (account.Branding, error) {
				return accounts.Branding(ctx, c.db, id)
			},
		}),
		HashKeys: c.cfg.HashKeys.Keys(),
		Log:      c.log,
		Now:      c.now,

		ServerTime: c.clock.ServerTime,
		Metrics:    servermail.NewMetrics(c.registry),
	}
	if c.cfg.SMTPURL == "" {
		c.log.LogAttrs(context.Background(), slog.LevelWarn, "no mail is sent", slog.String("setting", "TRIBUTARY_SMTP_URL"))
		return servermail.NewWorker(config), nil
	}
	sender, err := mail.NewSender(mail.Config{URL: c.cfg.SMTPURL, From: c.cfg.MailFrom, ReplyTo: c.cfg.MailReplyTo})
	if err != nil {
		return nil, fmt.Errorf("TRIBUTARY_SMTP_URL, TRIBUTARY_MAIL_FROM or TRIBUTARY_MAIL_REPLY_TO: %w", err)
	}
	config.Sender = sender
	return servermail.NewWorker(config), nil
}

// newProviderService returns the service that receives the webhooks of the mail provider.
func (c *Core) newProviderService() (*servermail.ProviderService, error) {
	secrets, err := c.cfg.MailWebhookSecrets()
	if err != nil {
		return nil, fmt.Errorf("TRIBUTARY_MAIL_WEBHOOK_SECRET: %w", err)
	}
	return servermail.NewProviderService(servermail.ProviderConfig{
		DB: c.db, Provider: c.cfg.Mail.MailProvider, Secrets: secrets,
		HashKeys: c.cfg.HashKeys.Keys(), Log: c.log, Now: c.now,
	}), nil
}

// apps returns the apps to which notifications lead.
func (c *Core) apps() notification.Apps {
	console, portal := c.cfg.Apps()
	return notification.Apps{Console: console, Portal: portal}
}

type notificationTexts struct {
	db   *postgres.DB
	apps notification.Apps
}

func (t notificationTexts) Texts(ctx context.Context, m notification.Mail) ([]servermail.NotificationText, error) {
	mode := affiliate.Mode(notification.NotificationsBothModes)
	if m.Mode != nil {
		mode = *m.Mode
	}
	entries, err := notifications.MailEntries(ctx, t.db, *m.User, mode, m.Category, m.Facts.Notifications)
	if err != nil {
		return nil, err
	}
	texts := make([]servermail.NotificationText, len(entries))
	for i, entry := range entries {
		if entry.Type == notification.Type(affiliate.EventParticipantApproved) {
			if entry.Facts, err = t.terms(ctx, entry.Notification); err != nil {
				return nil, err
			}
		}
		title, body := entry.Text(entry.Names)
		texts[i] = servermail.NotificationText{Title: title, Body: body, Severity: string(entry.Rule().Severity), CreatedAt: entry.CreatedAt(), Workspace: entry.Workspace}
		if url := entry.ActionURL(t.apps); url != nil {
			texts[i].ActionURL = *url
		}
	}
	return texts, nil
}

// terms returns the current rate in words and the current link of the participant of a notification. The
// result is nil if the participant or the group does not exist any more, or the participant is erased.
func (t notificationTexts) terms(ctx context.Context, n notification.Notification) (map[string]string, error) {
	if n.Workspace == nil || n.Mode == nil || n.Program == nil || n.Participant == nil {
		return nil, nil
	}
	scope := affiliate.Scope{Workspace: *n.Workspace, Mode: *n.Mode}
	program, err := programs.Get(ctx, t.db, scope, *n.Program)
	if err != nil {
		return nil, ignoreNotFound(err)
	}
	participant, err := participants.Get(ctx, t.db, scope, *n.Program, *n.Participant)
	if err != nil || participant.ErasedAt != nil {
		return nil, ignoreNotFound(err)
	}
	own := participant.Override()
	if own == nil {
		if own, err = programs.GroupRate(ctx, t.db, scope, *n.Program, participant.Group); err != nil {
			return nil, ignoreNotFound(err)
		}
	}
	return map[string]string{
		"rate": program.Rules.RateText(own, program.Currency), "link": program.ReferralURL(participant.ReferralCode),
	}, nil
}

func ignoreNotFound(err error) error {
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return nil
	}
	return err
}
