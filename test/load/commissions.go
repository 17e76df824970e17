package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/tools/servers"
)

const (
	// The numbers of commissions in the large workspace, in the small workspace with
	// which the large workspace is compared, and in all other workspaces together. SCALE
	// multiplies these numbers. They are a tenth of the numbers in the performance goal
	// L1.
	largeCommissions  = 100_000
	smallCommissions  = 9_100
	othersCommissions = 890_900
	otherWorkspaces   = 98
	// commissionDays is the number of days over which the commissions are spread.
	commissionDays = 365
)

// measureCommissions measures the rows L1, L2, E1 and E2.
func measureCommissions(ctx context.Context, b *bench) error {
	database, err := b.newDatabase(ctx, "commissions", "")
	if err != nil {
		return err
	}
	defer database.drop()
	core, err := b.startCore(ctx, database)
	if err != nil {
		return err
	}
	defer core.stop()
	large, err := openProgram(ctx, core.address, "large")
	if err != nil {
		return core.fail(err)
	}
	small, err := openProgram(ctx, core.address, "small")
	if err != nil {
		return core.fail(err)
	}
	b.say("commissions: making %d", (largeCommissions+smallCommissions+othersCommissions)*b.scale)
	// Stop the core, because its periodic jobs would scan the table of commissions, which
	// has no indexes while it is filled.
	core.stop()
	if err := fillCommissions(ctx, database, b.scale, large, small); err != nil {
		return err
	}
	if core, err = b.startCore(ctx, database); err != nil {
		return err
	}
	defer core.stop()
	if err := errors.Join(large.refresh(ctx, core), small.refresh(ctx, core)); err != nil {
		return core.fail(err)
	}
	yardstickName := fmt.Sprintf("with %d", smallCommissions*b.scale)
	since := time.Now().UTC().AddDate(0, 0, -100).Format(time.DateOnly)
	until := time.Now().UTC().AddDate(0, 0, -10).Format("2006-01-02T15:04:05Z")
	for _, row := range []struct{ what, path string }{
		{"default view", "/commissions"},
		{"one status", "/commissions?status=approved"},
		{"one programme", "/commissions?programId=%s"},
		{"a range of dates", "/commissions?dateFrom=" + since + "&dateTo=" + until},
	} {
		// The order must be the same in each run, because test/load/compare pairs the
		// rows of two programs.
		for _, what := range []string{"page and total", "stats"} {
			path := row.path
			if what == "stats" {
				path = strings.Replace(row.path, "/commissions", "/commissions/stats", 1)
			}
			request := func(p listedProgram) side { return p.get(core, strings.Replace(path, "%s", p.program, 1)) }
			got, err := b.takeTurns(ctx, row.what+", "+what, request(large), b.yardstick(request(small)))
			if err != nil {
				return err
			}
			b.compare("L1", fmt.Sprintf("%s of %d commissions, %s, p50", what, largeCommissions*b.scale, row.what), yardstickName, "≤ 1.3", got[0], got[1], p50, millis)
		}
	}
	middle := strconv.Itoa(largeCommissions * b.scale / 20 / 2)
	got, err := b.takeTurns(ctx, "a deep page", large.get(core, "/commissions?page="+middle), b.yardstick(large.get(core, "/commissions")))
	if err != nil {
		return err
	}
	b.compare("L2", "page "+middle+", p50", "page 1", "≤ 1.5", got[0], got[1], p50, millis)
	return b.measureExport(ctx, core, database, large)
}

// exportSQL is the statement of the core's export (commissionExportSQL in
// storage/postgres) with the values inserted.
const exportSQL = `
	select c.id, c.created_at, c.status, c.commission_type, p.name, u.name, c.amount_cents, c.currency,
		c.sale_amount_cents, c.sale_currency, c.external_transaction_id, c.promo_code, c.needs_review,
		c.hold_until, c.approved_at, c.rejected_at, c.paid_at, c.refunded_at, c.payout_id
	from commissions c
	left join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
	left join users u on u.id = c.partner_id
	where c.workspace_id = '%s' and c.mode = 'live' order by c.created_at desc, c.created_at desc, c.id desc`

