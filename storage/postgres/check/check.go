// Package check has the statements that compare totals, counts and the ledger with the rows
// from which they are computed, and the statements that store the results.
package check

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const (
	// maxShownViolations is the maximum number of violations that a check lists.
	maxShownViolations = 20
	// maxSkew is the largest accepted difference between the clocks of the process and of the database.
	maxSkew = time.Second
	// clockCheck is the name of the check of the clocks.
	clockCheck = "clock"
	// checkMemory is the work_mem of the checks, which join whole tables in memory.
	checkMemory = "64MB"
)

// check compares two places in which the same information is stored. Its statement
// returns one row for each compared item. If the item is correct, the column line is
// null. Otherwise line is a sentence that describes the violation and names the
// workspace and the mode.
type check struct {
	name, compares, sql string
}

// checks are the checks of Run, in their order. A new check is added here.
var checks = []check{
	{"commission_ledger", "the ledger entries of a commission and the amount owed for it", checkCommissionLedger},
	{"balances", "the balances of participants and their ledger entries", checkBalances},
	{"payout_ledger", "the ledger entries of a payout and the amount it took off the balance", checkPayoutLedger},
	{"commission_payout", "the payout that a commission refers to and the payout itself", checkCommissionPayout},
	{"payout_commission", "the approved commissions that an open payout lists and the payout that they refer to", checkPayoutCommission},
	{"payout_amount", "the amounts of payouts and the sums of their parts", checkPayoutAmount},
	{"commission_counts", "the commission counters and the commissions", checkCommissionCounts},
	{"commission_history", "commissions and the last entries of their histories", checkCommissionHistory},
	{"commission_decision", "pending, approved and paid commissions and the decisions in force", checkCommissionDecision},
	{"conversion_decision", "conversions and the decisions in force", checkConversionDecision},
	{"refunds", "the refunded amounts of conversions and their refunds", checkRefunds},
	{"participant_totals", "the totals of participants and their conversions and commissions", checkParticipantTotals},
	{"list_counts", "the list counters and the lists", checkListCounts},
	{"analytics_clicks", "the clicks of two days in the analytics and the clicks", checkAnalyticsClicks},
	{"analytics_conversions", "the conversions in the analytics and the conversions", checkAnalyticsConversions},
	{"analytics_sums", "the sums of programmes in the analytics and the counted conversions", checkAnalyticsSums},
	{"analytics_values", "the conversions of values in the analytics and the counted conversions of two days", checkAnalyticsValues},
	{"analytics_value_clicks", "the clicks of values and of programmes in the analytics on two days", checkAnalyticsValueClicks},
	{"analytics_customers", "the first conversions of customers in the analytics and the counted conversions", checkAnalyticsCustomers},
	{"analytics_cohorts", "the cohorts of workspaces in the analytics and the counted conversions", checkAnalyticsCohorts},
	{"analytics_negative", "the counts of two days in the analytics and 0, their lowest possible value", checkAnalyticsNegative},
	{"analytics_programs", "the sums of programmes in the analytics and those of their participants on two days", checkAnalyticsPrograms},
}

// Run runs all checks on all workspaces in one snapshot. It only reads data and takes no row
// locks, so no writer waits for it. While the snapshot is open, Postgres cannot remove dead
// rows. The statement timeout of the pool does not apply; the deadline of ctx is the only time
// limit. The last result compares the database's clock with the clock of this process, which
// the parameter now reads.
func Run(ctx context.Context, db *postgres.DB, now func() time.Time) (results []affiliate.CheckResult, err error) {
	err = db.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := setCheckLimits(ctx, tx); err != nil {
			return err
		}
		results, err = runChecks(ctx, tx, now)
		return err
	})
	return results, err
}

// runChecks runs all checks in the transaction tx.
func runChecks(ctx context.Context, tx pgx.Tx, now func() time.Time) (results []affiliate.CheckResult, err error) {
	for _, c := range checks {
		result, err := c.run(ctx, tx)
		if err != nil {
			return results, fmt.Errorf("check %s: %w", c.name, err)
		}
		results = append(results, result)
	}
	clock, err := checkClock(ctx, tx, now)
	return append(results, clock), err
}

