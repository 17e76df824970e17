// Package program has the SQL of programmes, their rules and their groups of participants.
package program

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
)

func programArgs(p program.Program) pgx.NamedArgs {
	return pgx.NamedArgs{
		"workspace": p.Scope.Workspace, "mode": p.Scope.Mode, "id": p.ID,
		"name": p.Name, "slug": p.Slug, "description": p.Description, "status": p.Status,
		"website_url": p.WebsiteURL, "allowed_domains": p.AllowedDomains, "landing_url": p.LandingURL,
		"currency": p.Currency, "window_days": p.WindowDays, "model": p.Model, "link_param": p.LinkParam,
		"auto_approve_partners": p.AutoApprovePartners, "is_public": p.IsPublic,
		"rules": p.Rules, "rules_version": p.RulesVersion, "precedence": p.Precedence, "min_payout_cents": p.MinPayoutCents,
		"payout_term_days": p.PayoutTermDays, "fraud_policy": p.FraudPolicy, "terms_url": p.TermsURL, "version": p.Version,
		"created_at": p.CreatedAt, "updated_at": p.UpdatedAt,
	}
}

// Create stores a new programme and its first rules. An empty Currency means the
// workspace's currency. An empty Slug is derived from the name. Errors: SLUG_TAKEN.
func Create(ctx context.Context, db *postgres.DB, p program.Program, by affiliate.Actor) (program.Program, error) {
	const insert = `
		insert into programs (workspace_id, id, mode, name, slug, description, status, website_url, allowed_domains,
			landing_url, currency, attribution_window_days, attribution_model, link_param, auto_approve_partners,
			is_public, rules, rules_version, signal_precedence, min_payout_cents, payout_term_days, fraud_policy,
			terms_url, version, created_at, updated_at)
		values (@workspace, @id, @mode, @name, @slug, @description, @status, @website_url, @allowed_domains,
			@landing_url, @currency, @window_days, @model, @link_param, @auto_approve_partners,
			@is_public, @rules, @rules_version, @precedence, @min_payout_cents, @payout_term_days, @fraud_policy,
			@terms_url, @version, @created_at, @updated_at)`
	created := p
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		created = p
		created.Version = 1
		currency, err := lockSlugs(ctx, tx, p.Scope.Workspace)
		if err != nil {
			return err
		}
		if created.Currency == "" {
			created.Currency = currency
		}
		if created.Slug == "" {
			if created.Slug, err = findFreeSlug(ctx, tx, created); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, insert, programArgs(created)); err != nil {
			return postgres.Refusal(err)
		}
		if err := insertRules(ctx, tx, created, created.CreatedAt, by); err != nil {
			return err
		}
		return tx.Audit(ctx, AuditLine(created, "program.create", created.CreatedAt, by, nil, created.Object()))
	})
	return created, err
}

// lockSlugs makes sure that only one transaction of a workspace chooses a slug at a time.
// A slug that is free when the transaction looks for it therefore stays free until the
// transaction commits. lockSlugs returns the workspace's currency. Other transactions may
// have to wait, which is acceptable because slugs are rarely chosen.
func lockSlugs(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID) (currency string, err error) {
	// FOR UPDATE would wait for each transaction that inserts a row of the workspace,
	// because each insert takes a key share lock on the workspace's row.
	const lock = `select currency from workspaces where id = $1 and erased_at is null for no key update`
	err = tx.QueryRow(ctx, lock, workspace).Scan(&currency)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return currency, err
}

// slugsPerQuery is the number of slugs that one query checks.
const slugsPerQuery = 32

// findFreeSlug derives slugs from the programme's name and returns the first slug that
// no other programme has.
func findFreeSlug(ctx context.Context, tx *postgres.Tx, p program.Program) (string, error) {
	const taken = `
		select slug from programs where workspace_id = $1 and mode = $2 and slug = any($3) and id <> $4`
	candidates := make([]string, 0, slugsPerQuery)
	for slug := range program.Slugs(p.Name) {
		if candidates = append(candidates, slug); len(candidates) < slugsPerQuery {
			continue
		}
		rows, err := tx.Query(ctx, taken, p.Scope.Workspace, p.Scope.Mode, candidates, p.ID)
		if err != nil {
			return "", err
		}
		used, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return "", err
		}
		for _, candidate := range candidates {
			if !slices.Contains(used, candidate) {
				return candidate, nil
			}
		}
		candidates = candidates[:0]
	}
	panic("postgres: affiliate.ProgramSlugs must not end")
}

// AuditLine returns the record of a change of a programme for the audit log.
func AuditLine(p program.Program, action string, at time.Time, by affiliate.Actor, before, after any) affiliate.AuditLine {
	return affiliate.AuditLine{
		Workspace: p.Scope.Workspace, Mode: &p.Scope.Mode, Actor: by, At: at,
		Action: action, ResourceType: "program", ResourceID: p.ID, Before: before, After: after,
	}
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
	rows, err := db.Query(ctx, list, postgres.PlanForArgs, args)
	programs, err := postgres.AllRows(rows, err, Row.Program)
	return programs, total, err
}

