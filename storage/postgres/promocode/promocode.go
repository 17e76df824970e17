// Package promocode has the SQL of promo codes.
package promocode

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/storage/postgres"
)

var (
	columns         = postgres.Columns[promocode.PromoCode]("c")
	insertPromoCode = postgres.RowsOf[promocode.PromoCode](`insert into promo_codes ({columns}) values {rows}`)
	updatePromoCode = postgres.RowsOf[promocode.PromoCode](`
		update promo_codes c set {changes}
		from (values {typed rows}) as t ({columns})
		where c.workspace_id = t.workspace_id and c.mode = t.mode and c.id = t.id`)
	selectPromoCode = `
		select ` + columns + nameColumns + ` from promo_codes c` + joinNames + `
		where c.workspace_id = $1 and c.mode = $2 and c.program_id = $3 and c.id = $4`
)

// nameColumns and joinNames select the names of the programme and the partner of promo codes c.
const (
	nameColumns = `, p.name as program_name, t.partner_name`
	joinNames   = `
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		join participants t on t.workspace_id = c.workspace_id and t.id = c.participant_id`
)

// row is a promo code with its names.
type row struct {
	promocode.PromoCode
	ProgramName string
	PartnerName string
}

func (r row) code() promocode.PromoCode {
	r.PromoCode.ProgramName, r.PromoCode.PartnerName = r.ProgramName, r.PartnerName
	return r.PromoCode
}

// Insert stores a new promo code and increments the number of promo codes. A unique index makes
// sure that no two promo codes have the same code. Errors: PROMO_CODE_TAKEN, also if an erased
// participant had the code.
func Insert(ctx context.Context, tx *postgres.Tx, c promocode.PromoCode) error {
	if _, err := insertPromoCode.Exec(ctx, tx, c); err != nil {
		return err
	}
	// The insert may have waited for an erasure that has replaced this code. The digest of the
	// code is visible only to statements after the insert.
	const isErased = `
		select exists (
			select from erased_values v
			where v.workspace_id = $1 and v.mode = $2 and v.kind = $3 and v.digest = any($4))`
	var erased bool
	digests := tx.ErasureKeys().Digests(c.Scope, privacy.ErasedPromoCode, c.Code)
	if err := tx.QueryRow(ctx, isErased, c.Workspace, c.Mode, privacy.ErasedPromoCode, digests).Scan(&erased); err != nil {
		return err
	}
	if erased {
		return affiliate.Refuse(affiliate.ReasonPromoCodeTaken)
	}
	return postgres.ChangeCounts(ctx, tx, c.Workspace, c.Program, postgres.CountChange{What: postgres.PromoCodeCount, ID: c.ID.UUID, N: 1})
}

// Update stores the changes of a promo code that the transaction has locked.
func Update(ctx context.Context, tx *postgres.Tx, c promocode.PromoCode) error {
	_, err := updatePromoCode.Exec(ctx, tx, c)
	return err
}

// Get returns one promo code. Errors: NOT_FOUND.
func Get(
	ctx context.Context, db postgres.Queryer, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID,
) (promocode.PromoCode, error) {
	found, err := postgres.OneRow[row](db.Query(ctx, selectPromoCode, scope.Workspace, scope.Mode, program, id))
	return found.code(), err
}

// Lock locks a promo code and reads it. Errors: NOT_FOUND.
func Lock(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID,
) (promocode.PromoCode, error) {
	found, err := postgres.OneRow[row](tx.Query(ctx, selectPromoCode+` for no key update of c`, scope.Workspace, scope.Mode, program, id))
	return found.code(), err
}

var deletePromoCode = `
	delete from promo_codes c
	where c.workspace_id = $1 and c.mode = $2 and c.program_id = $3 and c.id = $4
	returning ` + columns

// Delete deletes a promo code, decrements the number of promo codes, and returns the deleted
// row. Errors: NOT_FOUND.
func Delete(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID,
) (promocode.PromoCode, error) {
	c, err := postgres.OneRow[promocode.PromoCode](tx.Query(ctx, deletePromoCode, scope.Workspace, scope.Mode, program, id))
	if err != nil {
		return c, err
	}
	return c, postgres.ChangeCounts(ctx, tx, c.Workspace, c.Program, postgres.CountChange{What: postgres.PromoCodeCount, ID: c.ID.UUID, N: -1})
}

var deactivateSynced = `
	update promo_codes c
	set active = false, version = c.version + 1, updated_at = $4
	where c.workspace_id = $1 and c.mode = $2 and c.participant_id = $3 and c.active and c.sync_to_processor
	returning ` + columns

// DeactivateSynced deactivates those promo codes of a participant that also exist, or will
// exist, at the payment processor, and returns them.
func DeactivateSynced(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, participant affiliate.ParticipantID, at time.Time,
) ([]promocode.PromoCode, error) {
	// Conversions lock promo codes in the same order.
	const lock = `
		select from promo_codes c
		where c.workspace_id = $1 and c.mode = $2 and c.participant_id = $3 and c.active and c.sync_to_processor
		order by c.code collate "C"
		for no key update`
	if _, err := tx.Exec(ctx, lock, scope.Workspace, scope.Mode, participant); err != nil {
		return nil, err
	}
	return postgres.List[promocode.PromoCode](ctx, tx, deactivateSynced, scope.Workspace, scope.Mode, participant, at)
}
