package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// appRole is the database role with which the service works. The role cannot change or
// delete rows of the append-only tables.
const appRole = "tributary_app"

// SQLSTATE codes: the role exists already, and the user lacks a privilege.
const (
	codeDuplicateObject       = "42710"
	codeInsufficientPrivilege = "42501"
)

// prepareRole creates appRole, makes the migrating user a member of it and creates the
// queue's schema. It skips a step if the result already exists. A user without CREATEROLE
// can therefore migrate if an administrator has created the role and granted it to the
// user.
//
// The user must be a member of the role: only a member can make the role the owner of a
// schema, and the service connects as this user and switches to the role.
func prepareRole(ctx context.Context, conn *pgx.Conn) error {
	var user string
	var roleExists, isMember, schemaExists bool
	err := conn.QueryRow(ctx, `
		select current_user, r.oid is not null, coalesce(pg_has_role(current_user, r.oid, 'member'), false),
			exists (select from pg_namespace where nspname = $2)
		from (values ($1)) as wanted (name) left join pg_roles r on r.rolname = wanted.name`,
		appRole, queueSchema).Scan(&user, &roleExists, &isMember, &schemaExists)
	if err != nil {
		return fmt.Errorf("role %s: %w", appRole, err)
	}
	quoted := pgx.Identifier{user}.Sanitize()
	create, grant := "create role "+appRole+" nologin", "grant "+appRole+" to "+quoted
	if !roleExists {
		switch err := ignoreConcurrent(exec(ctx, conn, create)); {
		case sqlState(err) == codeInsufficientPrivilege:
			return fmt.Errorf("role %s does not exist and %s is not allowed to create roles: run `%s; %s` once as an administrator, or give %[2]s the attribute CREATEROLE",
				appRole, quoted, create, grant)
		case err != nil:
			return fmt.Errorf("role %s: %w", appRole, err)
		}
		// A superuser counts as a member of every role, also of the new role. The
		// membership is therefore checked again, and the grant may not be necessary.
		if err := conn.QueryRow(ctx, "select pg_has_role(current_user, $1, 'member')", appRole).Scan(&isMember); err != nil {
			return fmt.Errorf("role %s: %w", appRole, err)
		}
	}
	if !isMember {
		switch err := ignoreConcurrent(exec(ctx, conn, grant)); {
		case sqlState(err) == codeInsufficientPrivilege:
			return fmt.Errorf("%s is not a member of role %s: run `%s` once as an administrator", quoted, appRole, grant)
		case err != nil:
			return fmt.Errorf("role %s: %w", appRole, err)
		}
	}
	if !schemaExists {
		if err := exec(ctx, conn, "create schema "+queueSchema+" authorization "+appRole); err != nil {
			return fmt.Errorf("schema %s: %w", queueSchema, err)
		}
	}
	return nil
}

func exec(ctx context.Context, conn *pgx.Conn, sql string) error {
	_, err := conn.Exec(ctx, sql)
	return err
}

// ignoreConcurrent returns nil if the error says that the role or membership exists
// already. Roles belong to the whole cluster, so a concurrent migration of another
// database may have created the role or the membership.
func ignoreConcurrent(err error) error {
	if slices.Contains([]string{codeDuplicateObject, CodeUniqueViolation}, sqlState(err)) {
		return nil
	}
	return err
}

// sqlState returns the SQLSTATE of a server error, and an empty string for other
// errors.
func sqlState(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}
