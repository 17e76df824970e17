package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tributary-hq/tributary/affiliate/click"
)

// A click can arrive long after its participant was erased, because a collector has kept it
// in its journal. StoreClicks stores such a click without its personal data.

// selectErased searches the index of erased participants once for each participant.
const selectErased = `
	select c.workspace_id, c.participant_id
	from unnest($1::uuid[], $2::uuid[]) as c (workspace_id, participant_id)
	cross join lateral (
		select from participants t
		where t.workspace_id = c.workspace_id and t.id = c.participant_id and t.erased_at is not null
		limit 1
	) e`

// ClickPseudonym is the pseudonym of the participant of clicks c (privacy.Pseudonym). Clicks
// of a participant that was deleted with test data have a pseudonym of their own.
const ClickPseudonym = `'erased-' || right(coalesce((
	select t.partner_id from participants t where t.workspace_id = c.workspace_id and t.mode = c.mode and t.id = c.participant_id
), c.participant_id)::text, 8)`

// EraseClickColumns are the assignments of an update of clicks c that removes the personal data
// of the visitor and of the participant. The referral code becomes the pseudonym of the
// participant.
const EraseClickColumns = `referral_code = ` + ClickPseudonym + `, ` + EraseVisitColumns

// EraseVisitColumns are the same assignments without the referral code. It stays if only the
// visitor is erased.
const EraseVisitColumns = `
	landing_url = null, referrer_domain = null,
	utm_source = null, utm_medium = null, utm_campaign = null, utm_term = null, utm_content = null,
	sub_id = null, language = null, screen = null, ip_hash = null, ip_prefix = null, ua_hash = null`

// eraseClickOfBuyer is the statement that removes the data of the visitor of one click, whose
// sale has an erased buyer.
const eraseClickOfBuyer = `
	update clicks set ` + EraseVisitColumns + `,
		consent = 'unknown', bot_reason = null, occurred_at = null, country = null, region = null, device = null, browser = null,
		os = null, paid_platform = null
	where workspace_id = @workspace and mode = @mode and id = @click and clicked_at = @clicked_at`

// eraseStoredClicks is the statement that removes the personal data of clicks. If the workspace
// was erased, nothing about the visitors stays.
const eraseStoredClicks = `
	update clicks c set ` + EraseClickColumns + `,
		country = case when w.erased_at is null then c.country end, region = case when w.erased_at is null then c.region end,
		device = case when w.erased_at is null then c.device end, browser = case when w.erased_at is null then c.browser end,
		os = case when w.erased_at is null then c.os end, paid_platform = case when w.erased_at is null then c.paid_platform end
	from unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) as e (workspace_id, id, clicked_at)
	join workspaces w on w.id = e.workspace_id
	where c.workspace_id = e.workspace_id and c.mode in ('test', 'live') and c.id = e.id and c.clicked_at = e.clicked_at`

// participantKey identifies a participant.
type participantKey struct{ workspace, participant uuid.UUID }

// queueErased queues a statement that finds the erased participants of clicks. It must run
// after the clicks were inserted: an erasure that commits later finds these clicks in its
// second pass.
func queueErased(batch *pgx.Batch, clicks []click.Click, erased map[participantKey]bool) {
	seen := make(map[participantKey]struct{})
	var workspaces, participants []pgtype.UUID
	for n := range clicks {
		key := participantKey{clicks[n].Scope.Workspace.UUID, clicks[n].Participant.UUID}
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
func eraseClicks(ctx context.Context, tx *Tx, clicks []click.Click, erased map[participantKey]bool) error {
	if len(erased) == 0 {
		return nil
	}
	var keys struct {
		workspaces, ids []pgtype.UUID
		times           []pgtype.Timestamptz
	}
	for n := range clicks {
		c := &clicks[n]
		if erased[participantKey{c.Scope.Workspace.UUID, c.Participant.UUID}] {
			keys.workspaces, keys.ids = append(keys.workspaces, pgUUID(c.Scope.Workspace.UUID)), append(keys.ids, pgUUID(c.ID.UUID))
			keys.times = append(keys.times, pgtype.Timestamptz{Time: c.ClickedAt, Valid: true})
		}
	}
	_, err := tx.Exec(ctx, eraseStoredClicks, keys.workspaces, keys.ids, keys.times)
	return err
}
