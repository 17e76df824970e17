package account

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
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
func (s *Service) challenge(ctx context.Context, tx *postgres.Tx, holder account.Account, at time.Time) (*affiliate.Error, error) {
	challenge, text, digest := account.NewLoginChallenge(holder.User.ID, at)
	if err := accounts.InsertLoginChallenge(ctx, tx, challenge, digest); err != nil {
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
	challenge, found, err := accounts.LoginChallenge(ctx, s.db, digest)
	if err != nil {
		return nil, err
	}
	if !found || !challenge.Open(at) {
		return nil, invalid
	}
	holder, err := accounts.Account(ctx, s.db, challenge.User)
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
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		// The lock is also held by every transaction that uses a code, a challenge or the
		// password of the user, so the following reads are current.
		if err := accounts.LockUserByID(ctx, tx, holder.User.ID); err != nil {
			return err
		}
		challenge, found, err := accounts.LoginChallenge(ctx, tx, digest)
		if err != nil {
			return err
		}
		if !found || !challenge.Open(at) {
			return invalid
		}
		if holder, err = accounts.Account(ctx, tx, holder.User.ID); err != nil {
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
			return accounts.CountChallengeFailure(ctx, tx, digest)
		}
		if err := accounts.DeleteLoginChallenge(ctx, tx, digest); err != nil {
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
	ctx context.Context, tx *postgres.Tx, account account.Account, session account.Session, refresh token, attempt account.LoginAttempt,
) (*account.Workspace, error) {
	if err := accounts.InsertSession(ctx, tx, session, refresh.digest()); err != nil {
		return nil, err
	}
	if err := accounts.DeleteBucketFailures(ctx, tx, attempt.Bucket); err != nil {
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
	return s.db.InTx(ctx, func(tx *postgres.Tx) error {
		id, found, err := accounts.LockUser(ctx, tx, kind, email)
		if err != nil {
			return err
		}
		if !found {
			return affiliate.Refuse(affiliate.ReasonNotFound)
		}
		account, err := accounts.Account(ctx, tx, id)
		if err != nil {
			return err
		}
		if !account.User.SecondFactor {
			return affiliate.Refuse(affiliate.ReasonSecondFactorState)
		}
		if err := accounts.DeleteSecondFactor(ctx, tx, id); err != nil {
			return err
		}
		if err := accounts.RevokeSessions(ctx, tx, id, at); err != nil {
			return err
		}
		return recordChangeBy(ctx, tx, affiliate.System, account, change{
			action: "account.reset_second_factor", notification: notification.NotifySecondFactorDisabled,
		}, at)
	})
}