// measureExport compares the CSV export of a workspace with psql, which copies the result
// of the same statement. It also measures the peak memory of two processes during the
// export: of the core, which contains a gateway, and of a separate gateway process. The
// memory of the gateway in the core's process cannot be measured separately.
func (b *bench) measureExport(ctx context.Context, core *process, db *database, large listedProgram) error {
	psql, err := exec.LookPath("psql")
	if err != nil {
		return fmt.Errorf("psql: %w", err)
	}
	gateway, err := b.startGateway(ctx, core)
	if err != nil {
		return err
	}
	defer gateway.stop()
	query, err := copyCommand(ctx, db, large)
	if err != nil {
		return err
	}
	rows := float64(largeCommissions * b.scale)
	export := func(server *process) side {
		return func(ctx context.Context) (sample, error) {
			began := time.Now()
			lines, err := download(ctx, server, large)
			if err == nil && float64(lines) != rows+1 {
				err = fmt.Errorf("the export has %d lines", lines)
			}
			return sample{rate: rows / time.Since(began).Seconds()}, err
		}
	}
	copyWithPsql := func(ctx context.Context) (sample, error) {
		began := time.Now()
		cmd := exec.CommandContext(ctx, psql, "--no-psqlrc", "--quiet", "--command="+query, db.url)
		if out, err := cmd.CombinedOutput(); err != nil {
			return sample{}, fmt.Errorf("psql: %w\n%s", err, out)
		}
		return sample{rate: rows / time.Since(began).Seconds()}, nil
	}
	coreIdle, err := resetPeak(core.pid)
	if err != nil {
		return err
	}
	got, err := b.takeTurns(ctx, "the CSV", export(core), b.yardstick(copyWithPsql))
	if err != nil {
		return err
	}
	b.compare("E1", "CSV of "+strconv.Itoa(largeCommissions*b.scale)+" commissions, rows", "psql COPY", "≥ 1.0", got[0], got[1], rate, perSecond)
	if err := b.reportMemory("peak memory of the core with its gateway during the export", core, coreIdle); err != nil {
		return err
	}
	gatewayIdle, err := resetPeak(gateway.pid)
	if err != nil {
		return err
	}
	if _, err := b.takeTurns(ctx, "the CSV through a separate gateway", export(gateway)); err != nil {
		return err
	}
	return b.reportMemory("peak memory of a separate gateway during the export", gateway, gatewayIdle)
}

// startGateway starts a separate gateway that forwards requests to the core. It reads the
// gRPC address from the environment of the core's process.
func (b *bench) startGateway(ctx context.Context, core *process) (*process, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", b.dir+"/", module+"/cmd/gateway")
	cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	settings, err := os.ReadFile("/proc/" + strconv.Itoa(core.pid) + "/environ")
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(settings), "TRIBUTARY_GRPC_LISTEN=")
	address, _, _ := strings.Cut(rest, "\x00")
	listen, err := servers.FreeAddresses(2)
	if err != nil {
		return nil, err
	}
	p, err := b.start(ctx, "gateway", listen[0], []string{
		"TRIBUTARY_GRPC_ADDR=" + address,
		"TRIBUTARY_API_LISTEN=" + listen[0],
		"TRIBUTARY_METRICS_LISTEN=" + listen[1],
		"TRIBUTARY_ALLOW_HTTP=true", "TRIBUTARY_SHUTDOWN_DELAY=0s",
	}, b.file("gateway"))
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, "/api/v1/health/ready"); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// copyCommand returns the psql command that copies the rows of a workspace's export.
func copyCommand(ctx context.Context, db *database, p listedProgram) (command string, err error) {
	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var workspace string
	if err := conn.QueryRow(ctx, "select workspace_id::text from programs where id = $1", p.program).Scan(&workspace); err != nil {
		return "", fmt.Errorf("find the workspace: %w", err)
	}
	oneLine := strings.Join(strings.Fields(fmt.Sprintf(exportSQL, workspace)), " ")
	return `\copy (` + oneLine + `) to '/dev/null' with (format csv)`, nil
}

// download reads a complete export and returns the number of its lines.
func download(ctx context.Context, server *process, p listedProgram) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server.address+"/api/v1/commissions/export", nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+p.AccessToken)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, server.fail(err)
	}
	defer func() { _ = response.Body.Close() }()
	lines := newlines{}
	if _, err := io.Copy(&lines, response.Body); err != nil {
		return 0, server.fail(err)
	}
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the export returned status %d", response.StatusCode)
	}
	return lines.n, nil
}

// newlines is a writer that counts newlines.
type newlines struct{ n int }

func (c *newlines) Write(p []byte) (int, error) {
	c.n += bytes.Count(p, []byte{'\n'})
	return len(p), nil
}

// reportMemory adds a row that compares the peak memory of a process with its idle
// memory.
func (b *bench) reportMemory(what string, p *process, idle float64) error {
	peak, err := memoryOf(p.pid, peakMemory)
	if err != nil {
		return err
	}
	b.table = append(b.table, row{
		id: "E2", what: what, goal: "≤ idle + 20 MB",
		ours: megabytes(peak), yardstick: megabytes(idle) + " idle", ratios: []float64{peak / idle},
	})
	return nil
}

