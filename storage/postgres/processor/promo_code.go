package processor

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// PromoCodes returns the texts of the promo codes that were created at the processor with
// the given ids. An unknown id is missing in the result.
func PromoCodes(ctx context.Context, db *postgres.DB, scope affiliate.Scope, promotionCodes []string) (map[string]string, error) {
	const read = `
		select c.promotion_code_id, c.code
		from processor_promo_codes c
		where c.workspace_id = $1 and c.mode = $2 and c.promotion_code_id = any($3)`
	rows, _ := db.Query(ctx, read, scope.Workspace, scope.Mode, promotionCodes)
	texts := map[string]string{}
	var id, text string
	_, err := pgx.ForEachRow(rows, []any{&id, &text}, func() error {
		texts[id] = text
		return nil
	})
	return texts, err
}

var selectPromoCode = `
	select ` + postgres.Columns[promocode.PromoCode]("c") + `
	from promo_codes c
	where c.workspace_id = $1 and c.mode = $2 and c.id = $3`

// PromoCode returns a promo code. Errors: NOT_FOUND.
func PromoCode(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.PromoCodeID) (promocode.PromoCode, error) {
	return postgres.OneRow[promocode.PromoCode](db.Query(ctx, selectPromoCode, scope.Workspace, scope.Mode, id))
}

// ActivePromotionCodes returns the promotion codes of an account that were created from a
// promo code and not deactivated.
func ActivePromotionCodes(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, account string, id affiliate.PromoCodeID,
) ([]processor.PromoCode, error) {
	const read = `
		select c.coupon_id as coupon, c.promotion_code_id as promotion_code, c.terms
		from processor_promo_codes c
		where c.workspace_id = $1 and c.mode = $2 and c.promo_code_id = $3 and c.account_id = $4 and c.active
		order by c.created_at`
	rows, _ := db.Query(ctx, read, scope.Workspace, scope.Mode, id, account)
	return pgx.CollectRows(rows, pgx.RowToStructByName[processor.PromoCode])
}

// PutPromotionCode stores a promotion code that was created from a promo code.
func PutPromotionCode(ctx context.Context, tx *postgres.Tx, account string, code promocode.PromoCode, created processor.PromoCode, at time.Time) error {
	const insert = `
		insert into processor_promo_codes (workspace_id, mode, promotion_code_id, coupon_id, account_id, promo_code_id, code, terms, active, created_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, true, $9)
		on conflict (workspace_id, mode, promotion_code_id) do update set active = true`
	_, err := tx.Exec(ctx, insert, code.Workspace, code.Mode, created.PromotionCode, created.Coupon, account, code.ID, code.Code, created.Terms, at)
	if err != nil {
		return fmt.Errorf("store a promotion code: %w", err)
	}
	return nil
}

// EndPromotionCode marks a promotion code as deactivated.
func EndPromotionCode(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, promotionCode string) error {
	const update = `update processor_promo_codes set active = false where workspace_id = $1 and mode = $2 and promotion_code_id = $3`
	_, err := tx.Exec(ctx, update, scope.Workspace, scope.Mode, promotionCode)
	return err
}

// SetSyncStatus stores whether a promo code exists at the processor. current is false if
// the promo code has changed since it was read: nothing is stored then.
func SetSyncStatus(ctx context.Context, tx *postgres.Tx, code promocode.PromoCode, status promocode.SyncStatus) (current bool, err error) {
	const update = `
		update promo_codes set sync_status = $5
		where workspace_id = $1 and mode = $2 and id = $3 and version = $4 and sync_to_processor`
	tag, err := tx.Exec(ctx, update, code.Workspace, code.Mode, code.ID, code.Version, status)
	return tag.RowsAffected() == 1, err
}

// SyncedPromoCodes returns at most limit ids of promo codes that shall exist at the
// processor, and that follow the id after.
func SyncedPromoCodes(ctx context.Context, db *postgres.DB, scope affiliate.Scope, after affiliate.PromoCodeID, limit int) ([]affiliate.PromoCodeID, error) {
	const read = `
		select c.id from promo_codes c
		where c.workspace_id = $1 and c.mode = $2 and c.sync_to_processor and c.id > $3
		order by c.id
		limit $4`
	rows, _ := db.Query(ctx, read, scope.Workspace, scope.Mode, after, limit)
	return pgx.CollectRows(rows, pgx.RowTo[affiliate.PromoCodeID])
}
