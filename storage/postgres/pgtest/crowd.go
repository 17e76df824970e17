package pgtest

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// JoinMany adds n new partners as approved participants to the programme of a shop. Their
// names are Jane 1, Jane 2 and so on. They have no links, and no rows in
// participant_totals.
func (s *Shop) JoinMany(n int) {
	s.Helper()
	s.ExecWithoutForeignKeys(`
		with people as (
			insert into users (id, kind, email, password_hash, name, created_at)
			select gen_random_uuid(), 'partner', 'jane-' || gen_random_uuid() || '@example.com', '', 'Jane ' || n, $4 from generate_series(1, $5::integer) n
			returning id, name, email
		)
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code,
			application_answers, applied_at, created_at, updated_at)
		select $1, gen_random_uuid(), $2, $3, id, name, email, 'approved', id::text, '{}', $4, $4, $4 from people`,
		s.Scope.Workspace, s.Program, s.Scope.Mode, s.Now(), n)
}

// CopyProgram inserts n copies of a shop's programme with the names Copy 1, Copy 2 and so
// on. Each copy is one second newer than the copy before it.
func (s *Shop) CopyProgram(n int) {
	s.Helper()
	s.Exec(`
		insert into programs
		select copy.*
		from programs p, generate_series(1, $2::integer) n, jsonb_populate_record(p, jsonb_build_object('id', gen_random_uuid(),
			'name', 'Copy ' || n, 'slug', 'copy-' || n, 'created_at', p.created_at + n * interval '1 second')) copy
		where p.id = $1`, s.Program, n)
}

// AnyParticipant returns one of the participants in the programme of a shop.
func (s *Shop) AnyParticipant() Participant {
	s.Helper()
	p := Participant{Scope: s.Scope, Program: s.Program}
	err := s.SQL.QueryRow(s.Context(), `select id, partner_id, referral_code from participants where program_id = $1 limit 1`, s.Program).Scan(&p.ID, &p.Partner, &p.Code)
	if err != nil {
		s.Fatal(err)
	}
	return p
}

// Crowd adds n participants to a programme. Each participant has a referral code. About a
// tenth of the participants are approved.
func (s *Shop) Crowd(program affiliate.ProgramID, n int) {
	s.Helper()
	(&Shop{Fixture: s.Fixture, Scope: s.Scope, Program: program}).JoinMany(n)
	s.ExecWithoutForeignKeys(`
		update participants set created_at = created_at + random() * interval '90 days', status = case when random() < 0.1 then 'approved' else 'pending' end
		where program_id = $1`, program)
	s.ExecWithoutForeignKeys(`
		with counted as (
			insert into participant_totals (workspace_id, participant_id, program_id, clicks, conversions, revenue_cents, commission_cents)
			select workspace_id, id, program_id, n * 3, n, n * 1000, n * 100
			from participants p, lateral (select floor(greatest(random() * 1000 - 900, 0)) as n where p.id is not null) as random_number
			where program_id = $1
		)
		insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		select workspace_id, mode, referral_code, program_id, id, gen_random_uuid(), created_at from participants where program_id = $1`, program)
}

// JoinWithLinks adds n participants to the programme of a shop. Each participant gets a
// default link and a promo code. The first participant gets fifty additional links.
func (s *Shop) JoinWithLinks(n int) {
	s.Helper()
	s.JoinMany(n)
	s.ExecWithoutForeignKeys(`
		with numbered as (
			select id, 'code-' || row_number() over (order by id) as code from participants where program_id = $2
		), promoted as (
			insert into promo_codes (workspace_id, id, program_id, participant_id, mode, code, discount_type, discount_value, active,
				sync_to_processor, sync_status, created_at, updated_at)
			select $1, gen_random_uuid(), $2, id, $3, 'promo-' || $2::uuid || code, 'percentage', 1000, random() < 0.9, false, 'none',
				$4::timestamptz + random() * interval '90 days', $4
			from numbered
		)
		insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, destination_url, is_default, created_at, updated_at)
		select $1, gen_random_uuid(), $2, id, $3, code || '-' || k, substr(md5(random()::text || id), 1, 20), 'https://a.example', k = 0,
			$4::timestamptz + random() * interval '90 days', $4
		from numbered, generate_series(0, case when code = 'code-1' then 50 else 0 end) k`,
		s.Scope.Workspace, s.Program, s.Scope.Mode, s.Now())
}

