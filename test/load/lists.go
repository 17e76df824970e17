package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/test/service"
)

const (
	// manyPartners and fewPartners are the numbers of participants in the two workspaces.
	// SCALE multiplies them. Each participant has one link.
	manyPartners = 100_000
	fewPartners  = 1_000
	// listClients is the number of requests in flight.
	listClients = 4
	listRound   = time.Second
)

// measureLists measures the rows of lists. For a row, the same request is sent to two
// workspaces. One of them has a hundred times as many participants as the other. Both
// workspaces are in the same database, so the size of the tables does not cause a
// difference.
func measureLists(ctx context.Context, b *bench) error {
	database, err := b.newDatabase(ctx, "lists", "")
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
	for _, p := range []struct {
		listedProgram
		partners int
	}{{large, manyPartners * b.scale}, {small, fewPartners * b.scale}} {
		b.say("lists: making %d participants and links", p.partners)
		if err := p.fill(ctx, database, p.partners); err != nil {
			return err
		}
	}
	if err := execute(ctx, database.url, "vacuum analyze"); err != nil {
		return err
	}
	yardstickName := fmt.Sprintf("with %d rows", fewPartners*b.scale)
	for _, row := range []struct{ what, path string }{
		{"participants, page 1", "/partners"},
		{"participants, page 1 by conversions", "/partners?sortBy=conversions"},
		{"participants, page 1 by name", "/partners?sortBy=partnerName&sortOrder=asc"},
		{"participants, search by prefix of a name", "/partners?search=" + url.QueryEscape("Partner 000001")},
		{"participants, search by prefix of a code", "/partners?search=code-000001"},
		{"links, page 1", "/links"},
		{"links, search by prefix of a code", "/links?search=code-000001"},
	} {
		got, err := b.takeTurns(ctx, row.what, large.get(core, "/programs/"+large.program+row.path),
			b.yardstick(small.get(core, "/programs/"+small.program+row.path)))
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%s, of %d rows, p50", row.what, manyPartners*b.scale)
		b.compare("", what, yardstickName, "≤ 1.3", got[0], got[1], p50, millis)
	}
	return nil
}

// listedProgram is a merchant's programme whose lists are measured.
type listedProgram struct {
	session
	program string
}

type session struct{ AccessToken, RefreshToken string }

// refresh replaces the tokens of the session, because the access token expires.
func (s *session) refresh(ctx context.Context, core *process) error {
	api := service.API{Address: core.address}
	return api.Call(ctx, http.MethodPost, "/auth/merchant/refresh", "", object{"refreshToken": s.RefreshToken}, s)
}

// get returns a side of a row. In each round the side requests a path repeatedly.
func (p listedProgram) get(core *process, path string) side {
	return p.getDuring(core, path, listClients, listRound)
}

// getDuring returns the same side with another number of connections and length of a round.
func (p listedProgram) getDuring(core *process, path string, connections int, measured time.Duration) side {
	head := "GET /api/v1" + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + p.AccessToken + "\r\n\r\n"
	return func(ctx context.Context) (sample, error) {
		got, err := traffic{
			address: core.address, processes: measuredProcesses{pid: core.pid}, connections: connections, measured: measured, status: http.StatusOK,
			request: func(dst []byte, _ int) []byte { return append(dst, head...) },
		}.run(ctx)
		if err != nil {
			err = core.fail(err)
		}
		return got, err
	}
}

func openProgram(ctx context.Context, address, name string) (listedProgram, error) {
	var merchant session
	var made struct{ ID string }
	api := service.API{Address: address}
	err := api.Call(ctx, http.MethodPost, "/auth/merchant/register", "", object{
		"email": name + "@example.com", "password": "a long enough password", "name": "Mia", "workspaceName": name,
	}, &merchant)
	if err != nil {
		return listedProgram{}, err
	}
	err = api.Call(ctx, http.MethodPost, "/programs", merchant.AccessToken, object{
		"name": name, "websiteUrl": "https://shop.example.com",
	}, &made)
	return listedProgram{session: merchant, program: made.ID}, err
}

