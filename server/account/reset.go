package account

import (
	"context"
	"errors"
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
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
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error { return storeRequest(ctx, tx, request) })
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ForgotPasswordResponse{}, nil
}

// ResetMerchantPassword sets a new password of a merchant.
func (s *Service) ResetMerchantPassword(ctx context.Context, req *affiliatev1.ResetPasswordRequest) (*affiliatev1.ResetPasswordResponse, error) {
	return s.reset(ctx, affiliate.Merchant, req)
}

// ResetPartnerPassword sets a new password of a partner.
func (s *Service) ResetPartnerPassword(ctx context.Context, req *affiliatev1.ResetPasswordRequest) (*affiliatev1.ResetPasswordResponse, error) {
	return s.reset(ctx, affiliate.Partner, req)
}

// reset sets a new password. It revokes all other tokens of the user, in particular those
// for a change of the address: a person who knew the old password may have requested them.
func (s *Service) reset(ctx context.Context, kind affiliate.AccountKind, req *affiliatev1.ResetPasswordRequest) (*affiliatev1.ResetPasswordResponse, error) {
	refusal := affiliate.Refuse(affiliate.ReasonResetToken)
	digest := account.DigestEmailToken(req.GetToken())
	// Invalid tokens are rejected before the password is hashed, because hashing is
	// expensive.
	token, found, err := accounts.EmailToken(ctx, s.db, digest)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, refusal
	}
	holder, err := accounts.Account(ctx, s.db, token.User)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return nil, refusal // the account was erased
	}
	if err != nil {
		return nil, err
	}
	if holder.User.Kind != kind || !token.Resets(holder, s.currentTime()) {
		return nil, refusal
	}
	var violations affiliate.Violations
	checkPassword(req.GetPassword(), holder.User.Name, holder.User.Email, &violations)
	if err := violations.Err(); err != nil {
		return nil, err // the token was not used
	}
	hash, err := s.hashes.hash(ctx, req.GetPassword())
	if err != nil {
		return nil, err
	}

	at := s.currentTime()
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		// The token and the account are read again, because another call may have used the
		// token.
		token, _, err := accounts.LockEmailToken(ctx, tx, holder.User.ID, digest)
		if err != nil {
			return err
		}
		if holder, err = accounts.Account(ctx, tx, holder.User.ID); err != nil {
			return err
		}
		if !token.Resets(holder, at) {
			return refusal
		}
		if err := accounts.SetPassword(ctx, tx, holder.User.ID, hash); err != nil {
			return err
		}
		if err := s.markVerified(ctx, tx, holder, at); err != nil {
			return err
		}
		if err := accounts.RevokeEmailTokens(ctx, tx, holder.User.ID, at); err != nil {
			return err
		}
		// A person who knew the old password may have a challenge, or the secret of a second
		// factor that is not confirmed.
		if err := accounts.DeleteLoginChallenges(ctx, tx, holder.User.ID); err != nil {
			return err
		}
		if err := accounts.DeleteEnrolment(ctx, tx, holder.User.ID); err != nil {
			return err
		}
		if err := accounts.RevokeSessions(ctx, tx, holder.User.ID, at); err != nil {
			return err
		}
		if err := accounts.ResetCodeFailures(ctx, tx, holder.User.ID); err != nil {
			return err
		}
		if err := accounts.DeleteLoginFailures(ctx, tx, account.LoginSubject(s.hashKeys, kind, holder.User.Email)); err != nil {
			return err
		}
		return recordChange(ctx, tx, holder, change{action: "account.reset_password", notification: notification.NotifyPasswordChanged}, at)
	})
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return nil, refusal
	}
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ResetPasswordResponse{}, nil
}