// JoinManyWithLinks adds 10,100 participants with links and promo codes to the programme of the shop, and fewer to
// programmes of both modes and of another workspace. It returns a participant that has fifty additional links.
func (s *Shop) JoinManyWithLinks() Participant {
	s.Helper()
	s.JoinWithLinks(10_100)
	for range 20 {
		(&Shop{Fixture: s.Fixture, Scope: s.Scope, Program: s.NewProgram(s.Scope)}).JoinWithLinks(100)
	}
	s.InOtherMode().JoinWithLinks(2000)
	s.NewShop(affiliate.ModeLive).JoinWithLinks(2000)
	var p Participant // has fifty additional links
	if err := s.SQL.QueryRow(s.Context(), `select id, partner_id from participants where program_id = $1 order by id limit 1`, s.Program).
		Scan(&p.ID, &p.Partner); err != nil {
		s.Fatal(err)
	}
	s.ExecWithoutForeignKeys(`insert into link_totals (workspace_id, link_id) select workspace_id, id from links`)
	s.ExecWithoutForeignKeys(`
		insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, link_id, currency, clicks)
		select workspace_id, gen_random_uuid(), mode, program_id, participant_id, id, '', 1 from links`)
	s.VacuumAnalyze()
	return p
}

// JoinAllPrograms adds workspaces until their number, with the shop's, is the given number. Each has one programme.
// It creates partners who take part in all programmes. It inserts no rows into the tables of totals.
func (s *Shop) JoinAllPrograms(workspaces, partners int) (joined []Participant) {
	s.Helper()
	s.Exec(`insert into workspaces
		select copy.* from workspaces w, generate_series(2, $1::integer) n, jsonb_populate_record(w, jsonb_build_object('id', gen_random_uuid(), 'name', n, 'slug', 'workspace-' || n)) copy`, workspaces)
	s.Exec(`insert into programs
		select copy.* from programs p, workspaces w, jsonb_populate_record(p, jsonb_build_object('id', gen_random_uuid(), 'workspace_id', w.id)) copy
		where w.id <> p.workspace_id`)
	s.Exec(`insert into users (id, kind, email, password_hash, name, created_at)
		select gen_random_uuid(), 'partner', n || '@example.com', 'x', 'Partner ' || n, $1 from generate_series(1, $2) n`, s.Now(), partners)
	s.ExecWithoutForeignKeys(`insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code,
			application_answers, applied_at, created_at, updated_at)
		select p.workspace_id, gen_random_uuid(), p.id, p.mode, u.id, u.name, u.email, 'approved', u.id::text, '{}', $1, $1, $1
		from programs p, users u where u.kind = 'partner'`, s.Now())
	s.ExecWithoutForeignKeys(`insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, is_default, created_at, updated_at)
		select workspace_id, gen_random_uuid(), program_id, id, mode, referral_code, left(md5(id::text), 10), true, $1, $1
		from participants`, s.Now())
	rows, _ := s.SQL.Query(s.Context(), `
		select t.workspace_id, t.program_id, t.id, t.partner_id, l.id
		from participants t join links l on l.workspace_id = t.workspace_id and l.participant_id = t.id order by t.id`)
	p := Participant{Scope: s.Scope}
	_, err := pgx.ForEachRow(rows, []any{&p.Scope.Workspace, &p.Program, &p.ID, &p.Partner, &p.Link}, func() error {
		joined = append(joined, p)
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	return joined
}
