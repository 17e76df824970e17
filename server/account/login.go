package account

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// LoginMerchant opens a session of a merchant.
func (s *Service) LoginMerchant(ctx context.Context, req *affiliatev1.LoginRequest) (*affiliatev1.SessionResponse, error) {
	return s.login(ctx, affiliate.Merchant, req)
}

// LoginPartner opens a session of a partner.
func (s *Service) LoginPartner(ctx context.Context, req *affiliatev1.LoginRequest) (*affiliatev1.SessionResponse, error) {
	return s.login(ctx, affiliate.Partner, req)
}

func (s *Service) login(ctx context.Context, kind affiliate.AccountKind, req *affiliatev1.LoginRequest) (*affiliatev1.SessionResponse, error) {
	email, at := strings.ToLower(req.GetEmail()), s.currentTime()
	holder, found, err := accounts.AccountByEmail(ctx, s.DB, kind, email)
	if err != nil {
		return nil, err
	}
	// The device is looked up even if there is no account, so that both cases take the same time.
	attempt, err := s.newAttempt(ctx, kind, email, holder.ID, at)
	if err != nil {
		return nil, err
	}
	// throttle stores the attempt as failed. If the login succeeds, the transaction below
	// deletes all failed attempts in the same bucket.
	if err := s.throttle(ctx, attempt); err != nil {
		return nil, err
	}
	matches, outdated, err := s.hashes.matches(ctx, req.GetPassword(), holder.PasswordHash, found)
	if err != nil {
		return nil, err
	}
	if !matches || !holder.MayLogIn() {
		return nil, affiliate.Refuse(affiliate.ReasonInvalidCredentials)
	}
	newHash := ""
	if outdated {
		if newHash, err = s.hashes.hash(ctx, req.GetPassword()); err != nil {
			return nil, err
		}
	}

	session, token := newSession(ctx, holder.ID, at), newToken()
	var workspace *account.Workspace
	var challenge *affiliate.Error
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		challenge = nil // InTx may run this function again, after it has set challenge
		if err := s.checkUnchanged(ctx, tx, holder, req.GetPassword()); err != nil {
			return err
		}
		if outdated {
			if err := accounts.UpdatePasswordHash(ctx, tx, holder.ID, newHash); err != nil {
				return err
			}
		}
		// checkUnchanged has locked the user, so this reads a second factor that was enabled just before.
		current, err := accounts.Account(ctx, tx, holder.ID)
		if err != nil {
			return err
		}
		if holder.SecondFactor = current.SecondFactor; holder.SecondFactor {
			challenge, err = s.challenge(ctx, tx, holder, at)
			return err
		}
		workspace, err = s.openSession(ctx, tx, holder, session, token, attempt)
		return err
	})
	if err != nil {
		return nil, err
	}
	if challenge != nil {
		// The password was right, so this attempt is no failure. Earlier failures stay, because
		// wrong codes must count until the login is complete.
		if err := accounts.DeleteLoginAttempt(ctx, s.DB, attempt.ID); err != nil {
			return nil, err
		}
		return nil, challenge
	}
	s.storeOrigin(ctx, holder.User, at)
	return s.sessionResponse(holder, workspace, session.ID, token.text())
}

// newAttempt returns an attempt to prove the ownership of the account with an address, at a login or
// when a logged-in user confirms a call. email is in lower case. user is zero if no user has the address.
func (s *Service) newAttempt(ctx context.Context, kind affiliate.AccountKind, email string, user affiliate.UserID, at time.Time) (account.LoginAttempt, error) {
	caller := account.LoginCaller{Network: server.ActorFrom(ctx).AddressPrefix}
	if principal := server.PrincipalFrom(ctx); principal.User == user {
		caller.Session = principal.Session
	}
	device := account.DeviceHash(s.HashKeys, user, caller.Network, agentFrom(ctx))
	var err error
	caller.KnownDevice, err = accounts.KnowsDevice(ctx, s.DB, user, device, at.Add(-account.DeviceMemory))
	return account.LoginAttempt{
		ID:      affiliate.NewID[affiliate.LoginAttemptID](at),
		Subject: account.LoginSubject(s.HashKeys, kind, email),
		Bucket:  account.LoginBucket(s.HashKeys, kind, email, caller),
		At:      at,
	}, err
}