// Update changes the fields that the patch contains. If nothing changes, it writes
// no audit record and no event. Errors: NOT_FOUND, VALIDATION_ERROR, SLUG_TAKEN,
// PROGRAM_STATE_INVALID if the patch changes the currency of a programme that has
// commissions.
func Update(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.ProgramID, patch program.Patch, at time.Time, by affiliate.Actor,
) (program.Program, error) {
	// The statement does not write the status, which only Move changes.
	const update = `
		update programs
		set name = @name, slug = @slug, description = @description, website_url = @website_url,
			allowed_domains = @allowed_domains, landing_url = @landing_url, attribution_window_days = @window_days,
			attribution_model = @model, link_param = @link_param, auto_approve_partners = @auto_approve_partners,
			is_public = @is_public, rules = @rules, rules_version = @rules_version, signal_precedence = @precedence,
			min_payout_cents = @min_payout_cents, payout_term_days = @payout_term_days, fraud_policy = @fraud_policy,
			fraud_updated_at = case when fraud_policy = @fraud_policy then fraud_updated_at else @updated_at end,
			currency = @currency, terms_url = @terms_url, version = @version, updated_at = @updated_at
		where workspace_id = @workspace and mode = @mode and id = @id`
	var after program.Program
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		// The patch is applied to the stored programme, so the row stays locked from
		// the read to the write.
		before, err := Read(ctx, tx, Select+` for no key update`, scope, id)
		if err != nil {
			return err
		}
		if after, err = before.Patch(patch); err != nil {
			return err
		}
		if after.Currency != before.Currency {
			if err := checkCurrencyChange(ctx, tx, before); err != nil {
				return err
			}
		}
		if after.Slug != before.Slug {
			if _, err := lockSlugs(ctx, tx, scope.Workspace); err != nil {
				return err
			}
		}
		if after.Slug == "" {
			if after.Slug, err = findFreeSlug(ctx, tx, after); err != nil {
				return err
			}
		}
		oldValues, newValues, err := affiliate.ChangedFields(before.Object(), after.Object())
		if err != nil || oldValues == nil {
			return err
		}
		after.Version, after.UpdatedAt = before.Version+1, at
		if _, err := tx.Exec(ctx, update, programArgs(after)); err != nil {
			return postgres.Refusal(err)
		}
		if after.RulesVersion != before.RulesVersion {
			if err := insertRules(ctx, tx, after, at, by); err != nil {
				return err
			}
		}
		return programChanged(ctx, tx, after, "program.update", at, by, oldValues, newValues)
	})
	return after, err
}

// checkCurrencyChange checks that the programme has no commissions, because a
// commission keeps the currency in which it was earned. Errors: PROGRAM_STATE_INVALID.
func checkCurrencyChange(ctx context.Context, tx *postgres.Tx, p program.Program) error {
	const hasCommissions = `select exists (select from commissions c where c.workspace_id = $1 and c.mode = $2 and c.program_id = $3)`
	var found bool
	if err := tx.QueryRow(ctx, hasCommissions, p.Scope.Workspace, p.Scope.Mode, p.ID).Scan(&found); err != nil {
		return fmt.Errorf("read commissions of the programme: %w", err)
	}
	if found {
		return p.CurrencyFixed()
	}
	return nil
}

// programVerbs maps the new status of a programme to the action in the audit log.
var programVerbs = map[program.Status]string{
	program.Active:   "program.activate",
	program.Paused:   "program.pause",
	program.Archived: "program.archive",
}

// Move changes the status of a programme. Errors: NOT_FOUND,
// PROGRAM_STATE_INVALID, VALIDATION_ERROR if a programme without a page is activated.
func Move(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.ProgramID, to program.Status, at time.Time, by affiliate.Actor,
) (program.Program, error) {
	const move = `
		update programs set status = @status, version = @version, updated_at = @updated_at
		where workspace_id = @workspace and mode = @mode and id = @id`
	var after program.Program
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		before, err := Read(ctx, tx, Select+` for no key update`, scope, id)
		if err != nil {
			return err
		}
		if after, err = before.Move(to, at); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, move, programArgs(after)); err != nil {
			return err
		}
		oldValues, newValues, err := affiliate.ChangedFields(before.Object(), after.Object())
		if err != nil {
			return err
		}
		return programChanged(ctx, tx, after, programVerbs[to], at, by, oldValues, newValues)
	})
	return after, err
}

// programChanged stores everything that follows from a change of a programme: the audit
// record, the event, and the job that updates the edge directory.
func programChanged(
	ctx context.Context, tx *postgres.Tx, p program.Program, action string, at time.Time, by affiliate.Actor, oldValues, newValues any,
) error {
	if err := tx.Audit(ctx, AuditLine(p, action, at, by, oldValues, newValues)); err != nil {
		return err
	}
	if err := tx.Publish(ctx, affiliate.NewEvent(p.Scope, affiliate.EventProgramUpdated, at, p.Object(), oldValues)); err != nil {
		return err
	}
	return tx.Enqueue(ctx, affiliate.SyncDirectory{Workspace: p.Scope.Workspace, Program: &p.ID})
}
