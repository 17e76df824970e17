package postgres

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
)

// InsertLink is insertLink in a transaction of its own.
func (s *Store) InsertLink(ctx context.Context, l affiliate.Link) (affiliate.Link, error) {
	err := s.InTx(ctx, func(tx *Tx) (err error) {
		l, err = insertLink(ctx, tx, l)
		return err
	})
	return l, err
}

// The statements whose plans are under test, with their arguments.
var (
	LinkListSQL       = linkListSQL
	LinkListArgs      = linkListArgs
	OwnLinksSQL       = ownLinksSQL
	PromoCodeListSQL  = promoCodeListSQL
	PromoCodeListArgs = promoCodeListArgs
	OwnPromoCodesSQL  = ownPromoCodesSQL
)
