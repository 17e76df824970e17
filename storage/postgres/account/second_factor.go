package account

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
)

type secondFactorRow struct {
	UserID      affiliate.UserID
	Secret      []byte
	CreatedAt   time.Time
	ConfirmedAt *time.Time
	LastStep    int64
	Failures    int
}

func (r secondFactorRow) factor() account.SecondFactor {
	return account.SecondFactor{
		User: r.UserID, Secret: r.Secret, CreatedAt: r.CreatedAt.UTC(), ConfirmedAt: postgres.UTC(r.ConfirmedAt), LastStep: r.LastStep,
		Failures: r.Failures,
	}
}

// SecondFactor returns the second factor of a user, also if it was not confirmed. The caller
// must have locked the user.
func (tx *Tx) SecondFactor(ctx context.Context, user affiliate.UserID) (factor account.SecondFactor, found bool, err error) {
	const query = `select user_id, secret, created_at, confirmed_at, last_step, failures from second_factors where user_id = $1`
	rows, err := tx.Query(ctx, query, user)
	return optional(rows, err, secondFactorRow.factor)
}

// InsertSecondFactor stores a second factor that is not confirmed. It replaces an earlier
// factor without a confirmation.
func (tx *Tx) InsertSecondFactor(ctx context.Context, f account.SecondFactor) error {
	const insert = `
		insert into second_factors (user_id, secret, created_at) values ($1, $2, $3)
		on conflict (user_id) do update
		set secret = excluded.secret, created_at = excluded.created_at
		where second_factors.confirmed_at is null`
	_, err := tx.Exec(ctx, insert, f.User, f.Secret, f.CreatedAt)
	return err
}

// ConfirmSecondFactor stores that a user has confirmed the second factor with the code of a
// time step, and stores the digests of its recovery codes.
func (tx *Tx) ConfirmSecondFactor(ctx context.Context, user affiliate.UserID, step int64, recoveryCodes [][]byte, at time.Time) error {
	const (
		confirm = `update second_factors set confirmed_at = $2, last_step = $3 where user_id = $1`
		insert  = `insert into recovery_codes (user_id, digest) select $1, unnest($2::bytea[])`
	)
	if _, err := tx.Exec(ctx, confirm, user, at, step); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, insert, user, recoveryCodes)
	return err
}

// UseTimeStep stores the time step of a code that was accepted.
func (tx *Tx) UseTimeStep(ctx context.Context, user affiliate.UserID, step int64) error {
	const use = `update second_factors set last_step = $2 where user_id = $1`
	_, err := tx.Exec(ctx, use, user, step)
	return err
}

// CountCodeFailure counts a wrong code.
func (tx *Tx) CountCodeFailure(ctx context.Context, user affiliate.UserID) error {
	const count = `update second_factors set failures = failures + 1 where user_id = $1`
	_, err := tx.Exec(ctx, count, user)
	return err
}

// ResetCodeFailures ends the count of wrong codes.
func (tx *Tx) ResetCodeFailures(ctx context.Context, user affiliate.UserID) error {
	const reset = `update second_factors set failures = 0 where user_id = $1 and failures > 0`
	_, err := tx.Exec(ctx, reset, user)
	return err
}

// UseRecoveryCode marks a recovery code as used. found is false if the user has no such code
// or has used it. left is the number of codes that remain.
func (tx *Tx) UseRecoveryCode(ctx context.Context, user affiliate.UserID, digest []byte, at time.Time) (left int, found bool, err error) {
	const (
		use   = `update recovery_codes set used_at = $3 where user_id = $1 and digest = $2 and used_at is null`
		count = `select count(*) from recovery_codes where user_id = $1 and used_at is null`
	)
	tag, err := tx.Exec(ctx, use, user, digest, at)
	if err != nil || tag.RowsAffected() == 0 {
		return 0, false, err
	}
	err = tx.QueryRow(ctx, count, user).Scan(&left)
	return left, true, err
}

