package account

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// ForgotMerchantPassword requests a mail with a token for ResetMerchantPassword.
func (s *Service) ForgotMerchantPassword(ctx context.Context, req *affiliatev1.ForgotPasswordRequest) (*affiliatev1.ForgotPasswordResponse, error) {
	return s.requestReset(ctx, affiliate.Merchant, req)
}

// ForgotPartnerPassword requests a mail with a token for ResetPartnerPassword.
func (s *Service) ForgotPartnerPassword(ctx context.Context, req *affiliatev1.ForgotPasswordRequest) (*affiliatev1.ForgotPasswordResponse, error) {
	return s.requestReset(ctx, affiliate.Partner, req)
}

// requestReset stores the request and does not read accounts. The response and its duration
// therefore do not depend on whether an account has the address.
func (s *Service) requestReset(ctx context.Context, kind affiliate.AccountKind, req *affiliatev1.ForgotPasswordRequest) (*affiliatev1.ForgotPasswordResponse, error) {
	at := s.currentTime()
	request := account.EmailRequest{
		ID:        affiliate.NewID[account.EmailRequestID](at),
		Purpose:   account.TokenReset,
		Account:   kind,
		Address:   strings.ToLower(req.GetEmail()),
		CreatedAt: at,
	}
	err := s.DB.InTx(ctx, func(tx *postgres.Tx) error { return storeRequest(ctx, tx, request) })
	return &affiliatev1.ForgotPasswordResponse{}, err
}

// ResetMerchantPassword sets a new password of a merchant.
func (s *Service) ResetMerchantPassword(ctx context.Context, req *affiliatev1.ResetPasswordRequest) (*affiliatev1.ResetPasswordResponse, error) {
	return s.reset(ctx, affiliate.Merchant, req)
}

// ResetPartnerPassword sets a new password of a partner.
func (s *Service) ResetPartnerPassword(ctx context.Context, req *affiliatev1.ResetPasswordRequest) (*affiliatev1.ResetPasswordResponse, error) {
	return s.reset(ctx, affiliate.Partner, req)
}

// reset sets a new password. It revokes all other tokens of the user, in particular the tokens
// for a change of the address: a person who knew the old password may have requested them.
func (s *Service) reset(ctx context.Context, kind affiliate.AccountKind, req *affiliatev1.ResetPasswordRequest) (*affiliatev1.ResetPasswordResponse, error) {
	refusal := affiliate.Refuse(affiliate.ReasonResetToken)
	digest := account.DigestEmailToken(req.GetToken())
	// Invalid tokens are rejected before the password is hashed, because hashing is
	// expensive.
	token, found, err := accounts.EmailToken(ctx, s.DB, digest)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, refusal
	}
	holder, err := accounts.Account(ctx, s.DB, token.User)
	if isNotFound(err) {
		return nil, refusal // the account was erased
	}
	if err != nil {
		return nil, err
	}
	if holder.Kind != kind || !token.Resets(holder, s.currentTime()) {
		return nil, refusal
	}
	var violations affiliate.Violations
	checkPassword("password", req.GetPassword(), holder.Name, holder.Email, &violations)
	if err := violations.Err(); err != nil {
		return nil, err // the token was not used
	}
	hash, err := s.hashes.hash(ctx, req.GetPassword())
	if err != nil {
		return nil, err
	}

	at := s.currentTime()
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		// The token and the account are read again, because another call may have used the
		// token.
		token, _, err := accounts.LockEmailToken(ctx, tx, holder.ID, digest)
		if err != nil {
			return err
		}
		if holder, err = accounts.Account(ctx, tx, holder.ID); err != nil {
			return err
		}
		if !token.Resets(holder, at) {
			return refusal
		}
		if err := accounts.SetPassword(ctx, tx, holder.ID, hash); err != nil {
			return err
		}
		if err := s.markVerified(ctx, tx, holder, at); err != nil {
			return err
		}
		if err := accounts.RevokeEmailTokens(ctx, tx, holder.ID, at); err != nil {
			return err
		}
		if err := accounts.RevokeSessions(ctx, tx, holder.ID, at); err != nil {
			return err
		}
		if err := accounts.DeleteLoginFailures(ctx, tx, account.LoginSubject(s.HashKeys, kind, holder.Email)); err != nil {
			return err
		}
		return recordChange(ctx, tx, holder, change{action: "account.reset_password", notification: notification.NotifyPasswordChanged}, at)
	})
	if isNotFound(err) {
		return nil, refusal
	}
	return &affiliatev1.ResetPasswordResponse{}, err
}

