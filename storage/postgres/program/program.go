// Package program has the SQL of programmes, their rules and their groups of participants.
package program

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Columns are the columns of programmes p that a program.Program has.
var Columns = postgres.Columns[program.Program]("p")

// selectProgram reads the programme $3 of the workspace $1 in the mode $2.
var selectProgram = `
	select ` + Columns + `
	from programs p
	where p.workspace_id = $1 and p.mode = $2 and p.id = $3`

// Get returns one programme. Errors: NOT_FOUND.
func Get(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, id affiliate.ProgramID) (program.Program, error) {
	return read(ctx, db, selectProgram, scope, id)
}

// Lock reads a programme and prevents changes to it until the transaction ends.
// Errors: NOT_FOUND.
func Lock(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.ProgramID) (program.Program, error) {
	return read(ctx, tx, selectProgram+` for share`, scope, id)
}

// LockOpen does the same as Lock for a programme that must not be
// archived. Errors: NOT_FOUND, PROGRAM_STATE_INVALID.
func LockOpen(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.ProgramID) (program.Program, error) {
	p, err := Lock(ctx, tx, scope, id)
	if err != nil {
		return p, err
	}
	return p, p.CheckNotArchived()
}

// LockActive returns a programme that stays active until the transaction ends.
// Errors: NOT_FOUND.
func LockActive(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.ProgramID) (program.Program, error) {
	return read(ctx, tx, selectProgram+` and p.status = 'active' for share`, scope, id)
}

// LockForUpdate locks a programme before the transaction changes it, and returns it. Transactions that need one of
// the other locks wait until this transaction ends. Errors: NOT_FOUND.
func LockForUpdate(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.ProgramID) (program.Program, error) {
	return read(ctx, tx, selectProgram+` for no key update`, scope, id)
}

func read(ctx context.Context, db postgres.Queryer, sql string, scope affiliate.Scope, id affiliate.ProgramID) (program.Program, error) {
	return postgres.OneRow[program.Program](db.Query(ctx, sql, scope.Workspace, scope.Mode, id))
}

// Owns reports whether a programme belongs to a workspace, in either mode.
func Owns(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, program affiliate.ProgramID) (bool, error) {
	const query = `select exists (select from programs where workspace_id = $1 and id = $2 and mode in ('test', 'live'))`
	return postgres.Value[bool](ctx, tx, query, workspace, program)
}

// programListSQL returns the statements for a page and for the total. A page is read
// from the index by creation time, which has the order of the list. Rows with another
// status are skipped, which is fast enough because a workspace has few programmes. A
// search uses the index of names.
func programListSQL(filter program.Filter) (page, count string) {
	where := `
		from programs p
		where p.workspace_id = @workspace and p.mode = @mode`
	if filter.Status != "" {
		where += ` and p.status = @status`
	}
	if filter.Search != "" {
		where += ` and lower(p.name) like lower(@pattern)`
	}
	return `select ` + Columns + where + `
		order by p.created_at desc, p.id desc
		limit @limit offset @offset`, postgres.CountUpTo(affiliate.MaxTotalOf(filter.Search), where)
}

func programListArgs(scope affiliate.Scope, filter program.Filter, page affiliate.Page) pgx.NamedArgs {
	return pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "status": filter.Status, "pattern": postgres.LikePrefix(filter.Search),
		"limit": page.Size, "offset": page.Offset(),
	}
}

