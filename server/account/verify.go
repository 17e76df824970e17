package account

import (
	"context"
	"errors"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// VerifyEmail uses the token of a mail to verify the address of an account, or to complete
// a change of the address.
func (s *Service) VerifyEmail(ctx context.Context, req *affiliatev1.VerifyEmailRequest) (*affiliatev1.VerifyEmailResponse, error) {
	refusal := affiliate.Refuse(affiliate.ReasonVerificationToken)
	digest, at := account.DigestEmailToken(req.GetToken()), s.currentTime()
	token, found, err := accounts.EmailToken(ctx, s.db, digest)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, refusal
	}
	var holder account.Account
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		// The token is read again, because another call may have used it.
		token, _, err := accounts.LockEmailToken(ctx, tx, token.User, digest)
		if err != nil {
			return err
		}
		if holder, err = accounts.Account(ctx, tx, token.User); err != nil {
			return err
		}
		if !token.Verifies(holder, at) {
			return refusal
		}
		if err := accounts.UseEmailToken(ctx, tx, digest, at); err != nil {
			return err
		}
		if token.Purpose == account.TokenChange {
			return s.changeAddress(ctx, tx, holder, token, at)
		}
		if err := s.markVerified(ctx, tx, holder, at); err != nil {
			return err
		}
		return recordChange(ctx, tx, holder, change{action: "account.verify_email", notification: notification.NotifyEmailVerified}, at)
	})
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonEmailTaken)) || errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		// Another account has the new address, or the account was erased.
		return nil, refusal
	}
	if err != nil {
		return nil, err
	}
	return &affiliatev1.VerifyEmailResponse{Verified: true, Kind: server.EnumValue[affiliatev1.AccountKind](holder.User.Kind)}, nil
}

// markVerified marks the current address of an account as verified. The address then
// receives all mail again, because the user has just received a mail.
func (s *Service) markVerified(ctx context.Context, tx *postgres.Tx, account account.Account, at time.Time) error {
	if err := accounts.VerifyEmail(ctx, tx, account.User.ID, at); err != nil {
		return err
	}
	return postgres.LiftSuppression(ctx, tx, notification.MailDigest(s.hashKeys, account.User.Email))
}

// changeAddress replaces the address of an account by the address to which the token was
// mailed. The session that requested the change continues. A digest of a partner's former
// address stays, because the fraud rules compare buyers with it.
func (s *Service) changeAddress(ctx context.Context, tx *postgres.Tx, account account.Account, token account.EmailToken, at time.Time) error {
	if err := accounts.ChangeEmail(ctx, tx, account.User.ID, token.Address, at); err != nil {
		return err
	}
	if digests := fraud.FormerEmailDigests(s.hashKeys, account.User.Email); account.User.Kind == affiliate.Partner && digests != nil {
		if err := accounts.InsertFormerEmail(ctx, tx, account.User.ID, digests.First(), at); err != nil {
			return err
		}
	}
	if err := postgres.LiftSuppression(ctx, tx, notification.MailDigest(s.hashKeys, token.Address)); err != nil {
		return err
	}
	if err := accounts.RevokeEmailTokens(ctx, tx, account.User.ID, at); err != nil {
		return err
	}
	if err := accounts.RevokeOtherSessions(ctx, tx, account.User.ID, token.Session, at); err != nil {
		return err
	}
	// Audit records cannot be changed when a person's data must be erased, so they contain
	// the addresses in masked form.
	return recordChange(ctx, tx, account, change{
		action: "account.change_email", notification: notification.NotifyEmailChanged,
		before: map[string]string{"email": affiliate.MaskEmail(account.User.Email)},
		after:  map[string]string{"email": affiliate.MaskEmail(token.Address)},
	}, at)
}

// ResendMerchantVerification sends the mail to verify a merchant's address again.
func (s *Service) ResendMerchantVerification(ctx context.Context, _ *affiliatev1.ResendVerificationRequest) (*affiliatev1.ResendVerificationResponse, error) {
	return s.resend(ctx)
}

// ResendPartnerVerification sends the mail to verify a partner's address again.
func (s *Service) ResendPartnerVerification(ctx context.Context, _ *affiliatev1.ResendVerificationRequest) (*affiliatev1.ResendVerificationResponse, error) {
	return s.resend(ctx)
}

// resend mails a new token to the caller, unless the address is verified and receives
// mail. If mails to the address are suppressed, verifying it again ends this. Earlier
// tokens stay valid, because mails can arrive in a different order.
func (s *Service) resend(ctx context.Context) (*affiliatev1.ResendVerificationResponse, error) {
	at, response := s.currentTime(), &affiliatev1.ResendVerificationResponse{}
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		account, err := accounts.Account(ctx, tx, server.PrincipalFrom(ctx).User)
		if err != nil {
			return err
		}
		suppressed, err := postgres.Suppressed(ctx, tx, notification.MailDigest(s.hashKeys, account.User.Email))
		if err != nil {
			return err
		}
		response.Sent = !account.User.EmailVerified || suppressed
		if !response.Sent {
			return nil
		}
		return s.sendVerification(ctx, tx, account, at)
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

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
		Recipient: notification.Recipient{
			User: &account.User.ID, Account: account.User.Kind, Name: account.User.Name, Address: address,
		},
		CreatedAt: at,
	}
	if account.Member != nil {
		mail.Workspace = &account.Member.Workspace
	}
	return mail
}