// ChangeMerchantPassword sets a new password of the caller, who proves to be the owner of the
// account as in ChangeMerchantEmail. It ends all other sessions and revokes the mailed tokens,
// because a person who knew the old password may have them.
func (s *Service) ChangeMerchantPassword(ctx context.Context, req *affiliatev1.ChangePasswordRequest) (*affiliatev1.ChangePasswordResponse, error) {
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	holder, err := accounts.Account(ctx, s.DB, caller.User)
	if err != nil {
		return nil, err
	}
	var violations affiliate.Violations
	checkPassword("new_password", req.GetNewPassword(), holder.Name, holder.Email, &violations)
	if err := violations.Err(); err != nil {
		return nil, err
	}
	attempt, err := s.throttleCaller(ctx, holder, at)
	if err != nil {
		return nil, err
	}
	if err := s.requirePassword(ctx, holder, req.GetCurrentPassword()); err != nil {
		return nil, err
	}
	hash, err := s.hashes.hash(ctx, req.GetNewPassword())
	if err != nil {
		return nil, err
	}
	var accepted bool
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		if err := s.checkUnchanged(ctx, tx, holder, req.GetCurrentPassword()); err != nil {
			return err
		}
		if accepted, err = s.checkFactor(ctx, tx, holder, req.GetCode(), at); err != nil || !accepted {
			return err
		}
		if err := accounts.DeleteBucketFailures(ctx, tx, attempt.Bucket); err != nil {
			return err
		}
		if err := accounts.SetPassword(ctx, tx, holder.ID, hash); err != nil {
			return err
		}
		if err := accounts.RevokeEmailTokens(ctx, tx, holder.ID, at); err != nil {
			return err
		}
		if err := accounts.RevokeOtherSessions(ctx, tx, holder.ID, &caller.Session, at); err != nil {
			return err
		}
		return recordChange(ctx, tx, holder, change{action: "account.change_password", notification: notification.NotifyPasswordChanged}, at)
	})
	return &affiliatev1.ChangePasswordResponse{}, refusedCode(accepted, err)
}

// ChangePartnerPassword sets a new password of the caller.
func (s *Service) ChangePartnerPassword(ctx context.Context, req *affiliatev1.ChangePasswordRequest) (*affiliatev1.ChangePasswordResponse, error) {
	return s.ChangeMerchantPassword(ctx, req)
}

// AddWorkers registers the worker of the job that processes the requests for mails.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &server.Worker[account.ProcessEmailRequest]{Run: server.ForArgs(s.processRequest)})
}

// storeRequest stores a request for a mail and the job that processes it. The job contains
// only the id of the request, because the arguments of jobs contain no addresses.
func storeRequest(ctx context.Context, tx *postgres.Tx, request account.EmailRequest) error {
	if err := accounts.InsertEmailRequest(ctx, tx, request); err != nil {
		return err
	}
	return tx.Enqueue(ctx, account.ProcessEmailRequest{Request: request.ID})
}

func (s *Service) processRequest(ctx context.Context, job account.ProcessEmailRequest) error {
	at := s.currentTime()
	return s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		request, found, err := accounts.EmailRequest(ctx, tx, job.Request)
		if err != nil || !found {
			return err
		}
		if request.User != nil {
			// A reset of the password and the confirmation of a second factor lock the user and
			// then delete the requests of the user. So the lock comes before the deletion here
			// too.
			if err := accounts.LockUserByID(ctx, tx, *request.User); err != nil && !isNotFound(err) {
				return err
			}
		}
		if found, err := accounts.DeleteEmailRequest(ctx, tx, job.Request); err != nil || !found {
			return err
		}
		if request.Purpose == account.TokenChange {
			return s.processChange(ctx, tx, request, at)
		}
		return s.processReset(ctx, tx, request, at)
	})
}

// processReset mails a token for a reset, if an account that may log in has the address and
// the address has not received too many tokens.
func (s *Service) processReset(ctx context.Context, tx *postgres.Tx, request account.EmailRequest, at time.Time) error {
	account, found, err := accounts.AccountByEmail(ctx, tx, request.Account, request.Address)
	if err != nil || !found || !account.MayLogIn() {
		return err
	}
	return s.sendLimited(ctx, tx, notification.MailPasswordReset, request, account, at)
}

// processChange mails a token to the new address, unless another account has the address,
// and a notice to the current address. The notice does not say whether a token was sent.
func (s *Service) processChange(ctx context.Context, tx *postgres.Tx, request account.EmailRequest, at time.Time) error {
	account, err := accounts.Account(ctx, tx, *request.User)
	if isNotFound(err) || err == nil && account.Email == request.Address {
		return nil // the account was erased, or its address has changed in the meantime
	}
	if err != nil {
		return err
	}
	_, taken, err := accounts.AccountByEmail(ctx, tx, request.Account, request.Address)
	if err != nil {
		return err
	}
	if !taken {
		if err := s.sendLimited(ctx, tx, notification.MailEmailChange, request, account, at); err != nil {
			return err
		}
	}
	notice := accountMail(notification.MailEmailChangeNotice, account, account.Email, at)
	notice.Facts.NewAddress = affiliate.MaskEmail(request.Address)
	return tx.SendMail(ctx, notice)
}

// sendLimited mails a token to the address of the request. It sends nothing if
// account.MaxTokensPerAddress tokens for this purpose were sent to the address within
// account.TokenLimitWindow. The tokens of all accounts count.
func (s *Service) sendLimited(ctx context.Context, tx *postgres.Tx, kind notification.MailKind, request account.EmailRequest, holder account.Account, at time.Time) error {
	sent, err := accounts.CountEmailTokens(ctx, tx, request.Purpose, request.Address, at.Add(-account.TokenLimitWindow))
	if err != nil || sent >= account.MaxTokensPerAddress {
		return err
	}
	token, text, digest := account.NewEmailToken(holder.ID, request.Purpose, request.Address, at)
	token.Session = request.Session
	return s.sendToken(ctx, tx, kind, holder, token, text, digest)
}

func isNotFound(err error) bool { return errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) }
