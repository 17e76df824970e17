package processor

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// PromoCodes returns the texts of the promo codes that were created at the processor with
// the given ids. An unknown id is missing in the result.
func (s *Store) PromoCodes(ctx context.Context, scope affiliate.Scope, promotionCodes []string) (map[string]string, error) {
	const read = `
		select c.promotion_code_id, c.code
		from processor_promo_codes c
		where c.workspace_id = $1 and c.mode = $2 and c.promotion_code_id = any($3)`
	rows, _ := s.db.Pool().Query(ctx, read, scope.Workspace, scope.Mode, promotionCodes)
	texts := map[string]string{}
	var id, text string
	_, err := pgx.ForEachRow(rows, []any{&id, &text}, func() error {
		texts[id] = text
		return nil
	})
	return texts, err
}
