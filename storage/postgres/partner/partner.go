// Package partner has the SQL of what a partner sees of all workspaces: profile, programmes,
// commissions and balances.
package partner

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/partner"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// A partner account belongs to no workspace and has no mode. The statements about
// accounts filter by the account's id.
var (
	selectProfile = `
		select ` + postgres.Columns[partner.Profile]("u") + `
		from users u
		where u.id = $1 and u.kind = 'partner' and u.erased_at is null`
	lockProfile   = selectProfile + ` for no key update`
	updateProfile = postgres.RowsOf[partner.Profile](`
		update users u set {changes}
		from (values {typed rows}) as t ({columns})
		where u.id = t.id and u.kind = 'partner'`)
)

// Profile returns a partner's account. Errors: NOT_FOUND.
func Profile(ctx context.Context, db *postgres.DB, id affiliate.UserID) (partner.Profile, error) {
	return readProfile(ctx, db, selectProfile, id)
}

// LockProfile returns a partner's account and locks it. Applications of the partner wait for
// the lock, because they copy the name into a new participant. Errors: NOT_FOUND.
func LockProfile(ctx context.Context, tx *postgres.Tx, id affiliate.UserID) (partner.Profile, error) {
	return readProfile(ctx, tx, lockProfile, id)
}

func readProfile(ctx context.Context, db postgres.Queryer, sql string, id affiliate.UserID) (partner.Profile, error) {
	const method = `select method, account_hint, updated_at, held_until from payout_methods where user_id = $1`
	p, err := postgres.OneRow[partner.Profile](db.Query(ctx, sql, id))
	if err != nil {
		return p, err
	}
	rows, err := db.Query(ctx, method, id)
	if err != nil {
		return p, err
	}
	p.Payout, err = pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[payout.Details])
	if errors.Is(err, pgx.ErrNoRows) {
		p.Payout, err = nil, nil
	}
	return p, err
}

// UpdateProfile stores a profile that the transaction has locked.
func UpdateProfile(ctx context.Context, tx *postgres.Tx, p partner.Profile) error {
	_, err := updateProfile.Exec(ctx, tx, p)
	return err
}

// Rename updates the copies of a partner's name in all workspaces and both modes. A merchant
// whose participation the partner has not accepted does not see the name.
func Rename(ctx context.Context, tx *postgres.Tx, id affiliate.UserID, name string) error {
	const rename = `update participants set partner_name = $2 where partner_id = $1 and erased_at is null and partner_consent is null`
	return postgres.Exec(ctx, tx, rename, id, name)
}