// setCheckLimits replaces the pool's statement timeout, which is meant for API calls,
// with the time left until ctx's deadline. The server then also stops a statement at
// the deadline. It also sets work_mem to checkMemory.
func setCheckLimits(ctx context.Context, tx pgx.Tx) error {
	const set = `select set_config('statement_timeout', $1, true), set_config('work_mem', $2, true)`
	timeout := int64(0) // no limit
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(max(1, time.Until(deadline).Milliseconds()), math.MaxInt32)
	}
	return postgres.Exec(ctx, tx, set, strconv.FormatInt(timeout, 10), checkMemory)
}

// run counts the violations, and reads their descriptions from the same snapshot.
func (c check) run(ctx context.Context, tx pgx.Tx) (affiliate.CheckResult, error) {
	result := affiliate.CheckResult{Name: c.name, Compares: c.compares}
	count := `select count(*), count(line) from (` + c.sql + `) x`
	if err := tx.QueryRow(ctx, count, pgx.QueryExecModeExec).Scan(&result.Compared, &result.Violated); err != nil || result.Violated == 0 {
		return result, err
	}
	show := `select line from (` + c.sql + `) x where line is not null order by line limit ` + strconv.Itoa(maxShownViolations)
	rows, err := tx.Query(ctx, show, pgx.QueryExecModeExec)
	if err != nil {
		return result, err
	}
	result.Violations, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return result, err
}

// checkClock reads the database's clock, and compares it with this process's clock before and after the read.
func checkClock(ctx context.Context, tx pgx.Tx, now func() time.Time) (affiliate.CheckResult, error) {
	const query = `select clock_timestamp()`
	result := affiliate.CheckResult{Name: clockCheck, Compares: "the clocks of this process and of the database", Compared: 1}
	var dbTime time.Time
	before := now()
	err := tx.QueryRow(ctx, query).Scan(&dbTime)
	after := now()
	if err != nil {
		return result, fmt.Errorf("check clock: %w", err)
	}
	// A database time between the two times of this process shows no skew.
	skew := max(before.Sub(dbTime), dbTime.Sub(after))
	if skew > maxSkew {
		result.Violated = 1
		result.Violations = []string{fmt.Sprintf("the database's clock shows %s, this process's clock shows %s",
			affiliate.FormatTime(dbTime), affiliate.FormatTime(before))}
	}
	return result, nil
}

// StoreResults replaces stored results by the results of the given time. A newer stored result stays.
func StoreResults(ctx context.Context, db *postgres.DB, results []affiliate.CheckResult, at time.Time) error {
	const store = `
		insert into check_results as r (name, compared, violated, checked_at)
		select name, compared, violated, $4 from unnest($1::text[], $2::bigint[], $3::bigint[]) t (name, compared, violated)
		on conflict (name) do update set compared = excluded.compared, violated = excluded.violated, checked_at = excluded.checked_at
		where r.checked_at < excluded.checked_at`
	var names []string
	var compared, violated []int64
	for _, r := range results {
		names, compared, violated = append(names, r.Name), append(compared, r.Compared), append(violated, r.Violated)
	}
	return postgres.Exec(ctx, db, store, names, compared, violated, at)
}

// Latest returns the latest result of each check of this binary, without the
// violations. CheckedAt is nil for a check that has never run.
func Latest(ctx context.Context, db *postgres.DB) ([]affiliate.LatestCheck, error) {
	const read = `
		select c.name, coalesce(r.violated, 0) as violated, r.checked_at
		from unnest($1::text[]) c (name)
		left join check_results r on r.name = c.name`
	names := make([]string, 0, len(checks)+1)
	for _, c := range checks {
		names = append(names, c.name)
	}
	return postgres.List[affiliate.LatestCheck](ctx, db, read, append(names, clockCheck))
}