// fill inserts participants with their accounts, codes, links and totals in bulk. The
// rows are the same as after applications through the API. The participant number 7 has
// the name Partner 0000007 and the code code-0000007.
func (p listedProgram) fill(ctx context.Context, db *database, partners int) error {
	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{`create temporary table made as
			select p.workspace_id, p.id as program_id, p.mode, gen_random_uuid() as user_id, gen_random_uuid() as id,
				gen_random_uuid() as link_id, 'Partner ' || lpad(n::text, 7, '0') as name, 'code-' || lpad(n::text, 7, '0') as code,
				p.created_at + n * interval '1 millisecond' as at, n
			from programs p, generate_series(1, $2) n
			where p.id = $1`, []any{p.program, partners}},
		{`insert into users (id, kind, email, password_hash, name, created_at)
			select user_id, 'partner', user_id || '@example.com', '', name, at from made`, nil},
		{`insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code,
				application_answers, applied_at, created_at, updated_at)
			select workspace_id, id, program_id, mode, user_id, name, user_id || '@example.com', 'approved', code, '{}', at, at, at
			from made`, nil},
		{`insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, is_default, created_at, updated_at)
			select workspace_id, link_id, program_id, id, mode, code, substr(md5(program_id::text), 1, 3) || lpad(n::text, 7, '0'), true, at, at
			from made`, nil},
		{`insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
			select workspace_id, mode, code, program_id, id, link_id, at from made`, nil},
		{`insert into participant_totals (workspace_id, participant_id, program_id, clicks, conversions, revenue_cents, commission_cents)
			select workspace_id, id, program_id, n::bigint * 7919 % 1000, n::bigint * 7919 % 100, n::bigint * 7919 % 100000, n::bigint * 7919 % 20000
			from made`, nil},
		{`insert into link_totals (workspace_id, link_id) select workspace_id, link_id from made`, nil},
		{`insert into list_counts (workspace_id, program_id, what, slot, n)
			select workspace_id, id, what, 0, $2::int from programs, (values ('participants.approved'), ('links')) as w (what)
			where id = $1`, []any{p.program, partners}},
	} {
		if _, err := conn.Exec(ctx, step.sql, step.args...); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	return nil
}

const (
	healthPath = "/api/v1/health"
	// gatewayClients is the number of requests in flight.
	gatewayClients = 16
	gatewayRound   = time.Second
)

// measureGateway measures row V4: a route of the gateway and the core, in one process,
// that does not use the database.
func measureGateway(ctx context.Context, b *bench) error {
	database, err := b.newDatabase(ctx, "gateway", "")
	if err != nil {
		return err
	}
	defer database.drop()
	core, err := b.startCore(ctx, database)
	if err != nil {
		return err
	}
	defer core.stop()
	bare, err := b.startBare(ctx, `{"click_id":"00000000-0000-0000-0000-000000000000"}`)
	if err != nil {
		return err
	}
	defer bare.stop()
	get := func(p *process) side {
		return func(ctx context.Context) (sample, error) {
			got, err := traffic{
				address: p.address, processes: measuredProcesses{pid: p.pid}, connections: gatewayClients, measured: gatewayRound, status: http.StatusOK,
				request: func(dst []byte, _ int) []byte {
					return append(dst, "GET "+healthPath+" HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: "+browser+"\r\n\r\n"...)
				},
			}.run(ctx)
			if err != nil {
				err = p.fail(err)
			}
			return got, err
		}
	}
	got, err := b.takeTurns(ctx, "gateway", get(core), b.yardstick(get(bare)))
	if err != nil {
		return err
	}
	const yardstickName = "net/http + encoding/json"
	b.compare("V4", "GET "+healthPath+", 16 in flight", yardstickName, "≥ 0.65", got[0], got[1], rate, perSecond)
	b.compare("", "  CPU a request", yardstickName, "", got[0], got[1], cpu, micros)
	return nil
}

const (
	// manyNotifications and fewNotifications are the numbers of notifications in the feeds
	// of the two workspaces. SCALE multiplies them.
	manyNotifications = 1_000_000
	fewNotifications  = 1_000
	// unreadNotifications is the number of notifications in each feed that are not read,
	// in the row with read notifications.
	unreadNotifications = 500
)

