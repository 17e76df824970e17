package account

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// LoginMerchantSecondFactor completes a login of a merchant with a code.
func (s *Service) LoginMerchantSecondFactor(ctx context.Context, req *affiliatev1.LoginSecondFactorRequest) (*affiliatev1.SessionResponse, error) {
	return s.loginSecondFactor(ctx, affiliate.Merchant, req)
}

// LoginPartnerSecondFactor completes a login of a partner with a code.
func (s *Service) LoginPartnerSecondFactor(ctx context.Context, req *affiliatev1.LoginSecondFactorRequest) (*affiliatev1.SessionResponse, error) {
	return s.loginSecondFactor(ctx, affiliate.Partner, req)
}

// challenge stores a challenge for a login whose password was right. It returns the error for
// the client, which contains the challenge.
func (s *Service) challenge(ctx context.Context, tx Tx, holder account.Account, at time.Time) (*affiliate.Error, error) {
	challenge, text, digest := account.NewLoginChallenge(holder.User.ID, at)
	if err := tx.InsertLoginChallenge(ctx, challenge, digest); err != nil {
		return nil, err
	}
	refusal := affiliate.Refuse(affiliate.ReasonSecondFactorRequired)
	refusal.Metadata = map[string]string{account.ChallengeField: text}
	return refusal, nil
}

// loginSecondFactor opens a session if the code is right. A wrong code counts for the
// challenge, for the second factor and as a failed login.
func (s *Service) loginSecondFactor(ctx context.Context, kind affiliate.AccountKind, req *affiliatev1.LoginSecondFactorRequest) (*affiliatev1.SessionResponse, error) {
	invalid, at := affiliate.Refuse(affiliate.ReasonChallengeInvalid), s.currentTime()
	digest := account.DigestLoginChallenge(req.GetChallenge())
	challenge, found, err := s.store.LoginChallenge(ctx, digest)
	if err != nil {
		return nil, err
	}
	if !found || !challenge.Open(at) {
		return nil, invalid
	}
	holder, err := s.store.Account(ctx, challenge.User)
	if isNotFound(err) || err == nil && (holder.User.Kind != kind || !holder.MayLogIn()) {
		return nil, invalid
	}
	if err != nil {
		return nil, err
	}
	attempt, err := s.throttleCaller(ctx, holder, at)
	if err != nil {
		return nil, err
	}

	session, token := account.NewSession(holder.User.ID, at), newToken()
	var workspace *account.Workspace
	var accepted bool
	err = s.store.InTx(ctx, func(tx Tx) error {
		// The lock is also held by every transaction that uses a code, a challenge or the
		// password of the user, so the following reads are current.
		if err := tx.LockUserByID(ctx, holder.User.ID); err != nil {
			return err
		}
		challenge, found, err := tx.LoginChallenge(ctx, digest)
		if err != nil {
			return err
		}
		if !found || !challenge.Open(at) {
			return invalid
		}
		if holder, err = tx.Account(ctx, holder.User.ID); err != nil {
			return err
		}
		if !holder.MayLogIn() {
			return invalid
		}
		if accepted, err = s.useCode(ctx, tx, holder, req.GetCode(), at); err != nil {
			return err
		}
		if !accepted {
			// The count must be committed, so loginSecondFactor returns the error after the
			// transaction.
			return tx.CountChallengeFailure(ctx, digest)
		}
		if err := tx.DeleteLoginChallenge(ctx, digest); err != nil {
			return err
		}
		workspace, err = s.openSession(ctx, tx, holder, session, token, attempt)
		return err
	})
	if isNotFound(err) {
		return nil, invalid // the account was erased
	}
	if err := refusedCode(accepted, err); err != nil {
		return nil, err
	}
	s.storeOrigin(ctx, holder.User, at)
	return s.sessionResponse(holder, workspace, session.ID, token)
}

// openSession stores a session whose user has proved to be the owner of the account, deletes
// the failed attempts in the bucket of the login, and notifies the user of a new device. It returns the
// workspace of the account.
func (s *Service) openSession(
	ctx context.Context, tx Tx, account account.Account, session account.Session, refresh token, attempt account.LoginAttempt,
) (*account.Workspace, error) {
	if err := tx.InsertSession(ctx, session, refresh.digest()); err != nil {
		return nil, err
	}
	if err := tx.DeleteBucketFailures(ctx, attempt.Bucket); err != nil {
		return nil, err
	}
	if err := s.notifyNewDevice(ctx, tx, account, session.CreatedAt); err != nil {
		return nil, err
	}
	return workspaceOf(ctx, tx, account)
}

// ResetSecondFactor removes the second factor of an account for the operator of the service,
// and ends its sessions. email must be in lower case. Errors: NOT_FOUND if there is no such
// account; SECOND_FACTOR_STATE_INVALID if it has no second factor.
func (s *Service) ResetSecondFactor(ctx context.Context, kind affiliate.AccountKind, email string) error {
	at := s.currentTime()
	return s.store.InTx(ctx, func(tx Tx) error {
		id, found, err := tx.LockUser(ctx, kind, email)
		if err != nil {
			return err
		}
		if !found {
			return affiliate.Refuse(affiliate.ReasonNotFound)
		}
		account, err := tx.Account(ctx, id)
		if err != nil {
			return err
		}
		if !account.User.SecondFactor {
			return affiliate.Refuse(affiliate.ReasonSecondFactorState)
		}
		if err := tx.DeleteSecondFactor(ctx, id); err != nil {
			return err
		}
		if err := tx.RevokeSessions(ctx, id, at); err != nil {
			return err
		}
		return recordChangeBy(ctx, tx, affiliate.System, account, change{
			action: "account.reset_second_factor", notification: notification.NotifySecondFactorDisabled,
		}, at)
	})
}
