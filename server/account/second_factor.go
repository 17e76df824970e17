package account

import (
	"context"
	"crypto/subtle"
	"strconv"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// totpIssuer is the name under which an authenticator app shows an account.
const totpIssuer = "Tributary"

// EnrollMerchantTotp creates the secret of a merchant's second factor and stores it, encrypted
// with the id of the user as additional data. It replaces a secret that was not confirmed. If
// the user has not logged in recently, it checks the password. Without this check, a person
// with a stolen session could add a factor, authorise payout changes with its codes, and
// lock the owner out.
func (s *Service) EnrollMerchantTotp(ctx context.Context, req *affiliatev1.EnrollTotpRequest) (*affiliatev1.EnrollTotpResponse, error) {
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	user, password := caller.User, req.GetPassword()
	if password == "" && !account.IsRecentLogin(caller.Session, at) {
		return nil, affiliate.Invalid("password", "is required, because the last login was more than 15 minutes ago")
	}
	holder, err := accounts.Account(ctx, s.DB, user)
	if err != nil {
		return nil, err
	}
	if holder.SecondFactor {
		return nil, affiliate.Refuse(affiliate.ReasonSecondFactorState)
	}
	var attempt account.LoginAttempt
	if password != "" {
		if attempt, err = s.throttleCaller(ctx, holder, at); err != nil {
			return nil, err
		}
		if err := s.requirePassword(ctx, holder, password); err != nil {
			return nil, err
		}
	}
	return postgres.InTx(ctx, s.DB, func(tx *postgres.Tx) (*affiliatev1.EnrollTotpResponse, error) {
		if err := s.checkUnchanged(ctx, tx, holder, password); err != nil {
			return nil, err
		}
		current, err := accounts.Account(ctx, tx, user)
		if err != nil {
			return nil, err
		}
		if current.SecondFactor {
			return nil, affiliate.Refuse(affiliate.ReasonSecondFactorState)
		}
		if password != "" {
			if err := accounts.DeleteBucketFailures(ctx, tx, attempt.Bucket); err != nil {
				return nil, err
			}
		}
		key, err := totp.Generate(totp.GenerateOpts{Issuer: totpIssuer, AccountName: current.Email})
		if err != nil {
			return nil, err
		}
		return &affiliatev1.EnrollTotpResponse{Secret: key.Secret(), OtpauthUrl: key.URL()}, accounts.InsertSecondFactor(ctx, tx, account.SecondFactor{
			User: user, Secret: s.Seal.Seal([]byte(key.Secret()), user.UUID[:]), CreatedAt: at,
		})
	})
}

// EnrollPartnerTotp creates the secret of a partner's second factor.
func (s *Service) EnrollPartnerTotp(ctx context.Context, req *affiliatev1.EnrollTotpRequest) (*affiliatev1.EnrollTotpResponse, error) {
	return s.EnrollMerchantTotp(ctx, req)
}

// ConfirmMerchantTotp enables a merchant's second factor if the code belongs to its secret.
// Wrong codes are not counted, because the caller has received the secret. The code cannot
// be used again. Pending changes of the address are revoked, because they were requested
// without a code. All other sessions are revoked too.
func (s *Service) ConfirmMerchantTotp(ctx context.Context, req *affiliatev1.ConfirmTotpRequest) (*affiliatev1.ConfirmTotpResponse, error) {
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	return postgres.InTx(ctx, s.DB, func(tx *postgres.Tx) (*affiliatev1.ConfirmTotpResponse, error) {
		if err := accounts.LockUserByID(ctx, tx, caller.User); err != nil {
			return nil, err
		}
		factor, found, err := accounts.SecondFactor(ctx, tx, caller.User)
		if err != nil {
			return nil, err
		}
		if !found || factor.ConfirmedAt != nil {
			return nil, affiliate.Refuse(affiliate.ReasonSecondFactorState)
		}
		step, ok, err := s.matchStep(factor, req.GetCode(), at)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, refusedCode(false, nil)
		}
		codes, digests := account.NewRecoveryCodes()
		if err := accounts.ConfirmSecondFactor(ctx, tx, caller.User, step, digests, at); err != nil {
			return nil, err
		}
		if err := accounts.RevokeOtherSessions(ctx, tx, caller.User, &caller.Session, at); err != nil {
			return nil, err
		}
		if err := accounts.RevokeEmailChanges(ctx, tx, caller.User, at); err != nil {
			return nil, err
		}
		account, err := accounts.Account(ctx, tx, caller.User)
		if err != nil {
			return nil, err
		}
		enabled := change{action: "account.enable_second_factor", notification: notification.NotifySecondFactorEnabled}
		return &affiliatev1.ConfirmTotpResponse{RecoveryCodes: codes}, recordChange(ctx, tx, account, enabled, at)
	})
}