// List returns one page of programmes, newest first, and the number of
// programmes on all pages. The number stops at affiliate.MaxTotal, or at
// affiliate.MaxSearchTotal if the filter has a search text. An empty status matches all
// programmes.
func List(ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter program.Filter, page affiliate.Page) ([]program.Program, int64, error) {
	list, count := programListSQL(filter)
	args := programListArgs(scope, filter, page)
	var total int64
	if err := db.QueryRow(ctx, count, postgres.PlanForArgs, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	programs, err := postgres.List[program.Program](ctx, db, list, postgres.PlanForArgs, args)
	return programs, total, err
}

var insert = postgres.RowsOf[program.Program](`insert into programs ({columns}) values {rows}`)

// Insert stores a new programme. InsertRules stores the first version of its rules. Errors: SLUG_TAKEN.
func Insert(ctx context.Context, tx *postgres.Tx, p program.Program) error {
	_, err := insert.Exec(ctx, tx, p)
	return err
}

// The statement writes the rules only if their version has changed. Otherwise a process of the
// previous release would remove rules that it does not know from each programme that it changes.
var update = postgres.RowsOf[program.Program](`
	update programs p
	set {changes}, rules = case when t.rules_version = p.rules_version then p.rules else t.rules end,
		fraud_updated_at = case when t.fraud_policy = p.fraud_policy then p.fraud_updated_at else t.updated_at end
	from (values {typed rows}) as t ({columns})
	where p.workspace_id = t.workspace_id and p.mode = t.mode and p.id = t.id`)

// Update stores the changes of a programme that LockForUpdate has returned. Errors: SLUG_TAKEN.
func Update(ctx context.Context, tx *postgres.Tx, p program.Program) error {
	_, err := update.Exec(ctx, tx, p)
	return err
}

// HasCommissions reports whether a programme has commissions.
func HasCommissions(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.ProgramID) (bool, error) {
	const exists = `select exists (select from commissions c where c.workspace_id = $1 and c.mode = $2 and c.program_id = $3)`
	return postgres.Value[bool](ctx, tx, exists, scope.Workspace, scope.Mode, id)
}

// LockSlugs makes sure that only one transaction of a workspace chooses a slug at a time.
// A slug that is free when the transaction looks for it therefore stays free until the
// transaction commits. LockSlugs returns the workspace's currency. Other transactions may
// have to wait, which is acceptable because slugs are rarely chosen. Errors: NOT_FOUND.
func LockSlugs(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID) (currency string, err error) {
	// FOR UPDATE would wait for each transaction that inserts a row of the workspace,
	// because each insert takes a key share lock on the workspace's row.
	const lock = `select currency from workspaces where id = $1 and erased_at is null for no key update`
	err = tx.QueryRow(ctx, lock, workspace).Scan(&currency)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return currency, err
}

// TakenSlugs returns the given slugs that programmes other than the given programme have.
func TakenSlugs(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.ProgramID, slugs []string) ([]string, error) {
	const taken = `
		select slug from programs where workspace_id = $1 and mode = $2 and slug = any($3) and id <> $4`
	return postgres.Values[string](ctx, tx, taken, scope.Workspace, scope.Mode, slugs, id)
}

// InsertRules stores the programme's rules as a new version, which is in force from the
// given time.
func InsertRules(ctx context.Context, tx *postgres.Tx, p program.Program, at time.Time, by affiliate.Actor) error {
	const insert = `
		insert into program_rules (workspace_id, program_id, version, rules, at, by)
		values ($1, $2, $3, $4, $5, $6)`
	return postgres.Exec(ctx, tx, insert, p.Workspace, p.ID, p.RulesVersion, p.Rules, at, by.ID())
}

// listRules reads the versions of a programme's rules, newest first. It reads the
// primary key backwards.
var listRules = `
	select r.version, r.rules, r.at, r.by, ` + postgres.ActorName("r.by::text", "r.workspace_id") + ` as by_name
	from program_rules r join programs p on p.workspace_id = r.workspace_id and p.id = r.program_id
	where r.workspace_id = @workspace and p.mode = @mode and r.program_id = @program
	order by r.version desc
	limit @limit offset @offset`

// ListRules returns one page of the versions of a programme's rules, newest first.
func ListRules(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.ProgramID, page affiliate.Page,
) ([]program.RulesVersion, error) {
	return postgres.List[program.RulesVersion](ctx, db, listRules, pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "program": id, "limit": page.Size, "offset": page.Offset(),
	})
}

// selectPublic reads an active and public programme by the slug of its workspace and its own.
var selectPublic = `
	select ` + Columns + `
	from workspaces w join programs p on p.workspace_id = w.id
	where w.slug = $1 and w.erased_at is null and p.mode = $2 and p.slug = $3 and p.status = 'active' and p.is_public`

// Public returns a programme that has a public page. Errors: NOT_FOUND.
func Public(ctx context.Context, db *postgres.DB, mode affiliate.Mode, workspaceSlug, slug string) (program.Program, error) {
	return postgres.OneRow[program.Program](db.Query(ctx, selectPublic, workspaceSlug, mode, slug))
}

// Search returns the programmes whose id is the text or whose name starts with it.
func Search(ctx context.Context, db *postgres.DB, scope affiliate.Scope, text string) ([]affiliate.Hit, error) {
	const search = `
		select p.id, p.name as title, p.slug as subtitle, p.id as program_id
		from (
			select @id::uuid as id
			union
			(select p.id from programs p
			where p.workspace_id = @workspace and p.mode = @mode and lower(p.name) like lower(@pattern)
			order by lower(p.name) using ~<~
			limit @limit)
		) k
		join programs p on p.workspace_id = @workspace and p.mode = @mode and p.id = k.id
		order by lower(p.name) using ~<~, p.id
		limit @limit`
	return postgres.Hits(ctx, db, scope, text, search)
}
