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

// lookup is what a report asks before it writes: its click with the programme
// and the participant that it leads to. It also makes the ids, UUIDv7 as ours
// are, because ids without an order would cost the indexes more.
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

// writeScript writes pgbench's transaction: the lookup, and then every row that
// one conversion made in ours, with ids of its own, statement by statement; of
// these tables, or of all when none is named.
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
		return fmt.Errorf("the conversion that pgbench is to repeat: %w", err)
	}
	variables := map[string]string{
		conversion: ":conversion", decision: ":decision", commission: ":commission", click: ":click", external: ":external",
	}
	var script strings.Builder
	fmt.Fprintf(&script, lookup, s.workspace, s.clickHead, clickDigits, literal(s.clickedAt.Format(time.RFC3339Nano)))
	script.WriteString("begin;\n")
	// In any of the slots, as ours.
	const counted = ` on conflict (workspace_id, mode, grain, starts, program_id, status, needs_review, currency, slot)
		do update set n = commission_counts.n + 1, amount_cents = commission_counts.amount_cents + excluded.amount_cents`
	events := `select * from events where workspace_id = '` + s.workspace.String() + `' and type = '%s'
		and strpos(convert_from(body, 'UTF8'), '` + conversion + `') > 0 limit 1`
	for _, row := range []struct {
		table, query string
		// instead are values of columns that are not to be repeated.
		instead map[string]string
		unless  string
	}{
		{
			table: "conversions", query: "select * from conversions where id = '" + conversion + "'",
			unless: " on conflict (workspace_id, mode, external_transaction_id) do nothing",
		},
		{table: "attribution_decisions", query: "select * from attribution_decisions where id = '" + decision + "'"},
		{table: "commissions", query: "select * from commissions where id = '" + commission + "'"},
		{table: "commission_history", query: "select * from commission_history where commission_id = '" + commission + "'"},
		{table: "events", query: fmt.Sprintf(events, "conversion.created"), instead: map[string]string{"id": ":event1"}},
		{table: "events", query: fmt.Sprintf(events, "commission.created"), instead: map[string]string{"id": ":event2"}},
		{table: "stats_deltas", query: `
			select workspace_id, id, mode, program_id, participant_id, link_id, date_trunc('hour', created_at) as hour, currency,
				0 as clicks, 0 as signups, 1 as conversions, amount_cents as revenue_cents, amount_cents as commission_cents
			from conversions where id = '` + conversion + `'`},
		{
			table: "commission_counts", query: "select * from commission_counts where grain = 'ever' limit 1", instead: map[string]string{"slot": ":slot"},
			unless: counted,
		},
		{
			table: "commission_counts", query: "select * from commission_counts where grain = 'month' limit 1", instead: map[string]string{"slot": ":slot"},
			unless: counted,
		},
		{
			table: "commission_counts", query: "select * from commission_counts where grain = 'day' limit 1", instead: map[string]string{"slot": ":slot"},
			unless: counted,
		},
	} {
		if len(tables) > 0 && !slices.Contains(tables, row.table) {
			continue
		}
		statement, err := insertOf(ctx, conn, row.table, row.query, variables, row.instead)
		if err != nil {
			return fmt.Errorf("%s: %w", row.table, err)
		}
		script.WriteString(statement + row.unless + ";\n")
	}
	script.WriteString("commit;\n")
	return os.WriteFile(path, []byte(script.String()), 0o600)
}

// insertOf is the statement that would insert the row that query finds, with
// variables in the place of the values that they stand for, and what instead
// says in the columns that it names.
func insertOf(ctx context.Context, conn *pgx.Conn, table, query string, variables, instead map[string]string) (string, error) {
	// The simple protocol brings every value as text.
	rows, err := conn.Query(ctx, query, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	if !rows.Next() {
		return "", errors.Join(errors.New("there is no such row"), rows.Err())
	}
	var columns, values []string
	for i, raw := range rows.RawValues() {
		name := rows.FieldDescriptions()[i].Name
		value, replaced := instead[name]
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

// literal quotes a text for a script of pgbench, which would take a colon for
// the beginning of a variable.
func literal(text string) string {
	return `E'` + strings.NewReplacer(`\`, `\\`, `'`, `''`, `:`, `\x3a`, "\n", `\n`).Replace(text) + `'`
}

// pgbenchWarmUp is longer than ours: every connection is new in each round and
// has its statements to prepare.
const pgbenchWarmUp = time.Second

// pgbench runs the script and reads its log, so that the beginning can be left
// out and there are latencies.
func (b *bench) pgbench(ctx context.Context, binary string, on *database, script string, clients, clicks int, measured time.Duration) (sample, error) {
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
		// One second more: the log begins with the first transaction's end.
		"--time="+strconv.Itoa(int((pgbenchWarmUp+measured)/time.Second)+1),
		"--define=clicks="+strconv.Itoa(clicks), "--file="+script, "--log", "--log-prefix="+prefix, on.url)
	// As the service does.
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

// readLogs reads pgbench's transactions: client, number, µs, script, and the end
// in seconds and µs.
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
				return sample{}, fmt.Errorf("pgbench logs %q: %w", line, err)
			}
			all = append(all, transaction{
				end:  time.Duration(seconds)*time.Second + time.Duration(micros)*time.Microsecond,
				took: time.Duration(took) * time.Microsecond,
			})
		}
	}
	if len(all) == 0 {
		return sample{}, errors.New("pgbench has done nothing")
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
