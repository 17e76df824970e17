package link

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// InsertLink calls Insert in its own transaction.
func InsertLink(ctx context.Context, db *postgres.DB, l link.Link) (link.Link, error) {
	err := db.InTx(ctx, func(tx *postgres.Tx) (err error) {
		l, err = Insert(ctx, tx, l)
		return err
	})
	return l, err
}

// Functions that return statements and their arguments. The tests check the query plans
// of the statements.
var (
	LinkListSQL     = linkListSQL
	LinkListArgs    = linkListArgs
	PartnerLinksSQL = partnerLinksSQL
)
