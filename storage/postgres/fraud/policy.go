package fraud

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/storage/postgres"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// selectFraudPolicy reads a programme's fraud policy. If the policy was never changed,
// updated_at is the creation time of the programme.
const selectFraudPolicy = `
	select p.fraud_policy, p.fraud_settings, coalesce(p.fraud_updated_at, p.created_at) as updated_at
	from programs p
	where p.workspace_id = $1 and p.mode = $2 and p.id = $3`

const updateFraudPolicy = `
	update programs
	set fraud_policy = $4, fraud_settings = $5, fraud_updated_at = $6, version = version + 1, updated_at = $6
	where workspace_id = $1 and mode = $2 and id = $3`

// Policy returns a programme's fraud policy. Errors: NOT_FOUND.
func Policy(ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID) (fraud.ProgramFraudPolicy, error) {
	return readFraudPolicy(ctx, db, scope, program)
}

func readFraudPolicy(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, program affiliate.ProgramID) (fraud.ProgramFraudPolicy, error) {
	type policyRow struct {
		FraudPolicy   fraud.Policy
		FraudSettings fraud.Settings
		UpdatedAt     time.Time
	}
	row, err := postgres.OneRow[policyRow](db.Query(ctx, selectFraudPolicy, scope.Workspace, scope.Mode, program))
	return fraud.ProgramFraudPolicy{
		Program: program, Policy: row.FraudPolicy, Settings: row.FraudSettings, UpdatedAt: row.UpdatedAt,
	}, err
}

// auditedFraudPolicy has the fields that PutPolicy can change, with their names in
// audit records.
type auditedFraudPolicy struct {
	Policy           fraud.Policy `json:"fraud_policy"`
	DisabledRules    []string     `json:"disabled_rules"`
	BlockedCountries []string     `json:"blocked_countries"`
	CouponSites      []string     `json:"coupon_sites"`
	BrandTerms       []string     `json:"brand_terms"`
}

func auditedPolicy(p fraud.ProgramFraudPolicy) auditedFraudPolicy {
	return auditedFraudPolicy{
		Policy: p.Policy, DisabledRules: postgres.NonNil(p.Settings.DisabledRules), BlockedCountries: postgres.NonNil(p.Settings.BlockedCountries),
		CouponSites: postgres.NonNil(p.Settings.CouponSites), BrandTerms: postgres.NonNil(p.Settings.BrandTerms),
	}
}

// PutPolicy replaces a programme's fraud policy. If nothing changes, it writes no
// audit record and no event. Errors: NOT_FOUND.
func PutPolicy(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, policy fraud.ProgramFraudPolicy, by affiliate.Actor,
) (fraud.ProgramFraudPolicy, error) {
	after := policy
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		program, err := programs.LockForUpdate(ctx, tx, scope, policy.Program)
		if err != nil {
			return err
		}
		before, err := readFraudPolicy(ctx, tx, scope, policy.Program)
		if err != nil {
			return err
		}
		oldValues, newValues, err := affiliate.ChangedFields(auditedPolicy(before), auditedPolicy(policy))
		if err != nil {
			return err
		}
		if oldValues == nil {
			after = before
			return nil
		}
		if _, err := tx.Exec(ctx, updateFraudPolicy, scope.Workspace, scope.Mode, policy.Program,
			policy.Policy, policy.Settings, policy.UpdatedAt); err != nil {
			return err
		}
		changed := program
		changed.FraudPolicy, changed.Version, changed.UpdatedAt = policy.Policy, program.Version+1, policy.UpdatedAt
		// The webhook event contains the policy, but not its lists, which are private
		// to the merchant.
		var previous any
		if program.FraudPolicy != changed.FraudPolicy {
			previous = map[string]fraud.Policy{"fraud_policy": program.FraudPolicy}
		}
		if err := tx.Audit(ctx, changed.AuditLine("program.put_fraud_policy", policy.UpdatedAt, by, oldValues, newValues)); err != nil {
			return err
		}
		return tx.Publish(ctx, affiliate.NewEvent(scope, affiliate.EventProgramUpdated, policy.UpdatedAt, changed.Object(), previous))
	})
	return after, err
}
