package account

import (
	"context"
	"errors"
	"strings"
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
	token, found, err := accounts.EmailToken(ctx, s.DB, digest)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, refusal
	}
	var holder account.Account
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
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
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonEmailTaken)) || isNotFound(err) {
		// Another account has the new address, or the account was erased.
		return nil, refusal
	}
	if err != nil {
		return nil, err
	}
	return &affiliatev1.VerifyEmailResponse{Verified: true, Kind: server.EnumValue[affiliatev1.AccountKind](holder.Kind)}, nil
}

// markVerified marks the current address of an account as verified. The address then
// receives all mail again, because the user has just received a mail.
func (s *Service) markVerified(ctx context.Context, tx *postgres.Tx, account account.Account, at time.Time) error {
	if err := accounts.VerifyEmail(ctx, tx, account.ID, at); err != nil {
		return err
	}
	return postgres.LiftSuppression(ctx, tx, notification.MailDigest(s.HashKeys, account.Email))
}

// changeAddress replaces the address of an account by the address to which the token was
// mailed. The session that requested the change stays valid, all others are revoked. A digest
// of a partner's former address is stored, because the fraud rules compare buyers with it.
func (s *Service) changeAddress(ctx context.Context, tx *postgres.Tx, account account.Account, token account.EmailToken, at time.Time) error {
	if err := accounts.ChangeEmail(ctx, tx, account.ID, token.Address, at); err != nil {
		return err
	}
	if digests := fraud.FormerEmailDigests(s.HashKeys, account.Email); account.Kind == affiliate.Partner && digests != nil {
		if err := accounts.InsertFormerEmail(ctx, tx, account.ID, digests.First(), at); err != nil {
			return err
		}
	}
	if err := postgres.LiftSuppression(ctx, tx, notification.MailDigest(s.HashKeys, token.Address)); err != nil {
		return err
	}
	if err := accounts.RevokeEmailTokens(ctx, tx, account.ID, at); err != nil {
		return err
	}
	if err := accounts.RevokeOtherSessions(ctx, tx, account.ID, token.Session, at); err != nil {
		return err
	}
	// Audit records cannot be changed when a person's data must be erased, so they contain
	// the addresses in masked form.
	return recordChange(ctx, tx, account, change{
		action: "account.change_email", notification: notification.NotifyEmailChanged,
		before: map[string]string{"email": affiliate.MaskEmail(account.Email)},
		after:  map[string]string{"email": affiliate.MaskEmail(token.Address)},
	}, at)
}

// ResendMerchantVerification mails a new token to the caller, unless the address is verified
// and receives mail. If mails to the address are suppressed, a new verification ends the
// suppression. Earlier tokens stay valid, because mails can arrive in a different order.
func (s *Service) ResendMerchantVerification(ctx context.Context, _ *affiliatev1.ResendVerificationRequest) (*affiliatev1.ResendVerificationResponse, error) {
	at, response := s.currentTime(), &affiliatev1.ResendVerificationResponse{}
	err := s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		account, err := accounts.Account(ctx, tx, server.PrincipalFrom(ctx).User)
		if err != nil {
			return err
		}
		suppressed, err := postgres.Suppressed(ctx, tx, notification.MailDigest(s.HashKeys, account.Email))
		if err != nil {
			return err
		}
		response.Sent = !account.EmailVerified || suppressed
		if !response.Sent {
			return nil
		}
		return s.sendVerification(ctx, tx, account, at)
	})
	return response, err
}

// ResendPartnerVerification sends the mail to verify a partner's address again.
func (s *Service) ResendPartnerVerification(ctx context.Context, req *affiliatev1.ResendVerificationRequest) (*affiliatev1.ResendVerificationResponse, error) {
	return s.ResendMerchantVerification(ctx, req)
}

func (s *Service) sendVerification(ctx context.Context, tx *postgres.Tx, holder account.Account, at time.Time) error {
	token, text, digest := account.NewEmailToken(holder.ID, account.TokenVerify, holder.Email, at)
	return s.sendToken(ctx, tx, notification.MailVerification, holder, token, text, digest)
}

func (s *Service) sendToken(
	ctx context.Context, tx *postgres.Tx, kind notification.MailKind, account account.Account, token account.EmailToken, text string, digest [32]byte,
) error {
	if err := accounts.InsertEmailToken(ctx, tx, token, digest); err != nil {
		return err
	}
	mail := accountMail(kind, account, token.Address, token.CreatedAt)
	mail.Facts.ExpiresAt = &token.ExpiresAt
	mail.Secret = s.Seal.SealMailToken(mail.ID, text)
	return tx.SendMail(ctx, mail)
}