// ConfirmPartnerTotp enables a partner's second factor.
func (s *Service) ConfirmPartnerTotp(ctx context.Context, req *affiliatev1.ConfirmTotpRequest) (*affiliatev1.ConfirmTotpResponse, error) {
	return s.ConfirmMerchantTotp(ctx, req)
}

// RemoveMerchantTotp removes a merchant's second factor.
func (s *Service) RemoveMerchantTotp(ctx context.Context, req *affiliatev1.RemoveTotpRequest) (*affiliatev1.RemoveTotpResponse, error) {
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	account, err := accounts.Account(ctx, s.DB, caller.User)
	if err != nil {
		return nil, err
	}
	if !account.SecondFactor {
		return nil, affiliate.Refuse(affiliate.ReasonSecondFactorState)
	}
	attempt, err := s.throttleCaller(ctx, account, at)
	if err != nil {
		return nil, err
	}
	var accepted bool
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		if err := accounts.LockUserByID(ctx, tx, caller.User); err != nil {
			return err
		}
		if accepted, err = s.useCode(ctx, tx, account, req.GetCode(), at); err != nil || !accepted {
			return err
		}
		if err := accounts.DeleteBucketFailures(ctx, tx, attempt.Bucket); err != nil {
			return err
		}
		if err := accounts.DeleteSecondFactor(ctx, tx, caller.User); err != nil {
			return err
		}
		if err := accounts.RevokeOtherSessions(ctx, tx, caller.User, &caller.Session, at); err != nil {
			return err
		}
		return recordChange(ctx, tx, account, change{action: "account.disable_second_factor", notification: notification.NotifySecondFactorDisabled}, at)
	})
	return &affiliatev1.RemoveTotpResponse{}, refusedCode(accepted, err)
}

// RemovePartnerTotp removes a partner's second factor.
func (s *Service) RemovePartnerTotp(ctx context.Context, req *affiliatev1.RemoveTotpRequest) (*affiliatev1.RemoveTotpResponse, error) {
	return s.RemoveMerchantTotp(ctx, req)
}

// throttleCaller counts an attempt to prove that the caller is the owner of an account, like an
// attempt to log in. Errors: RATE_LIMIT_EXCEEDED if the client must wait.
func (s *Service) throttleCaller(ctx context.Context, account account.Account, at time.Time) (account.LoginAttempt, error) {
	attempt, err := s.newAttempt(ctx, account.Kind, account.Email, account.ID, at)
	if err != nil {
		return attempt, err
	}
	return attempt, s.throttle(ctx, attempt)
}

func (s *Service) requirePassword(ctx context.Context, account account.Account, password string) error {
	matches, _, err := s.hashes.matches(ctx, password, account.PasswordHash, true)
	if err == nil && !matches {
		return affiliate.Refuse(affiliate.ReasonInvalidCredentials)
	}
	return err
}

// refusedCode returns err. If err is nil and ok is false, it returns INVALID_CREDENTIALS with a
// message about the code. The standard message is about the e-mail address and the password.
func refusedCode(ok bool, err error) error {
	if err == nil && !ok {
		return &affiliate.Error{Reason: affiliate.ReasonInvalidCredentials, Message: "The code is wrong or was used before."}
	}
	return err
}

