package privacy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// clickTable returns a step that walks through all clicks of the workspace in the order of their ids, even if only
// the clicks of one participant change. It runs the given statement for each page: the clicks with an id after
// @after and up to @last, whose clicked_at is from @from to @until.
func clickTable(update string) step {
	const last = `
		select max(id::text)::uuid, count(*) from (
			select id from clicks
			where workspace_id = @workspace and mode in ('test', 'live') and id > @after and clicked_at >= @from
			order by id limit @limit
		) page`
	return step{name: "clicks", run: func(ctx context.Context, tx *postgres.Tx, t target, cursor uuid.UUID) (uuid.UUID, bool, error) {
		args := t.args()
		// The time in the id of a click is its clicked_at, so partitions of earlier days are
		// not read.
		from, _ := affiliate.ClickID{UUID: cursor}.Time()
		args["after"], args["from"], args["limit"] = cursor, from, pageSize
		var next *uuid.UUID
		var count int
		if err := tx.QueryRow(ctx, last, postgres.PlanForArgs, args).Scan(&next, &count); err != nil || next == nil {
			return cursor, true, err
		}
		until, _ := affiliate.ClickID{UUID: *next}.Time()
		args["last"], args["until"] = *next, until.Add(time.Millisecond)
		_, err := tx.Exec(ctx, update, postgres.PlanForArgs, args)
		return *next, count < pageSize, err
	}}
}

// clickDays returns a step that walks through the days for which the workspace has sums of clicks. The cursor
// contains the time of the day. If a day has more rows than a page, the next page continues with the same day.
func clickDays() step {
	const (
		next = `
			select least(
				(select min(d.day) from click_days d where d.workspace_id = @workspace and d.mode = 'test' and d.day >= @day),
				(select min(d.day) from click_days d where d.workspace_id = @workspace and d.mode = 'live' and d.day >= @day))`
		erase = `select erase_click_days(@workspace, @participant, @day, @limit)`
	)
	return step{name: "daily sums of clicks", run: func(ctx context.Context, tx *postgres.Tx, t target, cursor uuid.UUID) (uuid.UUID, bool, error) {
		from, _ := affiliate.ClickID{UUID: cursor}.Time()
		args := t.args()
		args["day"], args["limit"] = from, pageSize
		var day *time.Time
		if err := tx.QueryRow(ctx, next, postgres.PlanForArgs, args).Scan(&day); err != nil || day == nil {
			return cursor, true, err
		}
		var changed int
		args["day"] = *day
		err := tx.QueryRow(ctx, erase, postgres.PlanForArgs, args).Scan(&changed)
		following := *day
		if changed < pageSize {
			following = day.AddDate(0, 0, 1)
		}
		return affiliate.FirstID[affiliate.ClickID](following).UUID, false, err
	}}
}

// storedResponses returns a step that deletes the stored responses of a workspace that
// contain one of the texts. A request with the key of such a response is processed as a new
// request. Responses are kept for 24 hours, so one transaction reads all of them, in pages.
func storedResponses() step {
	const remove = `
		with page as (
			select k.mode, k.method, k.key, k.response from idempotency_keys k
			where k.workspace_id = @workspace and k.mode in ('test', 'live') and (k.mode, k.method, k.key) > (@mode, @method, @key)
			order by k.mode, k.method, k.key
			limit @limit
		), deleted as (
			delete from idempotency_keys k using page p
			where k.workspace_id = @workspace and k.mode = p.mode and k.method = p.method and k.key = p.key and exists (
				select from unnest(@texts::text[]) as t (word)
				where length(word) > 3 and position(convert_to(word, 'UTF8') in p.response) > 0)
		)
		select p.mode, p.method, p.key from page p order by p.mode desc, p.method desc, p.key desc limit 1`
	return step{name: "stored responses", run: func(ctx context.Context, tx *postgres.Tx, t target, cursor uuid.UUID) (uuid.UUID, bool, error) {
		args := t.args()
		args["limit"] = pageSize
		var last privacy.StoredResponseKey
		for {
			args["mode"], args["method"], args["key"] = last.Mode, last.Method, last.Key
			err := tx.QueryRow(ctx, remove, postgres.PlanForArgs, args).Scan(&last.Mode, &last.Method, &last.Key)
			if errors.Is(err, pgx.ErrNoRows) {
				return cursor, true, nil
			}
			if err != nil {
				return cursor, false, err
			}
		}
	}}
}