// checkUnchanged locks the user of an account whose password was checked. If the password
// hash has changed since then, it checks the password again. After a reset, the old
// password therefore neither opens a session nor requests a change of the address. Errors:
// INVALID_CREDENTIALS.
func (s *Service) checkUnchanged(ctx context.Context, tx *postgres.Tx, account account.Account, password string) error {
	refusal := affiliate.Refuse(affiliate.ReasonInvalidCredentials)
	if err := accounts.LockUserByID(ctx, tx, account.ID); err != nil {
		if isNotFound(err) {
			return refusal // the account was erased
		}
		return err
	}
	current, err := accounts.Account(ctx, tx, account.ID)
	if err != nil || current.PasswordHash == account.PasswordHash {
		return err
	}
	matches, _, err := s.hashes.matches(ctx, password, current.PasswordHash, true)
	if err == nil && !matches {
		err = refusal
	}
	return err
}

// throttle limits how fast the password of an account can be guessed. A bucket counts the attempts for
// one account and session, known device or network (account.LoginBucket). E-mail addresses without an
// account are limited in the same way. throttle stores the attempt before it counts the others, so that
// attempts in parallel requests are counted too. Errors: RATE_LIMIT_EXCEEDED if the client must wait.
func (s *Service) throttle(ctx context.Context, attempt account.LoginAttempt) error {
	if err := accounts.AddLoginAttempt(ctx, s.DB, attempt); err != nil {
		return err
	}
	failures, last, err := accounts.OtherLoginFailures(ctx, s.DB, attempt, attempt.At.Add(-account.LoginFailureWindow))
	if err != nil {
		return err
	}
	wait := account.LoginWait(failures, last, attempt.At)
	if wait == 0 {
		return nil
	}
	// This attempt is rejected without a check of the password, so it is not a failed
	// attempt and must not make the next wait longer.
	if err := accounts.DeleteLoginAttempt(ctx, s.DB, attempt.ID); err != nil {
		return err
	}
	refusal := affiliate.Refuse(affiliate.ReasonRateLimitExceeded)
	seconds := int((wait + time.Second - 1) / time.Second)
	refusal.Metadata = map[string]string{"retry_after": strconv.Itoa(seconds)}
	return refusal
}

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
	challenge, text, digest := account.NewLoginChallenge(holder.ID, at)
	if err := accounts.InsertLoginChallenge(ctx, tx, challenge, digest); err != nil {
		return nil, err
	}
	refusal := affiliate.Refuse(affiliate.ReasonSecondFactorRequired)
	refusal.Metadata = map[string]string{account.ChallengeField: text}
	return refusal, nil
}

// loginSecondFactor opens a session if the code is right. A wrong code is counted as a failure of
// the challenge, of the second factor and of the login.
func (s *Service) loginSecondFactor(ctx context.Context, kind affiliate.AccountKind, req *affiliatev1.LoginSecondFactorRequest) (*affiliatev1.SessionResponse, error) {
	invalid, at := affiliate.Refuse(affiliate.ReasonChallengeInvalid), s.currentTime()
	digest := account.DigestLoginChallenge(req.GetChallenge())
	challenge, found, err := accounts.LoginChallenge(ctx, s.DB, digest)
	if err != nil {
		return nil, err
	}
	if !found || !challenge.Open(at) {
		return nil, invalid
	}
	holder, err := accounts.Account(ctx, s.DB, challenge.User)
	if isNotFound(err) || err == nil && (holder.Kind != kind || !holder.MayLogIn()) {
		return nil, invalid
	}
	if err != nil {
		return nil, err
	}
	attempt, err := s.throttleCaller(ctx, holder, at)
	if err != nil {
		return nil, err
	}

	session, token := newSession(ctx, holder.ID, at), newToken()
	var workspace *account.Workspace
	var accepted bool
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		// The lock is also held by every transaction that uses a code, a challenge or the
		// password of the user, so the following reads are current.
		if err := accounts.LockUserByID(ctx, tx, holder.ID); err != nil {
			return err
		}
		challenge, found, err := accounts.LoginChallenge(ctx, tx, digest)
		if err != nil {
			return err
		}
		if !found || !challenge.Open(at) {
			return invalid
		}
		if holder, err = accounts.Account(ctx, tx, holder.ID); err != nil {
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
	return s.sessionResponse(holder, workspace, session.ID, token.text())
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

// ResetSecondFactor removes the second factor of an account and ends its sessions, on behalf of the
// operator. email must be in lower case. Errors: NOT_FOUND if there is no such account;
// SECOND_FACTOR_STATE_INVALID if it has no second factor.
func (s *Service) ResetSecondFactor(ctx context.Context, kind affiliate.AccountKind, email string) error {
	at := s.currentTime()
	return s.DB.InTx(ctx, func(tx *postgres.Tx) error {
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
		if !account.SecondFactor {
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