// useCode uses a code of the authenticator app or a recovery code. The caller must have
// locked the user, so that only one of several calls with the same code succeeds. ok is
// false if the code is wrong, missing or used before, or if the account has no second
// factor. useCode counts wrong codes, so the caller must commit the transaction even if ok
// is false. Errors: INVALID_CREDENTIALS after too many wrong codes in a row.
func (s *Service) useCode(ctx context.Context, tx *postgres.Tx, holder account.Account, code string, at time.Time) (ok bool, err error) {
	factor, found, err := accounts.SecondFactor(ctx, tx, holder.ID)
	if err != nil || !found || factor.ConfirmedAt == nil {
		return false, err
	}
	if code == "" {
		return false, nil
	}
	if err := factor.CheckFailures(); err != nil {
		return false, err
	}
	step, ok, err := s.matchStep(factor, code, at)
	switch {
	case err != nil:
		return false, err
	case ok:
		err = accounts.UseTimeStep(ctx, tx, holder.ID, step)
	default:
		ok, err = s.useRecoveryCode(ctx, tx, holder, code, at)
	}
	if err != nil {
		return false, err
	}
	if ok {
		return true, accounts.ResetCodeFailures(ctx, tx, holder.ID)
	}
	if err := accounts.CountCodeFailure(ctx, tx, holder.ID); err != nil {
		return false, err
	}
	if factor.Failures+1 != account.NotifiedCodeFailures {
		return false, nil
	}
	return false, tx.Notify(ctx, account.Notification(holder, notification.NotifyWrongCodes, at, nil)...)
}

func (s *Service) useRecoveryCode(ctx context.Context, tx *postgres.Tx, holder account.Account, code string, at time.Time) (ok bool, err error) {
	digest, ok := account.DigestRecoveryCode(code)
	if !ok {
		return false, nil
	}
	left, found, err := accounts.UseRecoveryCode(ctx, tx, holder.ID, digest, at)
	if err != nil || !found {
		return false, err
	}
	return true, recordChange(ctx, tx, holder, change{
		action: "account.use_recovery_code", notification: notification.NotifyRecoveryCodeUsed,
		facts: map[string]string{"left": strconv.Itoa(left)}, after: map[string]int{"recovery_codes_left": left},
	}, at)
}

func (s *Service) matchStep(factor account.SecondFactor, code string, at time.Time) (step int64, ok bool, err error) {
	secret, err := s.Seal.Open(factor.Secret, factor.User.UUID[:])
	if err != nil {
		return 0, false, err
	}
	step, ok = factor.MatchStep(at, func(step int64) bool {
		var want string
		want, err = hotp.GenerateCodeCustom(string(secret), uint64(step), hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1})
		return err == nil && subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1
	})
	return step, ok, err
}

// Reauthenticate checks that the caller is the owner of the account before a change that
// moves money. It checks a code if the account has a second factor, otherwise the password.
// The code cannot be used again. Wrong values count as failed logins. factorSince is the
// time at which the second factor was enabled, or nil if the account has none. Errors:
// INVALID_CREDENTIALS, RATE_LIMIT_EXCEEDED.
func (s *Service) Reauthenticate(ctx context.Context, password, code string) (factorSince *time.Time, err error) {
	at := s.currentTime()
	account, err := accounts.Account(ctx, s.DB, server.PrincipalFrom(ctx).User)
	if err != nil {
		return nil, err
	}
	attempt, err := s.throttleCaller(ctx, account, at)
	if err != nil {
		return nil, err
	}
	if !account.SecondFactor {
		if err := s.requirePassword(ctx, account, password); err != nil {
			return nil, err
		}
	}
	var accepted bool
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		if !account.SecondFactor {
			if err := s.checkUnchanged(ctx, tx, account, password); err != nil {
				return err
			}
		}
		if accepted, err = s.checkFactor(ctx, tx, account, code, at); err != nil || !accepted {
			return err
		}
		factor, _, err := accounts.SecondFactor(ctx, tx, account.ID)
		if err != nil {
			return err
		}
		factorSince = factor.ConfirmedAt
		return accounts.DeleteBucketFailures(ctx, tx, attempt.Bucket)
	})
	return factorSince, refusedCode(accepted, err)
}

// checkFactor locks the user of an account and uses a code if the account has a second
// factor now. ok is true if the account has no second factor and had none when the caller read it.
// ok is false if the code is wrong, or if the account had a second factor then and has none now. If
// ok is false, the caller must commit the transaction, because useCode counts wrong codes.
func (s *Service) checkFactor(ctx context.Context, tx *postgres.Tx, account account.Account, code string, at time.Time) (ok bool, err error) {
	if err := accounts.LockUserByID(ctx, tx, account.ID); err != nil {
		return false, err
	}
	current, err := accounts.Account(ctx, tx, account.ID)
	if err != nil || !current.SecondFactor && !account.SecondFactor {
		return err == nil, err
	}
	return s.useCode(ctx, tx, current, code, at)
}