// eventBodies returns a step that replaces promo codes of a participant in the bodies of
// events about conversions. RedactEvents has already redacted the events about the
// participant, its links and its promo codes.
func eventBodies() step {
	const (
		read = `
			select id, day, body from events
			where workspace_id = @workspace and mode in ('test', 'live') and id > @after
			order by id limit @limit
			for no key update`
		rewrite = `
			update events e set body = n.body
			from unnest(@ids::uuid[], @days::date[], @bodies::bytea[]) as n (id, day, body)
			where e.workspace_id = @workspace and e.mode in ('test', 'live') and e.id = n.id and e.day = n.day`
		// bodyPage is the number of bodies that are in memory at the same time. A body has at
		// most affiliate.MaxBody bytes.
		bodyPage = 500
	)
	type event struct {
		ID   uuid.UUID
		Day  time.Time
		Body []byte
	}
	return step{name: "events", run: func(ctx context.Context, tx *postgres.Tx, t target, cursor uuid.UUID) (uuid.UUID, bool, error) {
		args := t.args()
		args["after"], args["limit"] = cursor, bodyPage
		events, err := postgres.List[event](ctx, tx, read, postgres.PlanForArgs, args)
		if err != nil || len(events) == 0 {
			return cursor, true, err
		}
		var (
			changed []uuid.UUID
			days    []time.Time
			bodies  [][]byte
		)
		for _, e := range events {
			body := e.Body
			for _, text := range t.Texts {
				body = bytes.ReplaceAll(body, []byte(`"promo_code":"`+text+`"`), []byte(`"promo_code":"`+t.Pseudonym+`"`))
				body = bytes.ReplaceAll(body, []byte(`promo code \"`+text+`\"`), []byte(`promo code \"`+t.Pseudonym+`\"`))
			}
			if !bytes.Equal(body, e.Body) {
				changed, days, bodies = append(changed, e.ID), append(days, e.Day), append(bodies, body)
			}
		}
		if len(changed) > 0 {
			args["ids"], args["days"], args["bodies"] = changed, days, bodies
			if _, err := tx.Exec(ctx, rewrite, args); err != nil {
				return cursor, false, err
			}
		}
		return events[len(events)-1].ID, len(events) < bodyPage, nil
	}}
}

// deadLetters returns a step that deletes records of clicks that could not be stored, if they contain the id of
// the workspace or one of its public keys. For a participant, they must also contain the id of the participant, or
// have one of the texts as a field. A record is in protobuf encoding, in which the length of a text precedes the
// text. A malformed record may have lost the workspace, so the id of the participant or a text of more than three
// characters is sufficient.
func deadLetters() step {
	return walk("dead letters",
		`select id from click_dead_letters where id > @after order by id limit @limit`, `
		with keys as (
			select convert_to(k.public_text, 'UTF8') as key from api_keys k
			where k.workspace_id = @workspace and k.mode in ('test', 'live') and k.kind = 'public'
		), words as (
			select encode(convert_to(lower(t.word), 'UTF8'), 'escape') as word, length(t.word) > 3 as long,
				encode(convert_to(lower(chr(octet_length(t.word)) || t.word), 'UTF8'), 'escape') as field
			from unnest(@texts::text[]) as t (word)
			where octet_length(t.word) between 1 and 127
		)
		delete from click_dead_letters d
		where d.id = any(@ids) and case
			when position(uuid_send(@workspace::uuid) in d.record) > 0 or exists (select from keys where position(key in d.record) > 0) then
				@participant::uuid is null or position(uuid_send(@participant) in d.record) > 0
				or exists (
					select from words
					where position(field in lower(encode(d.record, 'escape'))) > 0
						or d.reason = 'malformed' and long and position(word in lower(encode(d.record, 'escape'))) > 0)
			when d.reason = 'malformed' then
				position(uuid_send(@participant) in d.record) > 0
				or @participant::uuid is not null and exists (select from words where long and position(word in lower(encode(d.record, 'escape'))) > 0)
			else false
		end`)
}

// streamedDeadLetters returns a step that requests the deletion of the same records from the
// Redis stream of dead letters. The cursor is the position in the stream.
func streamedDeadLetters() step {
	const publicKeys = `
		select public_text from api_keys
		where workspace_id = @workspace and mode in ('test', 'live') and kind = 'public'`
	return step{name: "dead letters in Redis", request: func(ctx context.Context, tx *postgres.Tx, t target, cursor uuid.UUID) (privacy.ErasurePage, error) {
		keys, err := postgres.Values[string](ctx, tx, publicKeys, t.args())
		search := affiliate.DeadLetterSearch{Workspace: t.Workspace, PublicKeys: keys, Participant: t.Participant, Texts: t.Texts}
		return privacy.ErasurePage{DeadLetters: &affiliate.DeadLetterPage{Search: search, After: positionAt(cursor)}}, err
	}}
}

// positionAt returns the position in a stream that a cursor stores, and cursorAt the cursor
// that stores a position.
func positionAt(cursor uuid.UUID) affiliate.StreamPosition {
	return affiliate.StreamPosition{Time: binary.BigEndian.Uint64(cursor[:8]), Sequence: binary.BigEndian.Uint64(cursor[8:])}
}

func cursorAt(p affiliate.StreamPosition) (cursor uuid.UUID) {
	binary.BigEndian.PutUint64(cursor[:8], p.Time)
	binary.BigEndian.PutUint64(cursor[8:], p.Sequence)
	return cursor
}
