package postgres

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// shownViolations bounds what a check tells in words; it counts the others.
	shownViolations = 20
	// maxSkew is how far the clocks of this process and of the database may be
	// apart.
	maxSkew = time.Second
	// checkMemory lets the checks join whole tables in memory rather than on disk.
	checkMemory = "64MB"
)

// check holds two ways against each other in which the same thing is kept. Its
// statement gives a row for each thing that is compared, with the column line:
// null, or a sentence about the violation, which names the workspace and the mode.
type check struct {
	name, compares, sql string
}

// checks are made in this order. A new one is a statement and a line here.
var checks = []check{
	{"commission_ledger", "the ledger's entries of a commission and what is owed for it", checkCommissionLedger},
	{"balances", "the balances of participants and the entries of the ledger", checkBalances},
	{"payout_ledger", "the ledger's entries of a payout and what it has taken", checkPayoutLedger},
	{"commission_payout", "the payout that a commission names and the payout itself", checkCommissionPayout},
	{"payout_commission", "the approved commissions that an open payout lists and the payout that they name", checkPayoutCommission},
	{"payout_amount", "the amounts of payouts and their parts", checkPayoutAmount},
	{"commission_counts", "the counters of commissions and the commissions", checkCommissionCounts},
	{"commission_history", "commissions and the last lines of their histories", checkCommissionHistory},
	{"commission_decision", "commissions that earn and the decisions in force", checkCommissionDecision},
	{"conversion_decision", "conversions and the decisions in force", checkConversionDecision},
	{"refunds", "what was refunded of conversions and their refunds", checkRefunds},
	{"participant_totals", "the totals of participants and their conversions and commissions", checkParticipantTotals},
	{"list_counts", "the lengths of lists and the lists", checkListCounts},
}

// CheckBooks makes all checks of all workspaces in one snapshot. It reads and
// locks nothing, so that nobody waits for it; the snapshot keeps dead rows alive
// while it lasts. ctx alone bounds how long a statement takes. The last result is
// about the clocks: now is this process's.
func (s *Store) CheckBooks(ctx context.Context, now func() time.Time) (results []affiliate.CheckResult, err error) {
	err = s.inSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := boundByContext(ctx, tx); err != nil {
			return err
		}
		for _, c := range checks {
			result, err := c.run(ctx, tx)
			if err != nil {
				return fmt.Errorf("check %s: %w", c.name, err)
			}
			results = append(results, result)
		}
		clock, err := checkClock(ctx, tx, now)
		results = append(results, clock)
		return err
	})
	return results, err
}

// boundByContext puts the time that ctx leaves in the place of the pool's bound,
// which is for calls of the API: the server itself gives up then, too.
func boundByContext(ctx context.Context, tx pgx.Tx) error {
	const set = `select set_config('statement_timeout', $1, true), set_config('work_mem', $2, true)`
	left := int64(0) // none
	if deadline, ok := ctx.Deadline(); ok {
		left = min(max(1, time.Until(deadline).Milliseconds()), math.MaxInt32)
	}
	_, err := tx.Exec(ctx, set, strconv.FormatInt(left, 10), checkMemory)
	return err
}

// run counts first. Only where there are violations does it look again for their
// sentences, in the same snapshot.
func (c check) run(ctx context.Context, tx pgx.Tx) (affiliate.CheckResult, error) {
	result := affiliate.CheckResult{Name: c.name, Compares: c.compares}
	count := `select count(*), count(line) from (` + c.sql + `) x`
	if err := tx.QueryRow(ctx, count, pgx.QueryExecModeExec).Scan(&result.Compared, &result.Violated); err != nil || result.Violated == 0 {
		return result, err
	}
	show := `select line from (` + c.sql + `) x where line is not null order by line limit ` + strconv.Itoa(shownViolations)
	rows, err := tx.Query(ctx, show, pgx.QueryExecModeExec)
	if err != nil {
		return result, err
	}
	result.Violations, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return result, err
}

// checkClock asks the database for the time between two looks at the clock here.
func checkClock(ctx context.Context, tx pgx.Tx, now func() time.Time) (affiliate.CheckResult, error) {
	const ask = `select clock_timestamp()`
	result := affiliate.CheckResult{Name: "clock", Compares: "the clock of this process and the database's", Compared: 1}
	var there time.Time
	before := now()
	err := tx.QueryRow(ctx, ask).Scan(&there)
	after := now()
	if err != nil {
		return result, fmt.Errorf("check clock: %w", err)
	}
	// Within [before, after] both may be right.
	skew := max(before.Sub(there), there.Sub(after))
	if skew > maxSkew {
		result.Violated = 1
		result.Violations = []string{fmt.Sprintf("the database's clock shows %s, this process's %s",
			affiliate.FormatTime(there), affiliate.FormatTime(before))}
	}
	return result, nil
}
