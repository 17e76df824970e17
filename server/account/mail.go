package account

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// sendVerification mails a token that verifies the current address of an account.
func (s *Service) sendVerification(ctx context.Context, tx *postgres.Tx, holder account.Account, at time.Time) error {
	token, text, digest := account.NewEmailToken(holder.User.ID, account.TokenVerify, holder.User.Email, at)
	return s.sendToken(ctx, tx, notification.MailVerification, holder, token, text, digest)
}

// sendToken stores a token and the mail that contains it.
func (s *Service) sendToken(
	ctx context.Context, tx *postgres.Tx, kind notification.MailKind, account account.Account, token account.EmailToken, text string, digest [32]byte,
) error {
	if err := accounts.InsertEmailToken(ctx, tx, token, digest); err != nil {
		return err
	}
	mail := accountMail(kind, account, token.Address, token.CreatedAt)
	mail.Facts.ExpiresAt = &token.ExpiresAt
	mail.Secret = s.seal.SealMailToken(mail.ID, text)
	return tx.SendMail(ctx, mail)
}

// accountMail returns a mail about an account, without facts.
func accountMail(kind notification.MailKind, account account.Account, address string, at time.Time) notification.Mail {
	mail := notification.Mail{
		ID:   affiliate.NewID[notification.MailID](at),
		Kind: kind,
		Type: string(kind),
		Recipient: notification.MailRecipient{
			User: &account.User.ID, Account: account.User.Kind, Name: account.User.Name, Address: address,
		},
		CreatedAt: at,
	}
	if account.Member != nil {
		mail.Workspace = &account.Member.Workspace
	}
	return mail
}
