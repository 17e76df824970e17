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
		got, err := b.takeTurns(ctx, row.what, large.get(core, "/programs/"+large.program+row.path), b.yardstick(small.get(core, "/programs/"+small.program+row.path)))
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
