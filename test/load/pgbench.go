package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// lookup is the first part of the pgbench script. Like the service, it reads the click
// with its programme and participant before it writes. It also creates the ids as UUIDv7,
// because an index is slower with ids in random order.
const lookup = `\set n random(1, :clicks)
\set slot random(0, 15)
select c.mode, c.received_at, c.expires_at, p.name, p.status, p.currency, p.attribution_model, p.rules, p.rules_version,
	t.partner_id, t.status as participant_status, t.erased_at, c.id as click,
	(u.head || '1' || u.tail)::uuid as conversion, (u.head || '2' || u.tail)::uuid as decision,
	(u.head || '3' || u.tail)::uuid as commission, (u.head || '4' || u.tail)::uuid as event1,
	(u.head || '5' || u.tail)::uuid as event2, 'order-' || u.tail as external
from clicks c
cross join lateral (select p.* from programs p where p.workspace_id = c.workspace_id and p.id = c.program_id and p.mode = c.mode limit 1) as p
cross join lateral (select t.* from participants t where t.workspace_id = c.workspace_id and t.id = c.participant_id and t.mode = c.mode limit 1) as t
cross join lateral (
	select lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0') || '7' || substr(r, 1, 3) || '8' as head, substr(r, 5, 14) as tail
	from md5(random()::text || c.id::text) as r) as u
where c.workspace_id = '%s' and c.id = ('%s' || lpad(:n::text, %d, '0'))::uuid and c.clicked_at = %s
\gset
`

