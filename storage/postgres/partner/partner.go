// Package partner has the SQL of what a partner sees of all workspaces: profile, programmes,
// commissions and balances.
package partner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/partner"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// A partner account belongs to no workspace and has no mode. The statements about
// accounts filter by the account's id.
const selectProfile = `
	select u.id, u.email, u.name, u.country, u.company_name, u.website_url, u.version, u.created_at,
		m.method, m.account_hint, m.updated_at as method_set_at, m.held_until
	from users u
	left join payout_methods m on m.user_id = u.id
	where u.id = $1 and u.kind = 'partner' and u.erased_at is null`

type profileRow struct {
	ID          affiliate.UserID `db:"id"`
	Email       string           `db:"email"`
	Name        string           `db:"name"`
	Country     *string          `db:"country"`
	CompanyName *string          `db:"company_name"`
	WebsiteURL  *string          `db:"website_url"`
	Version     int              `db:"version"`
	CreatedAt   time.Time        `db:"created_at"`
	Method      *payout.Method   `db:"method"`
	AccountHint *string          `db:"account_hint"`
	MethodSetAt *time.Time       `db:"method_set_at"`
	HeldUntil   *time.Time       `db:"held_until"`
}

func (r profileRow) profile() partner.Profile {
	p := partner.Profile{
		ID: r.ID, Email: r.Email, Name: r.Name, Country: r.Country, CompanyName: r.CompanyName,
		WebsiteURL: r.WebsiteURL, Version: r.Version, CreatedAt: r.CreatedAt,
	}
	if r.Method != nil {
		p.Payout = &payout.Details{Method: *r.Method, Hint: r.AccountHint, UpdatedAt: *r.MethodSetAt, HeldUntil: r.HeldUntil}
	}
	return p
}

func readProfile(ctx context.Context, db postgres.Queryer, sql string, id affiliate.UserID) (partner.Profile, error) {
	row, err := postgres.OneRow[profileRow](db.Query(ctx, sql, id))
	return row.profile(), err
}

// Profile returns a partner's account. Errors: NOT_FOUND.
func Profile(ctx context.Context, db *postgres.DB, id affiliate.UserID) (partner.Profile, error) {
	return readProfile(ctx, db, selectProfile, id)
}

// UpdateProfile changes the fields that the patch contains. A new name also replaces
// the copies of the name in the partner's participants. If nothing changes, it writes no
// audit record. Errors: NOT_FOUND, VALIDATION_ERROR.
func UpdateProfile(
	ctx context.Context, db *postgres.DB, id affiliate.UserID, patch partner.ProfilePatch, at time.Time, by affiliate.Actor,
) (partner.Profile, error) {
	const update = `
		update users set name = $2, country = $3, company_name = $4, website_url = $5, version = $6
		where id = $1 and kind = 'partner'`
	// rename updates the copies of the name in all workspaces and both modes. A merchant
	// whose participation the partner has not accepted does not see the name.
	const rename = `update participants set partner_name = $2 where partner_id = $1 and erased_at is null and partner_consent is null`
	var after partner.Profile
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		// The row stays locked from the read to the write. Applications of the partner
		// wait for this lock, because they copy the name into a new participant.
		before, err := readProfile(ctx, tx, selectProfile+` for no key update of u`, id)
		if err != nil {
			return err
		}
		if after, err = before.Patch(patch); err != nil {
			return err
		}
		_, newValues, err := affiliate.ChangedFields(before.Object(), after.Object())
		if err != nil || newValues == nil {
			return err
		}
		after.Version = before.Version + 1
		if _, err := tx.Exec(ctx, update, id, after.Name, after.Country, after.CompanyName, after.WebsiteURL, after.Version); err != nil {
			return fmt.Errorf("update profile: %w", err)
		}
		if after.Name != before.Name {
			if _, err := tx.Exec(ctx, rename, id, after.Name); err != nil {
				return fmt.Errorf("rename participants: %w", err)
			}
		}
		// The audit record contains the names of the changed fields, but not their
		// values, because an erasure could not remove the values from the log.
		changed := map[string][]string{"changed": slices.Sorted(maps.Keys(newValues))}
		return tx.AuditAccount(ctx, affiliate.AccountAuditLine{
			User: id, Actor: by, At: at, Action: "profile.update", After: changed,
		})
	})
	return after, err
}
