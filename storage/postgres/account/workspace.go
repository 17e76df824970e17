package account

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const selectWorkspace = `
	select w.id, w.name, w.currency, w.timezone, w.allowed_origins, w.origin_policy, w.test_mail_redirect,
		w.second_person_above_cents, w.require_second_factor, w.books_closed_until, w.retain_payee_years, w.version, w.created_at, w.updated_at
	from workspaces w
	where w.id = $1`

type workspaceRow struct {
	ID                     affiliate.WorkspaceID
	Name                   string
	Currency               string
	Timezone               string
	AllowedOrigins         []string
	OriginPolicy           account.OriginPolicy
	TestMailRedirect       *string
	SecondPersonAboveCents *int64
	RequireSecondFactor    bool
	BooksClosedUntil       *time.Time
	RetainPayeeYears       int
	Version                int
	CreatedAt              time.Time
	UpdatedAt              time.Time
}

func (r workspaceRow) workspace() account.Workspace {
	return account.Workspace{
		ID: r.ID, Name: r.Name, Currency: r.Currency, Timezone: r.Timezone,
		AllowedOrigins: r.AllowedOrigins, OriginPolicy: r.OriginPolicy, TestMailRedirect: r.TestMailRedirect,
		SecondPersonAboveCents: r.SecondPersonAboveCents, RequireSecondFactor: r.RequireSecondFactor, BooksClosedUntil: r.BooksClosedUntil,
		RetainPayeeYears: r.RetainPayeeYears, Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

func workspaceArgs(w account.Workspace) pgx.NamedArgs {
	return pgx.NamedArgs{
		"id": w.ID, "name": w.Name, "currency": w.Currency, "timezone": w.Timezone,
		"allowed_origins": w.AllowedOrigins, "origin_policy": w.OriginPolicy, "test_mail_redirect": w.TestMailRedirect,
		"second_person_above_cents": w.SecondPersonAboveCents, "require_second_factor": w.RequireSecondFactor, "books_closed_until": w.BooksClosedUntil,
		"retain_payee_years": w.RetainPayeeYears,
		"version":            w.Version, "created_at": w.CreatedAt, "updated_at": w.UpdatedAt,
	}
}

// Workspace returns a workspace. Errors: NOT_FOUND.
func Workspace(ctx context.Context, db postgres.Queryer, id affiliate.WorkspaceID) (account.Workspace, error) {
	row, err := postgres.OneRow[workspaceRow](db.Query(ctx, selectWorkspace, id))
	return row.workspace(), err
}

// LockSettings locks the row of a workspace and returns the workspace. Errors: NOT_FOUND, also
// if the workspace is erased.
func LockSettings(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID) (account.Workspace, error) {
	row, err := postgres.OneRow[workspaceRow](tx.Query(ctx, selectWorkspace+` and erased_at is null for no key update`, id))
	return row.workspace(), err
}

// InsertWorkspace stores a workspace.
func InsertWorkspace(ctx context.Context, tx *postgres.Tx, w account.Workspace) error {
	const insert = `
		insert into workspaces (id, name, currency, timezone, allowed_origins, origin_policy, test_mail_redirect,
			second_person_above_cents, version, created_at, updated_at)
		values (@id, @name, @currency, @timezone, @allowed_origins, @origin_policy, @test_mail_redirect,
			@second_person_above_cents, @version, @created_at, @updated_at)`
	_, err := tx.Exec(ctx, insert, workspaceArgs(w))
	return err
}

// UpdateWorkspace stores the settings of a workspace.
func UpdateWorkspace(ctx context.Context, tx *postgres.Tx, w account.Workspace) error {
	const update = `
		update workspaces
		set name = @name, currency = @currency, timezone = @timezone, allowed_origins = @allowed_origins,
			origin_policy = @origin_policy, test_mail_redirect = @test_mail_redirect, require_second_factor = @require_second_factor,
			second_person_above_cents = @second_person_above_cents, books_closed_until = @books_closed_until,
			retain_payee_years = @retain_payee_years, version = @version, updated_at = @updated_at
		where id = @id`
	_, err := tx.Exec(ctx, update, workspaceArgs(w))
	return err
}
