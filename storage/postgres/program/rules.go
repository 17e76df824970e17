package program

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// insertRules stores the programme's rules as a new version, which is in force from the
// given time.
func insertRules(ctx context.Context, tx *postgres.Tx, p program.Program, at time.Time, by affiliate.Actor) error {
	const insert = `
		insert into program_rules (workspace_id, program_id, version, rules, at, by)
		values ($1, $2, $3, $4, $5, $6)`
	if _, err := tx.Exec(ctx, insert, p.Scope.Workspace, p.ID, p.RulesVersion, p.Rules, at, by.ID()); err != nil {
		return fmt.Errorf("insert rules version %d: %w", p.RulesVersion, err)
	}
	return nil
}

// listRules reads the versions of a programme's rules, newest first. It reads the
// primary key backwards.
const listRules = `
	select r.version, r.rules, r.at, r.by
	from program_rules r join programs p on p.workspace_id = r.workspace_id and p.id = r.program_id
	where r.workspace_id = @workspace and p.mode = @mode and r.program_id = @program
	order by r.version desc
	limit @limit offset @offset`

// RuleVersions returns one page of the versions of a programme's rules, newest first,
// and the number of all versions. Errors: NOT_FOUND.
func RuleVersions(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, programID affiliate.ProgramID, page affiliate.Page,
) ([]program.RulesVersion, int64, error) {
	p, err := Get(ctx, db, scope, programID)
	if err != nil {
		return nil, 0, err
	}
	rows, err := db.Query(ctx, listRules, pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "program": programID, "limit": page.Size, "offset": page.Offset(),
	})
	versions, err := postgres.AllRows(rows, err, func(v program.RulesVersion) program.RulesVersion {
		v.At = v.At.UTC()
		return v
	})
	// Versions are numbered from 1 without gaps, so the last number is the total.
	return versions, int64(p.RulesVersion), err
}