// measureNotifications measures the feed of a workspace that has a thousand times as many
// notifications as a second workspace. Both workspaces are in the same database.
func measureNotifications(ctx context.Context, b *bench) error {
	database, err := b.newDatabase(ctx, "notifications", "")
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
	if err := execute(ctx, database.url, `select ensure_week_partitions('notifications', current_date - 180, current_date)`); err != nil {
		return err
	}
	now := time.Now().UTC()
	feeds := []feed{{large, manyNotifications * b.scale, now}, {small, fewNotifications * b.scale, now}}
	for _, f := range feeds {
		b.say("notifications: making %d notifications", f.notifications)
		if err := f.fill(ctx, database); err != nil {
			return err
		}
	}
	if err := execute(ctx, database.url, "vacuum analyze"); err != nil {
		return err
	}
	measure := func(id, what, path, goal string) error {
		got, err := b.takeTurns(ctx, what, large.get(core, "/notifications"+path), b.yardstick(small.get(core, "/notifications"+path)))
		if err != nil {
			return err
		}
		b.compare(id, fmt.Sprintf("%s, of %d, p50", what, manyNotifications*b.scale), fmt.Sprintf("of %d", fewNotifications*b.scale), goal,
			got[0], got[1], p50, millis)
		return nil
	}
	if err := measure("N1", "notifications, page 1", "", "≤ 1.3"); err != nil {
		return err
	}
	if err := measure("", "unread notifications, page 1", "?unread=true", "≤ 1.3"); err != nil {
		return err
	}
	// The count stops at 10,000, so the large feed counts ten times as many as the small one.
	if err := measure("", "unread-count, nothing read", "/unread-count", "≤ 2"); err != nil {
		return err
	}
	for _, f := range feeds {
		if err := f.readAllBut(ctx, core, unreadNotifications); err != nil {
			return err
		}
	}
	return measure("N2", fmt.Sprintf("unread-count of %d", unreadNotifications), "/unread-count", "≤ 1.3")
}

// feed is the feed of a workspace. newest is the time of its newest notification.
type feed struct {
	listedProgram
	notifications int
	newest        time.Time
}

// feedPeriod is the time over which the notifications of a feed are distributed.
const feedPeriod = 170 * 24 * time.Hour

// fill inserts notifications about conversions and commissions into the feed of the
// workspace. The first has the time newest, and the others have earlier times in steps of
// the same length.
func (f feed) fill(ctx context.Context, db *database) error {
	return execute(ctx, db.url, fmt.Sprintf(`
		insert into notifications (feed_id, mode, category, day, id, type, workspace_id, program_id, resource_id, facts)
		select w, 'live', case n %% 2 when 0 then 'conversions' else 'commissions' end, (at at time zone 'UTC')::date,
			encode(substring(int8send((extract(epoch from at) * 1000)::bigint) from 3) || '\x7000800000000000'::bytea || substring(int4send(n) from 3), 'hex')::uuid,
			case n %% 2 when 0 then 'conversion.created' else 'commission.created' end, w, p, gen_random_uuid(), '{"amount": "1.00 EUR", "event": "purchase"}'
		from (
			select workspace_id as w, id as p, n, timestamptz '%s' - n * interval '%d milliseconds' as at
			from programs, generate_series(0, %d) n where id = '%s'
		) made`, f.newest.Format(time.RFC3339Nano), f.step().Milliseconds(), f.notifications-1, f.program))
}

func (f feed) step() time.Duration { return feedPeriod / time.Duration(f.notifications) }

// readAllBut marks all notifications as read, except the newest ones.
func (f feed) readAllBut(ctx context.Context, core *process, unread int) error {
	before := f.newest.Add(-f.step()*time.Duration(unread) + f.step()/2)
	api := service.API{Address: core.address}
	return api.Call(ctx, http.MethodPost, "/notifications/read-all", f.AccessToken, object{"before": before.Format(time.RFC3339Nano)}, &struct{}{})
}