// writeScript writes the script of pgbench's transaction. The script contains the lookup
// and an INSERT for each row that one conversion of the service has created. The rows get
// new ids. If tables are given, the script inserts only into these tables.
func (s *shop) writeScript(ctx context.Context, ours *database, path string, tables ...string) (err error) {
	conn, err := pgx.Connect(ctx, ours.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var conversion, decision, commission, click, external string
	err = conn.QueryRow(ctx, `
		select c.id::text, c.decision_id::text, m.id::text, c.click_id::text, c.external_transaction_id
		from conversions c join commissions m on m.workspace_id = c.workspace_id and m.decision_id = c.decision_id
		where c.workspace_id = $1 and c.attributed
		order by c.created_at limit 1`, s.workspace).Scan(&conversion, &decision, &commission, &click, &external)
	if err != nil {
		return fmt.Errorf("find the conversion to repeat: %w", err)
	}
	variables := map[string]string{
		conversion: ":conversion", decision: ":decision", commission: ":commission", click: ":click", external: ":external",
	}
	var script strings.Builder
	fmt.Fprintf(&script, lookup, s.workspace, s.clickHead, clickDigits, literal(s.clickedAt.Format(time.RFC3339Nano)))
	script.WriteString("begin;\n")
	// A count is divided among several rows, which are numbered by the column slot. Like
	// the service, the script increments a random one of these rows, so that concurrent
	// transactions do not wait for the same row.
	const incrementCount = ` on conflict (workspace_id, mode, grain, starts, program_id, status, needs_review, currency, slot)
		do update set n = commission_counts.n + 1, amount_cents = commission_counts.amount_cents + excluded.amount_cents`
	events := `select * from events where workspace_id = '` + s.workspace.String() + `' and type = '%s'
		and strpos(convert_from(body, 'UTF8'), '` + conversion + `') > 0 limit 1`
	for _, row := range []struct {
		table, query string
		// replacements contains values for columns that cannot have the value of the
		// copied row.
		replacements map[string]string
		// conflictClause is the end of the INSERT, or "" if there can be no conflict.
		conflictClause string
	}{
		{
			table: "conversions", query: "select * from conversions where id = '" + conversion + "'",
			conflictClause: " on conflict (workspace_id, mode, external_transaction_id) do nothing",
		},
		{table: "attribution_decisions", query: "select * from attribution_decisions where id = '" + decision + "'"},
		{table: "commissions", query: "select * from commissions where id = '" + commission + "'"},
		{table: "commission_history", query: "select * from commission_history where commission_id = '" + commission + "'"},
		{table: "events", query: fmt.Sprintf(events, "conversion.created"), replacements: map[string]string{"id": ":event1"}},
		{table: "events", query: fmt.Sprintf(events, "commission.created"), replacements: map[string]string{"id": ":event2"}},
		{table: "stats_deltas", query: `
			select workspace_id, id, mode, program_id, participant_id, link_id, currency,
				0 as clicks, 0 as signups, 1 as conversions, amount_cents as revenue_cents, amount_cents as commission_cents
			from conversions where id = '` + conversion + `'`},
		{
			table: "commission_counts", query: "select * from commission_counts where grain = 'ever' limit 1", replacements: map[string]string{"slot": ":slot"},
			conflictClause: incrementCount,
		},
		{
			table: "commission_counts", query: "select * from commission_counts where grain = 'month' limit 1", replacements: map[string]string{"slot": ":slot"},
			conflictClause: incrementCount,
		},
		{
			table: "commission_counts", query: "select * from commission_counts where grain = 'day' limit 1", replacements: map[string]string{"slot": ":slot"},
			conflictClause: incrementCount,
		},
	} {
		if len(tables) > 0 && !slices.Contains(tables, row.table) {
			continue
		}
		statement, err := insertStatement(ctx, conn, row.table, row.query, variables, row.replacements)
		if err != nil {
			return fmt.Errorf("%s: %w", row.table, err)
		}
		script.WriteString(statement + row.conflictClause + ";\n")
	}
	script.WriteString("commit;\n")
	return os.WriteFile(path, []byte(script.String()), 0o600)
}

// insertStatement returns a statement that inserts a copy of the row that query returns.
// The map replacements contains other values by column name. Any other value that is a
// key of the map variables is replaced by the pgbench variable in this map.
func insertStatement(ctx context.Context, conn *pgx.Conn, table, query string, variables, replacements map[string]string) (string, error) {
	// With the simple protocol every value is returned as text.
	rows, err := conn.Query(ctx, query, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	if !rows.Next() {
		return "", errors.Join(errors.New("no row found"), rows.Err())
	}
	var columns, values []string
	for i, raw := range rows.RawValues() {
		name := rows.FieldDescriptions()[i].Name
		value, replaced := replacements[name]
		if !replaced {
			value, replaced = variables[string(raw)]
		}
		switch {
		case replaced:
		case raw == nil:
			value = "null"
		default:
			value = literal(string(raw))
		}
		columns, values = append(columns, name), append(values, value)
	}
	rows.Close()
	return "insert into " + table + " (" + strings.Join(columns, ", ") + ") values (" + strings.Join(values, ", ") + ")", rows.Err()
}

// literal quotes a text for a pgbench script. It escapes colons, because pgbench would
// treat a colon as the start of a variable.
func literal(text string) string {
	return `E'` + strings.NewReplacer(`\`, `\\`, `'`, `''`, `:`, `\x3a`, "\n", `\n`).Replace(text) + `'`
}

// pgbenchWarmUp is longer than warmUp, because in each round all connections are new and
// must prepare their statements.
const pgbenchWarmUp = time.Second

// pgbench runs the script. It reads pgbench's log of transactions to ignore the warm-up
// and to calculate latencies.
func (b *bench) pgbench(ctx context.Context, binary string, db *database, script string, clients, clicks int, measured time.Duration) (sample, error) {
	prefix := b.file("transactions")
	old, err := filepath.Glob(prefix + ".*")
	if err != nil {
		return sample{}, err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return sample{}, err
		}
	}
	cmd := exec.CommandContext(ctx, binary,
		"--no-vacuum", "--protocol=prepared", "--client="+strconv.Itoa(clients), "--jobs=2",
		// Run one second longer, because the log begins with the end of the first
		// transaction.
		"--time="+strconv.Itoa(int((pgbenchWarmUp+measured)/time.Second)+1),
		"--define=clicks="+strconv.Itoa(clicks), "--file="+script, "--log", "--log-prefix="+prefix, db.url)
	// The service uses the role tributary_app too.
	cmd.Env = append(os.Environ(), "PGOPTIONS=-c role=tributary_app")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return sample{}, fmt.Errorf("pgbench: %w\n%s", err, out.String())
	}
	if strings.Contains(out.String(), "aborted") {
		return sample{}, fmt.Errorf("pgbench: %s", out.String())
	}
	logs, err := filepath.Glob(prefix + ".*")
	if err != nil {
		return sample{}, err
	}
	return readLogs(logs, measured)
}

// readLogs reads pgbench's log. A line has the client, the transaction number, the
// duration in µs, the script, and the end as seconds and µs.
func readLogs(paths []string, measured time.Duration) (sample, error) {
	type transaction struct{ end, took time.Duration }
	var all []transaction
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return sample{}, err
		}
		for line := range strings.Lines(string(text)) {
			var client, number, took, script, seconds, micros int64
			if _, err := fmt.Sscan(line, &client, &number, &took, &script, &seconds, &micros); err != nil {
				return sample{}, fmt.Errorf("unexpected line in pgbench's log: %q: %w", line, err)
			}
			all = append(all, transaction{
				end:  time.Duration(seconds)*time.Second + time.Duration(micros)*time.Microsecond,
				took: time.Duration(took) * time.Microsecond,
			})
		}
	}
	if len(all) == 0 {
		return sample{}, errors.New("pgbench ran no transaction")
	}
	first := slices.MinFunc(all, func(a, b transaction) int { return int(a.end - b.end) }).end
	var took []time.Duration
	for _, t := range all {
		if after := t.end - first - pgbenchWarmUp; after >= 0 && after < measured {
			took = append(took, t.took)
		}
	}
	slices.Sort(took)
	return sample{rate: float64(len(took)) / measured.Seconds(), p50: quantile(took, 0.5), p99: quantile(took, 0.99)}, nil
}
