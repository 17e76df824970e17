package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// appRole is the role that the service works as. It cannot change or delete rows of
// the append-only tables.
const appRole = "tributary_app"

// SQLSTATE codes of a role that exists, and of a user without the right.
const (
	codeDuplicateObject       = "42710"
	codeInsufficientPrivilege = "42501"
)

// prepareRole creates appRole, makes the migrating user a member of it and creates
// the queue's schema. Each step runs only if its result is missing, so a user without
// CREATEROLE may migrate a database whose role an administrator has created.
//
// The user has to be a member of the role to give the schema to it, and the service
// to work as it.
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
			return fmt.Errorf("role %s does not exist and %s may not create roles: run `%s; %s` once as an administrator, or give %[2]s the attribute CREATEROLE",
				appRole, quoted, create, grant)
		case err != nil:
			return fmt.Errorf("role %s: %w", appRole, err)
		}
		// A superuser is a member of every role.
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

// ignoreConcurrent drops the error of a statement whose effect a migrator of another
// database of the cluster had first: roles belong to the whole cluster.
func ignoreConcurrent(err error) error {
	if slices.Contains([]string{codeDuplicateObject, codeUniqueViolation}, sqlState(err)) {
		return nil
	}
	return err
}

// sqlState returns the SQLSTATE of an error of the server, and nothing for others.
func sqlState(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}
