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
	return postgres.Optional[account.SecondFactor](ctx, tx, selectSecondFactor, user)
}

// InsertSecondFactor stores a second factor that is not confirmed. It replaces an earlier
// factor without a confirmation.
func InsertSecondFactor(ctx context.Context, tx *postgres.Tx, f account.SecondFactor) error {
	const insert = `
		insert into second_factors (user_id, secret, created_at) values ($1, $2, $3)
		on conflict (user_id) do update
		set secret = excluded.secret, created_at = excluded.created_at
		where second_factors.confirmed_at is null`
	return postgres.Exec(ctx, tx, "insert second factor", insert, f.User, f.Secret, f.CreatedAt)
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
	return postgres.Exec(ctx, tx, "confirm second factor", insert, user, recoveryCodes)
}

// UseTimeStep stores the time step of a code that was accepted.
func UseTimeStep(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, step int64) error {
	return postgres.Exec(ctx, tx, "use time step", `update second_factors set last_step = $2 where user_id = $1`, user, step)
}

// CountCodeFailure counts a wrong code.
func CountCodeFailure(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) error {
	return postgres.Exec(ctx, tx, "count code failure", `update second_factors set failures = failures + 1 where user_id = $1`, user)
}

// ResetCodeFailures ends the count of wrong codes.
func ResetCodeFailures(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) error {
	return postgres.Exec(ctx, tx, "reset code failures", `update second_factors set failures = 0 where user_id = $1 and failures > 0`, user)
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
	return postgres.Exec(ctx, tx, "delete enrolment", `delete from second_factors where user_id = $1 and confirmed_at is null`, user)
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
	return postgres.Exec(ctx, tx, "insert login challenge", insert, digest[:], c.User, c.CreatedAt, c.ExpiresAt)
}

// LoginChallenge returns the challenge with a digest. Before a transaction changes the
// challenge, it must lock the user and read the challenge again.
func LoginChallenge(ctx context.Context, db postgres.Queryer, digest [sha256.Size]byte) (challenge account.LoginChallenge, found bool, err error) {
	return postgres.Optional[account.LoginChallenge](ctx, db, selectChallenge, digest[:])
}

// CountChallengeFailure counts a wrong code for a challenge.
func CountChallengeFailure(ctx context.Context, tx *postgres.Tx, digest [sha256.Size]byte) error {
	return postgres.Exec(ctx, tx, "count challenge failure", `update login_challenges set failures = failures + 1 where digest = $1`, digest[:])
}

// DeleteLoginChallenges deletes all challenges of a user.
func DeleteLoginChallenges(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) error {
	return postgres.Exec(ctx, tx, "delete login challenges", `delete from login_challenges where user_id = $1`, user)
}

// DeleteLoginChallenge deletes the challenge with a digest.
func DeleteLoginChallenge(ctx context.Context, tx *postgres.Tx, digest [sha256.Size]byte) error {
	return postgres.Exec(ctx, tx, "delete login challenge", `delete from login_challenges where digest = $1`, digest[:])
}

// DeleteExpiredChallenges deletes at most limit challenges that expired before the given
// time. It returns the number of deleted challenges.
func DeleteExpiredChallenges(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	const remove = `
		delete from login_challenges
		where digest in (select digest from login_challenges where expires_at < $1 order by expires_at limit $2)`
	return postgres.ExecCount(ctx, db, remove, before, limit)
}
