package postgres

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate/link"
)

// InsertLink calls insertLink in its own transaction.
func (s *Store) InsertLink(ctx context.Context, l link.Link) (link.Link, error) {
	err := s.InTx(ctx, func(tx *Tx) (err error) {
		l, err = insertLink(ctx, tx, l)
		return err
	})
	return l, err
}

// Functions that return statements and their arguments. The tests check the query plans
// of the statements.
var (
	LinkListSQL          = linkListSQL
	LinkListArgs         = linkListArgs
	PartnerLinksSQL      = partnerLinksSQL
	PromoCodeListSQL     = promoCodeListSQL
	PromoCodeListArgs    = promoCodeListArgs
	PartnerPromoCodesSQL = partnerPromoCodesSQL
)
