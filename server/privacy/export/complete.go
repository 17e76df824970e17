package export

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
	exports "github.com/tributary-hq/tributary/storage/postgres/export"
)

// complete stores that a bundle is complete, and publishes the event and the notification. It
// mails the link to the members who wait for it. It has no effect if the export was deleted in
// the meantime.
func (s *Service) complete(ctx context.Context, e privacy.Export) error {
	now := s.now()
	e = e.Complete(now)
	return s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		completed, err := exports.CompleteExport(ctx, tx, e)
		if err != nil || !completed {
			return err
		}
		if events := e.ReadyEvent(now); len(events) > 0 {
			if err := tx.Publish(ctx, events...); err != nil {
				return err
			}
		}
		if notifications := e.ReadyNotification(now); len(notifications) > 0 {
			if err := tx.Notify(ctx, notifications...); err != nil {
				return err
			}
		}
		if !e.Queued {
			return nil
		}
		return s.sendLinks(ctx, tx, e)
	})
}

// sendLinks mails a link of its own to each member who has requested a bundle and may still
// export data.
func (s *Service) sendLinks(ctx context.Context, tx *postgres.Tx, e privacy.Export) error {
	recipients, err := exports.Recipients(ctx, tx, e)
	if err != nil {
		return err
	}
	name, err := exports.WorkspaceName(ctx, tx, *e.WorkspaceID)
	if err != nil {
		return err
	}
	for _, to := range recipients {
		if to.Role != affiliate.RoleOwner && to.Role != affiliate.RoleAdmin {
			continue
		}
		token, text, digest := e.NewToken(*e.ReadyAt, true)
		if err := exports.InsertToken(ctx, tx, token, digest); err != nil {
			return err
		}
		mail := notification.Mail{
			ID: affiliate.NewID[notification.MailID](*e.ReadyAt), Kind: notification.MailExportReady, Type: string(notification.MailExportReady),
			Workspace: e.WorkspaceID,
			Recipient: notification.MailRecipient{User: &to.User, Account: affiliate.Merchant, Name: to.Name, Address: to.Address},
			Facts:     notification.MailFacts{WorkspaceName: name, ExpiresAt: &token.ExpiresAt},
			CreatedAt: *e.ReadyAt,
		}
		mail.Secret = s.Seal.Seal([]byte(text), mail.ID.UUID[:])
		if err := tx.SendMail(ctx, mail); err != nil {
			return err
		}
	}
	return nil
}
