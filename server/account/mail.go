package account

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// sendVerification mails a token that verifies the current address of an account.
func (s *Service) sendVerification(ctx context.Context, tx Tx, account affiliate.Account, at time.Time) error {
	token, text, digest := affiliate.NewEmailToken(account.User.ID, affiliate.TokenVerify, account.User.Email, at)
	return s.sendToken(ctx, tx, affiliate.MailVerification, account, token, text, digest)
}

// sendToken stores a token and the mail that contains it.
func (s *Service) sendToken(
	ctx context.Context, tx Tx, kind affiliate.MailKind, account affiliate.Account, token affiliate.EmailToken, text string, digest [32]byte,
) error {
	if err := tx.InsertEmailToken(ctx, token, digest); err != nil {
		return err
	}
	mail := accountMail(kind, account, token.Address, token.CreatedAt)
	mail.Facts.ExpiresAt = &token.ExpiresAt
	mail.Secret = s.seal.SealMailToken(mail.ID, text)
	return tx.SendMail(ctx, mail)
}

// accountMail returns a mail about an account, without facts.
func accountMail(kind affiliate.MailKind, account affiliate.Account, address string, at time.Time) affiliate.Mail {
	mail := affiliate.Mail{
		ID:   affiliate.NewID[affiliate.MailID](at),
		Kind: kind,
		Type: string(kind),
		Recipient: affiliate.MailRecipient{
			User: &account.User.ID, Account: account.User.Kind, Name: account.User.Name, Address: address,
		},
		CreatedAt: at,
	}
	if account.Member != nil {
		mail.Workspace = &account.Member.Workspace
	}
	return mail
}