// DeleteEnrolment deletes the second factor of a user if it is not confirmed. A factor
// without a confirmation has no recovery codes.
func (tx *Tx) DeleteEnrolment(ctx context.Context, user affiliate.UserID) error {
	const remove = `delete from second_factors where user_id = $1 and confirmed_at is null`
	_, err := tx.Exec(ctx, remove, user)
	return err
}

// DeleteSecondFactor deletes the second factor of a user with its recovery codes, and the
// user's challenges.
func (tx *Tx) DeleteSecondFactor(ctx context.Context, user affiliate.UserID) error {
	const (
		removeCodes = `delete from recovery_codes where user_id = $1`
		remove      = `delete from second_factors where user_id = $1`
	)
	for _, statement := range []string{removeCodes, remove} {
		if _, err := tx.Exec(ctx, statement, user); err != nil {
			return err
		}
	}
	return tx.DeleteLoginChallenges(ctx, user)
}

// InsertLoginChallenge stores a challenge with its digest.
func (tx *Tx) InsertLoginChallenge(ctx context.Context, c account.LoginChallenge, digest [sha256.Size]byte) error {
	const insert = `insert into login_challenges (digest, user_id, created_at, expires_at) values ($1, $2, $3, $4)`
	_, err := tx.Exec(ctx, insert, digest[:], c.User, c.CreatedAt, c.ExpiresAt)
	return err
}

type loginChallengeRow struct {
	UserID    affiliate.UserID
	Failures  int
	CreatedAt time.Time
	ExpiresAt time.Time
}

func (r loginChallengeRow) challenge() account.LoginChallenge {
	return account.LoginChallenge{User: r.UserID, Failures: r.Failures, CreatedAt: r.CreatedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC()}
}

const challengeByDigest = `select user_id, failures, created_at, expires_at from login_challenges where digest = $1`

// LoginChallenge returns the challenge with a digest. The caller must lock the user and read
// it again before it uses the challenge.
func (s *Store) LoginChallenge(ctx context.Context, digest [sha256.Size]byte) (challenge account.LoginChallenge, found bool, err error) {
	rows, err := s.db.Pool().Query(ctx, challengeByDigest, digest[:])
	return optional(rows, err, loginChallengeRow.challenge)
}

// LoginChallenge returns the challenge with a digest. The caller must have locked the user.
func (tx *Tx) LoginChallenge(ctx context.Context, digest [sha256.Size]byte) (challenge account.LoginChallenge, found bool, err error) {
	rows, err := tx.Query(ctx, challengeByDigest, digest[:])
	return optional(rows, err, loginChallengeRow.challenge)
}

// CountChallengeFailure counts a wrong code for a challenge.
func (tx *Tx) CountChallengeFailure(ctx context.Context, digest [sha256.Size]byte) error {
	const count = `update login_challenges set failures = failures + 1 where digest = $1`
	_, err := tx.Exec(ctx, count, digest[:])
	return err
}

// DeleteLoginChallenges deletes all challenges of a user.
func (tx *Tx) DeleteLoginChallenges(ctx context.Context, user affiliate.UserID) error {
	const remove = `delete from login_challenges where user_id = $1`
	_, err := tx.Exec(ctx, remove, user)
	return err
}

// DeleteLoginChallenge deletes the challenge with a digest.
func (tx *Tx) DeleteLoginChallenge(ctx context.Context, digest [sha256.Size]byte) error {
	const remove = `delete from login_challenges where digest = $1`
	_, err := tx.Exec(ctx, remove, digest[:])
	return err
}

// DeleteExpiredChallenges deletes at most limit challenges that expired before the given
// time. It returns the number of deleted challenges.
func (s *Store) DeleteExpiredChallenges(ctx context.Context, before time.Time, limit int) (int64, error) {
	const remove = `
		delete from login_challenges
		where digest in (select digest from login_challenges where expires_at < $1 order by expires_at limit $2)`
	tag, err := s.db.Pool().Exec(ctx, remove, before, limit)
	return tag.RowsAffected(), err
}