func accountMail(kind notification.MailKind, account account.Account, address string, at time.Time) notification.Mail {
	mail := notification.Mail{
		ID:   affiliate.NewID[notification.MailID](at),
		Kind: kind,
		Type: string(kind),
		Recipient: notification.Recipient{
			User: &account.ID, Account: account.Kind, Name: account.Name, Address: address,
		},
		CreatedAt: at,
	}
	if account.Member != nil {
		mail.Workspace = &account.Member.Workspace
	}
	return mail
}

// ChangeMerchantEmail checks the password, and the code if the account has a second factor, and
// stores the request for a change of a merchant's address. It does not look the new address up.
// The response and its duration therefore do not depend on whether another account has the new address.
func (s *Service) ChangeMerchantEmail(ctx context.Context, req *affiliatev1.ChangeEmailRequest) (*affiliatev1.ChangeEmailResponse, error) {
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	holder, err := accounts.Account(ctx, s.DB, caller.User)
	if err != nil {
		return nil, err
	}
	email := strings.ToLower(req.GetNewEmail())
	if email == holder.Email {
		return nil, affiliate.Invalid("new_email", "must not be the current address")
	}
	// As in a login, throttleCaller stores the attempt as failed, and the transaction below
	// deletes all failed attempts in its bucket.
	attempt, err := s.throttleCaller(ctx, holder, at)
	if err != nil {
		return nil, err
	}
	if err := s.requirePassword(ctx, holder, req.GetPassword()); err != nil {
		return nil, err
	}
	request := account.EmailRequest{
		ID:        affiliate.NewID[account.EmailRequestID](at),
		Purpose:   account.TokenChange,
		Account:   holder.Kind,
		Address:   email,
		User:      &caller.User,
		Session:   &caller.Session,
		CreatedAt: at,
	}
	var accepted bool
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		if err := s.checkUnchanged(ctx, tx, holder, req.GetPassword()); err != nil {
			return err
		}
		if accepted, err = s.checkFactor(ctx, tx, holder, req.GetCode(), at); err != nil || !accepted {
			return err
		}
		if err := accounts.DeleteBucketFailures(ctx, tx, attempt.Bucket); err != nil {
			return err
		}
		return storeRequest(ctx, tx, request)
	})
	return &affiliatev1.ChangeEmailResponse{}, refusedCode(accepted, err)
}

// ChangePartnerEmail requests a change of a partner's address.
func (s *Service) ChangePartnerEmail(ctx context.Context, req *affiliatev1.ChangeEmailRequest) (*affiliatev1.ChangeEmailResponse, error) {
	return s.ChangeMerchantEmail(ctx, req)
}

type change struct {
	action string // of the audit record
	// notification is empty if the user is not notified.
	notification notification.Type
	// before and after are the changed values for the audit record.
	before, after any
	// facts are the values of the placeholders in the notification.
	facts map[string]string
}

// recordChange notifies the user of a change and writes its audit record: for a merchant to
// the audit log of the workspace, for a partner to the audit log of the account.
func recordChange(ctx context.Context, tx *postgres.Tx, account account.Account, c change, at time.Time) error {
	actor := server.ActorFrom(ctx)
	actor.User = &account.ID
	return recordChangeBy(ctx, tx, actor, account, c, at)
}

// recordChangeBy does the same as recordChange for a change that the given actor has made.
func recordChangeBy(ctx context.Context, tx *postgres.Tx, actor affiliate.Actor, holder account.Account, c change, at time.Time) error {
	if c.notification != "" {
		if err := tx.Notify(ctx, account.Notification(holder, c.notification, at, c.facts)...); err != nil {
			return err
		}
	}
	if holder.Member == nil {
		return tx.AuditAccount(ctx, affiliate.AccountAuditLine{
			User: holder.ID, Actor: actor, At: at, Action: c.action, Before: c.before, After: c.after,
		})
	}
	return tx.Audit(ctx, affiliate.AuditLine{
		Workspace: holder.Member.Workspace, Actor: actor, At: at,
		Action: c.action, ResourceType: "member", ResourceID: holder.ID, Before: c.before, After: c.after,
	})
}