// fillCommissions inserts commissions in bulk. It inserts the commissions, participants
// and counts that real conversions would create, but not the conversions. It sets no
// auto_approve_at, so that the core approves no commissions during the measurement.
func fillCommissions(ctx context.Context, db *database, scale int, large, small listedProgram) (err error) {
	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	rows, err := conn.Query(ctx, `select indexname, indexdef from pg_indexes
		where tablename = 'commissions' and indexname <> 'commissions_pkey'`)
	if err != nil {
		return err
	}
	type index struct{ Indexname, Indexdef string }
	indexes, err := pgx.CollectRows(rows, pgx.RowToStructByName[index])
	if err != nil {
		return err
	}
	steps := []string{
		// Disable foreign keys, because the conversions of the commissions do not exist.
		"set session_replication_role = replica",
		fmt.Sprintf(`create temporary table places as
			select p.workspace_id, p.id as program_id, gen_random_uuid() as participant_id, gen_random_uuid() as partner_id, n,
				case p.id when '%s' then %d when '%s' then %d else %d end as commissions
			from programs p, generate_series(1, 10) n where p.mode = 'live'`,
			large.program, largeCommissions*scale/10, small.program, smallCommissions*scale/10, othersCommissions*scale/otherWorkspaces/10),
	}
	others := fmt.Sprintf(`insert into workspaces (id, name, currency, timezone, created_at, updated_at)
		select gen_random_uuid(), 'other', 'USD', 'UTC', now(), now() from generate_series(1, %d)`, otherWorkspaces)
	programs := `insert into programs select (jsonb_populate_record(p, jsonb_build_object('workspace_id', w.id, 'id', gen_random_uuid(), 'slug', w.id))).*
		from workspaces w, programs p where w.name = 'other' and p.id = '` + large.program + `'`
	steps = append(steps[:1], append([]string{others, programs}, steps[1:]...)...)
	for _, i := range indexes {
		steps = append(steps, "drop index "+i.Indexname)
	}
	steps = append(steps,
		`insert into users (id, kind, email, password_hash, name, created_at)
			select partner_id, 'partner', partner_id || '@example.com', '', 'Partner ' || n, now() from places`,
		`insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code,
				application_answers, applied_at, created_at, updated_at)
			select workspace_id, participant_id, program_id, 'live', partner_id, 'Partner ' || n, partner_id || '@example.com', 'approved',
				'code-' || n, '{}', now(), now(), now()
			from places`,
		fmt.Sprintf(`insert into commissions (workspace_id, id, mode, program_id, participant_id, partner_id, conversion_id, decision_id,
				external_transaction_id, status, commission_type, event_type, rate_bps, amount_cents, original_amount_cents, currency,
				base_amount_cents, sale_amount_cents, sale_currency, needs_review, review_reasons, dispute_status, hold_until, auto_approve_at,
				approved_at, approved_by, rule_snapshot, version, created_at, updated_at)
			select p.workspace_id, gen_random_uuid(), 'live', p.program_id, p.participant_id, p.partner_id, gen_random_uuid(), gen_random_uuid(),
				'order-' || p.n || '-' || k.k, s.status, 'percentage', 'purchase', 2000, 1000 + k.k %% 1000, 2000, 'USD',
				10000, 10000, 'USD', k.k %% 50 = 0 and s.status = 'pending', '{}', 'none', k.at + interval '30 days', null,
				case when s.status in ('approved', 'paid') then k.at + interval '30 days' end, 'system',
				'{"version": 1, "rules": {"type": "percentage", "rate_bps": 2000, "hold_days": 30}}', 1, k.at, k.at
			from places p
			cross join lateral (
				select k, date_trunc('milliseconds', now() - k * interval '%d days' / p.commissions) as at from generate_series(1, p.commissions) k) as k
			cross join lateral (
				select (array['pending', 'approved', 'approved', 'paid', 'paid', 'paid', 'rejected', 'refunded'])[1 + k.k %% 8] as status) as s`, commissionDays),
	)
	for _, i := range indexes {
		steps = append(steps, i.Indexdef)
	}
	steps = append(steps,
		`insert into commission_counts (workspace_id, mode, grain, starts, program_id, status, needs_review, currency, slot, n, amount_cents)
			select workspace_id, mode, grain, starts, program_id, status, needs_review, currency, 0, count(*), sum(amount_cents)
			from commissions c
			cross join lateral (values
				('ever', date '0001-01-01'), ('month', date_trunc('month', c.created_at at time zone 'UTC')::date),
				('day', (c.created_at at time zone 'UTC')::date)) as g (grain, starts)
			group by 1, 2, 3, 4, 5, 6, 7, 8`,
		"reset session_replication_role", "vacuum analyze",
	)
	for _, step := range steps {
		if _, err := conn.Exec(ctx, step); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	return nil
}
