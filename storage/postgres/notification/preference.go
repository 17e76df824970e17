package notification

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const choicesQuery = `select category, email, in_app from notification_preferences where user_id = $1`

// Choices returns what a user has chosen.
func Choices(ctx context.Context, db postgres.Queryer, user affiliate.UserID) (notification.CategoryChoices, error) {
	return choices(ctx, db, user)
}

func choices(ctx context.Context, db postgres.Queryer, user affiliate.UserID) (notification.CategoryChoices, error) {
	rows, err := db.Query(ctx, choicesQuery, user)
	if err != nil {
		return nil, err
	}
	all := notification.CategoryChoices{}
	var category notification.Category
	var choice notification.CategoryChoice
	_, err = pgx.ForEachRow(rows, []any{&category, &choice.Email, &choice.InApp}, func() error {
		all[category] = choice
		choice = notification.CategoryChoice{}
		return nil
	})
	return all, err
}

// StoreChoices stores choices of a user. A field that is nil does not change.
func StoreChoices(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, chosen notification.CategoryChoices) error {
	const upsert = `
		insert into notification_preferences as p (user_id, category, email, in_app)
		values (@user, @category, @email, @in_app)
		on conflict (user_id, category) do update
		set email = coalesce(excluded.email, p.email), in_app = coalesce(excluded.in_app, p.in_app)`
	batch := &pgx.Batch{}
	for category, choice := range chosen {
		batch.Queue(upsert, pgx.NamedArgs{"user": user, "category": category, "email": choice.Email, "in_app": choice.InApp})
	}
	return tx.SendBatch(ctx, batch).Close()
}

// Address returns the e-mail address of a user. Errors: NOT_FOUND.
func Address(ctx context.Context, db *postgres.DB, user affiliate.UserID) (string, error) {
	const query = `select email from users where id = $1 and erased_at is null`
	rows, err := db.Query(ctx, query, user)
	row, err := postgres.OneRow[struct{ Email string }](rows, err)
	return row.Email, err
}
