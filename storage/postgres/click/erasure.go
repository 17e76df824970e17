package click

import (
	"bytes"
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// A click can arrive long after its participant was erased, because a collector has kept it
// in its journal. Store stores such a click without its personal data.

// selectErased searches the index of erased participants once for each participant.
const selectErased = `
	select c.workspace_id, c.participant_id
	from unnest($1::uuid[], $2::uuid[]) as c (workspace_id, participant_id)
	cross join lateral (
		select from participants t
		where t.workspace_id = c.workspace_id and t.id = c.participant_id and t.erased_at is not null
		limit 1
	) e`

// Pseudonym is an expression for the pseudonym of the participant of a click c (privacy.Pseudonym).
// Clicks of a participant that was deleted with test data have a pseudonym of their own.
const Pseudonym = `'erased-' || right(coalesce((
	select t.partner_id from participants t where t.workspace_id = c.workspace_id and t.mode = c.mode and t.id = c.participant_id
), c.participant_id)::text, 8)`

// EraseColumns are the assignments that remove the personal data of visitor and
// participant from clicks c. The referral code becomes the pseudonym.
const EraseColumns = `referral_code = ` + Pseudonym + `, ` + EraseVisitColumns

// EraseVisitColumns are the assignments that remove only the personal data of the visitor.
const EraseVisitColumns = `
	landing_url = null, referrer_domain = null,
	utm_source = null, utm_medium = null, utm_campaign = null, utm_term = null, utm_content = null,
	sub_id = null, language = null, screen = null, ip_hash = null, ip_prefix = null, ua_hash = null`

// eraseClickOfBuyer removes the data of the visitor of a click of an erased buyer.
const eraseClickOfBuyer = `
	update clicks set ` + EraseVisitColumns + `,
		consent = 'unknown', bot_reason = null, occurred_at = null, country = null, region = null, device = null, browser = null,
		os = null, paid_platform = null
	where workspace_id = @workspace and mode = @mode and id = @click and clicked_at = @clicked_at`

// eraseStoredClicks removes personal data of clicks. If the workspace was erased, it also
// removes the columns from country to paid_platform.
const eraseStoredClicks = `
	update clicks c set ` + EraseColumns + `,
		country = case when w.erased_at is null then c.country end, region = case when w.erased_at is null then c.region end,
		device = case when w.erased_at is null then c.device end, browser = case when w.erased_at is null then c.browser end,
		os = case when w.erased_at is null then c.os end, paid_platform = case when w.erased_at is null then c.paid_platform end
	from unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) as e (workspace_id, id, clicked_at)
	join workspaces w on w.id = e.workspace_id
	where c.workspace_id = e.workspace_id and c.mode in ('test', 'live') and c.id = e.id and c.clicked_at = e.clicked_at`

// participantKey identifies a participant.
type participantKey struct{ workspace, participant uuid.UUID }

// queueErased queues a search for erased participants. The search must run after the insert of
// the clicks, so that an erasure that commits later finds these clicks in its second pass.
func queueErased(batch *pgx.Batch, clicks []click.Click, erased map[participantKey]bool) {
	seen := make(map[participantKey]struct{})
	var workspaces, participants []pgtype.UUID
	for n := range clicks {
		key := participantKey{clicks[n].Workspace.UUID, clicks[n].Participant.UUID}
		if _, ok := seen[key]; ok {
			continue
		}
		seen[key] = struct{}{}
		workspaces, participants = append(workspaces, pgUUID(key.workspace)), append(participants, pgUUID(key.participant))
	}
	batch.Queue(selectErased, workspaces, participants).Query(func(rows pgx.Rows) error {
		var key participantKey
		_, err := pgx.ForEachRow(rows, []any{&key.workspace, &key.participant}, func() error {
			erased[key] = true
			return nil
		})
		return err
	})
}

// eraseClicks removes the personal data of the clicks of erased participants.
func eraseClicks(ctx context.Context, tx *postgres.Tx, clicks []click.Click, erased map[participantKey]bool) error {
	if len(erased) == 0 {
		return nil
	}
	var keys struct {
		workspaces, ids []pgtype.UUID
		times           []pgtype.Timestamptz
	}
	for n := range clicks {
		c := &clicks[n]
		if erased[participantKey{c.Workspace.UUID, c.Participant.UUID}] {
			keys.workspaces, keys.ids = append(keys.workspaces, pgUUID(c.Workspace.UUID)), append(keys.ids, pgUUID(c.ID.UUID))
			keys.times = append(keys.times, pgtype.Timestamptz{Time: c.ClickedAt, Valid: true})
		}
	}
	return postgres.Exec(ctx, tx, eraseStoredClicks, keys.workspaces, keys.ids, keys.times)
}

// logConversionsOfClicks makes the analytics count all conversions of clicks again.
const logConversionsOfClicks = `
	insert into analytics_log (workspace_id, mode, conversions)
	select workspace_id, mode, array_agg(id) from conversions
	where workspace_id = $1 and mode = $2 and click_id = any($3)
	group by workspace_id, mode`

// EraseOfBuyers removes the data of the visitors from clicks whose buyers were erased, and
// removes the values of these clicks from the sums of the analytics. An id can occur several
// times, because a customer can buy several times after one click.
func EraseOfBuyers(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, ids ...affiliate.ClickID) error {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(a, b affiliate.ClickID) int { return bytes.Compare(a.UUID[:], b.UUID[:]) })
	ids = slices.Compact(ids)
	clicks, err := countedClicks(ctx, tx, scope, ids)
	if err != nil || len(clicks) == 0 {
		return err
	}
	batch, log := &pgx.Batch{}, &analytics.ClickLog{}
	for i := range clicks {
		c := &clicks[i]
		clickedAt, _ := c.ID.Time()
		batch.Queue(eraseClickOfBuyer, pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "click": c.ID, "clicked_at": clickedAt})
		log.Remove(c)
		log.Add(&click.Click{Program: c.Program, Participant: c.Participant, Link: c.Link, ReceivedAt: c.ReceivedAt, IsBot: c.IsBot, Unique: c.Unique})
	}
	postgres.QueueClickLogs(batch, map[affiliate.Scope]*analytics.ClickLog{scope: log})
	batch.Queue(logConversionsOfClicks, scope.Workspace, scope.Mode, ids)
	return postgres.Send(ctx, tx, batch)
}

// lockCounted locks a click and returns the columns that the analytics have counted.
const lockCounted = `
	select ` + postgres.CountedClickColumns + ` from clicks
	where workspace_id = $1 and mode = $2 and id = $3 and clicked_at = $4 for no key update`

func countedClicks(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, ids []affiliate.ClickID) (clicks []click.Click, err error) {
	batch := &pgx.Batch{}
	for _, id := range ids {
		clickedAt, _ := id.Time()
		batch.Queue(lockCounted, scope.Workspace, scope.Mode, id, clickedAt).Query(func(rows pgx.Rows) error {
			found, err := pgx.CollectRows(rows, postgres.CountedClick)
			clicks = append(clicks, found...)
			return err
		})
	}
	err = tx.SendBatch(ctx, batch).Close()
	return clicks, err
}
