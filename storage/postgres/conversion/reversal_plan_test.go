package conversion_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// The statements that connect charges and conversions read only the rows of one sale.
func TestReversalStatements_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newConversionFixture(t, 6_000, time.Minute)
	f.Exec(`
		insert into conversion_aliases (workspace_id, mode, id, conversion_id)
		select workspace_id, mode, prefix || id, id from conversions, unnest(array['cs_', 'pi_', 'in_']) prefix`)
	f.Exec(`
		insert into processor_charges (workspace_id, mode, id, currency, amount_cents, refunded_cents, conversion_id, read_number, updated_at)
		select workspace_id, mode, 'ch_' || id, 'EUR', 100, 50, case when random() < 0.9 then id end, 1, $1 from conversions`, pgtest.Noon)
	f.Exec(`
		insert into processor_charge_aliases (workspace_id, mode, id, charge_id)
		select workspace_id, mode, prefix || id, 'ch_' || id from conversions, unnest(array['ch_', 'pi_']) prefix`)
	f.Exec(`
		insert into processor_disputes (workspace_id, mode, id, charge_id, status, amount_cents, updated_at)
		select workspace_id, mode, 'dp_' || id, 'ch_' || id, 'open', 100, $1 from conversions`, pgtest.Noon)
	f.VacuumAnalyze()
	id, _ := affiliate.ParseID[affiliate.ConversionID](f.Texts(`select id::text from conversions where workspace_id = $1 limit 1`, f.Scope.Workspace)[0])
	scans := append(pgtest.ScansOf(""), "Hash Join", "Merge Join")
	for name, tc := range map[string]struct {
		sql     string
		arg     any
		indexes []string
	}{
		"conversion of aliases": {conversions.FindByAliasSQL, []string{"cs_1", "pi_1", "in_1", "ch_1"}, []string{"conversion_aliases_pkey", "conversions_external"}},
		"claim of charges": {conversions.ClaimChargesSQL, id, []string{
			"conversion_aliases_by_conversion", "conversions_pkey", "processor_charge_aliases_pkey", "processor_charges_pkey",
		}},
		"applied charges":         {conversions.MarkAppliedSQL, id, []string{"processor_charges_by_conversion"}},
		"charges of a conversion": {conversions.ReversedChargesSQL, id, []string{"processor_charges_by_conversion", "processor_disputes_by_charge"}},
	} {
		pgtest.CheckPlan(t, name, f.Plan(tc.sql, f.Scope.Workspace, f.Scope.Mode, tc.arg), tc.indexes, scans)
	}
}
