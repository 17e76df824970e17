package program

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Lock reads a programme and prevents changes to it until the transaction ends.
// Errors: NOT_FOUND.
func Lock(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.ProgramID) (program.Program, error) {
	return Read(ctx, tx, Select+` for share`, scope, id)
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

// Owns reports whether a programme belongs to a workspace, in either mode.
func Owns(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, program affiliate.ProgramID) (owns bool, err error) {
	const query = `select exists (select from programs where workspace_id = $1 and id = $2 and mode in ('test', 'live'))`
	err = tx.QueryRow(ctx, query, workspace, program).Scan(&owns)
	return owns, err
}

// LockActive returns a programme that stays active until the transaction ends.
// Errors: NOT_FOUND.
func LockActive(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.ProgramID) (program.Program, error) {
	const lock = `
		select ` + Columns + `
		from programs p
		where p.workspace_id = $1 and p.mode = $2 and p.id = $3 and p.status = 'active'
		for share`
	return Read(ctx, tx, lock, scope, id)
}

// Columns are the columns of programmes p that Row reads.
const Columns = `
	p.id, p.mode, p.name, p.slug, p.description, p.status, p.website_url, p.allowed_domains, p.landing_url,
	p.currency, p.attribution_window_days, p.attribution_model, p.link_param, p.auto_approve_partners,
	p.is_public, p.rules, p.rules_version, p.signal_precedence, p.min_payout_cents, p.payout_term_days, p.fraud_policy,
	p.terms_url, p.version, p.created_at, p.updated_at, p.workspace_id`

// Row is a row of programs.
type Row struct {
	ID                    affiliate.ProgramID      `db:"id"`
	WorkspaceID           affiliate.WorkspaceID    `db:"workspace_id"`
	Mode                  affiliate.Mode           `db:"mode"`
	Name                  string                   `db:"name"`
	Slug                  string                   `db:"slug"`
	Description           *string                  `db:"description"`
	Status                program.Status           `db:"status"`
	WebsiteURL            *string                  `db:"website_url"`
	AllowedDomains        []string                 `db:"allowed_domains"`
	LandingURL            *string                  `db:"landing_url"`
	Currency              string                   `db:"currency"`
	AttributionWindowDays int                      `db:"attribution_window_days"`
	AttributionModel      program.AttributionModel `db:"attribution_model"`
	LinkParam             string                   `db:"link_param"`
	AutoApprovePartners   bool                     `db:"auto_approve_partners"`
	IsPublic              bool                     `db:"is_public"`
	Rules                 program.Rules            `db:"rules"`
	RulesVersion          int                      `db:"rules_version"`
	SignalPrecedence      program.SignalPrecedence `db:"signal_precedence"`
	MinPayoutCents        int64                    `db:"min_payout_cents"`
	PayoutTermDays        int                      `db:"payout_term_days"`
	FraudPolicy           fraud.Policy             `db:"fraud_policy"`
	TermsURL              *string                  `db:"terms_url"`
	Version               int                      `db:"version"`
	CreatedAt             time.Time                `db:"created_at"`
	UpdatedAt             time.Time                `db:"updated_at"`
}

// Program returns the programme of the row.
func (r Row) Program() program.Program {
	return program.Program{
		ID:                  r.ID,
		Scope:               affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode},
		Name:                r.Name,
		Slug:                r.Slug,
		Description:         r.Description,
		Status:              r.Status,
		WebsiteURL:          r.WebsiteURL,
		AllowedDomains:      r.AllowedDomains,
		LandingURL:          r.LandingURL,
		Currency:            r.Currency,
		WindowDays:          r.AttributionWindowDays,
		Model:               r.AttributionModel,
		LinkParam:           r.LinkParam,
		AutoApprovePartners: r.AutoApprovePartners,
		IsPublic:            r.IsPublic,
		Rules:               r.Rules,
		RulesVersion:        r.RulesVersion,
		Precedence:          r.SignalPrecedence,
		MinPayoutCents:      r.MinPayoutCents,
		PayoutTermDays:      r.PayoutTermDays,
		FraudPolicy:         r.FraudPolicy,
		TermsURL:            r.TermsURL,
		Version:             r.Version,
		CreatedAt:           r.CreatedAt,
		UpdatedAt:           r.UpdatedAt,
	}
}

// Get returns one programme. Errors: NOT_FOUND.
func Get(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.ProgramID) (program.Program, error) {
	return Read(ctx, db, Select, scope, id)
}

// Select reads the programme $3 of the workspace $1 in the mode $2.
const Select = `
	select ` + Columns + `
	from programs p
	where p.workspace_id = $1 and p.mode = $2 and p.id = $3`

// Read returns the programme that a statement such as Select reads. Errors: NOT_FOUND.
func Read(ctx context.Context, db postgres.Queryer, sql string, scope affiliate.Scope, id affiliate.ProgramID) (program.Program, error) {
	row, err := postgres.OneRow[Row](db.Query(ctx, sql, scope.Workspace, scope.Mode, id))
	return row.Program(), err
}
