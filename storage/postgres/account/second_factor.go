package account

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
)

var (
	selectSecondFactor = `select ` + postgres.Columns[account.SecondFactor]("f") + ` from second_factors f where f.user_id = $1`
	selectChallenge    = `select ` + postgres.Columns[account.LoginChallenge]("c") + ` from login_challenges c where c.digest = $1`
)

// SecondFactor returns the second factor of a user, also if it was not confirmed. The caller
// must have locked the user.
func SecondFactor(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) (factor account.SecondFactor, found bool, err error) {
	rows, err := tx.Query(ctx, selectSecondFactor, user)
	return optional[account.SecondFactor](rows, err)
}

// InsertSecondFactor stores a second factor that is not confirmed. It replaces an earlier
// factor without a confirmation.
func InsertSecondFactor(ctx context.Context, tx *postgres.Tx, f account.SecondFactor) error {
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
func ConfirmSecondFactor(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, step int64, recoveryCodes [][]byte, at time.Time) error {
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
func UseTimeStep(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, step int64) error {
	const use = `update second_factors set last_step = $2 where user_id = $1`
	_, err := tx.Exec(ctx, use, user, step)
	return err
}

// CountCodeFailure counts a wrong code.
func CountCodeFailure(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) error {
	const count = `update second_factors set failures = failures + 1 where user_id = $1`
	_, err := tx.Exec(ctx, count, user)
	return err
}

// ResetCodeFailures ends the count of wrong codes.
func ResetCodeFailures(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) error {
	const reset = `update second_factors set failures = 0 where user_id = $1 and failures > 0`
	_, err := tx.Exec(ctx, reset, user)
	return err
}

// UseRecoveryCode marks a recovery code as used. found is false if the user has no such code
// or has used it. left is the number of codes that remain.
func UseRecoveryCode(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, digest []byte, at time.Time) (left int, found bool, err error) {
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
func DeleteEnrolment(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) error {
	const remove = `delete from second_factors where user_id = $1 and confirmed_at is null`
	_, err := tx.Exec(ctx, remove, user)
	return err
}

// DeleteSecondFactor deletes the second factor of a user with its recovery codes, and the
// user's challenges.
func DeleteSecondFactor(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) error {
	const (
		removeCodes = `delete from recovery_codes where user_id = $1`
		remove      = `delete from second_factors where user_id = $1`
	)
	for _, statement := range []string{removeCodes, remove} {
		if _, err := tx.Exec(ctx, statement, user); err != nil {
			return err
		}
	}
	return DeleteLoginChallenges(ctx, tx, user)
}

// InsertLoginChallenge stores a challenge with its digest.
func InsertLoginChallenge(ctx context.Context, tx *postgres.Tx, c account.LoginChallenge, digest [sha256.Size]byte) error {
	const insert = `insert into login_challenges (digest, user_id, created_at, expires_at) values ($1, $2, $3, $4)`
	_, err := tx.Exec(ctx, insert, digest[:], c.User, c.CreatedAt, c.ExpiresAt)
	return err
}

// LoginChallenge returns the challenge with a digest. Before a transaction changes the
// challenge, it must lock the user and read the challenge again.
func LoginChallenge(ctx context.Context, db postgres.Queryer, digest [sha256.Size]byte) (challenge account.LoginChallenge, found bool, err error) {
	rows, err := db.Query(ctx, selectChallenge, digest[:])
	return optional[account.LoginChallenge](rows, err)
}

// CountChallengeFailure counts a wrong code for a challenge.
func CountChallengeFailure(ctx context.Context, tx *postgres.Tx, digest [sha256.Size]byte) error {
	const count = `update login_challenges set failures = failures + 1 where digest = $1`
	_, err := tx.Exec(ctx, count, digest[:])
	return err
}

// DeleteLoginChallenges deletes all challenges of a user.
func DeleteLoginChallenges(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) error {
	const remove = `delete from login_challenges where user_id = $1`
	_, err := tx.Exec(ctx, remove, user)
	return err
}

// DeleteLoginChallenge deletes the challenge with a digest.
func DeleteLoginChallenge(ctx context.Context, tx *postgres.Tx, digest [sha256.Size]byte) error {
	const remove = `delete from login_challenges where digest = $1`
	_, err := tx.Exec(ctx, remove, digest[:])
	return err
}

// DeleteExpiredChallenges deletes at most limit challenges that expired before the given
// time. It returns the number of deleted challenges.
func DeleteExpiredChallenges(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	const remove = `
		delete from login_challenges
		where digest in (select digest from login_challenges where expires_at < $1 order by expires_at limit $2)`
	tag, err := db.Exec(ctx, remove, before, limit)
	return tag.RowsAffected(), err
}
