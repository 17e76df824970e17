package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// insertLink stores a new link with its totals, draws its short key, and counts
// it. The code has to be taken beforehand, or be taken in the same transaction.
func insertLink(ctx context.Context, tx pgx.Tx, l affiliate.Link) (affiliate.Link, error) {
	const insert = `
		insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, destination_url, sub_id,
			utm_source, utm_medium, utm_campaign, utm_term, utm_content, is_default, version, created_at, updated_at)
		values (@workspace, @id, @program, @participant, @mode, @code, @key, @destination, nullif(@sub_id, ''),
			nullif(@source, ''), nullif(@medium, ''), nullif(@campaign, ''), nullif(@term, ''), nullif(@content, ''),
			@is_default, @version, @created_at, @updated_at)
		on conflict (short_key) do nothing`
	const totals = `insert into link_totals (workspace_id, link_id) values ($1, $2)`
	taken := affiliate.Refuse(affiliate.ReasonNotFound)
	for {
		l.ShortKey = affiliate.NewShortKey()
		tag, err := tx.Exec(ctx, insert, pgx.NamedArgs{
			"workspace": l.Scope.Workspace, "id": l.ID, "program": l.Program, "participant": l.Participant,
			"mode": l.Scope.Mode, "code": l.Code, "key": l.ShortKey, "destination": l.Destination, "sub_id": l.SubID,
			"source": l.UTM.Source, "medium": l.UTM.Medium, "campaign": l.UTM.Campaign, "term": l.UTM.Term, "content": l.UTM.Content,
			"is_default": l.IsDefault, "version": l.Version, "created_at": l.CreatedAt, "updated_at": l.UpdatedAt,
		})
		if err := unlessNone(tag, err, affiliate.ReasonNotFound); errors.Is(err, taken) {
			continue
		} else if err != nil {
			return l, err
		}
		if _, err := tx.Exec(ctx, totals, l.Scope.Workspace, l.ID); err != nil {
			return l, err
		}
		return l, changeCounts(ctx, tx, l.Scope.Workspace, l.Program, countChange{What: countOfLinks, ID: l.ID.UUID, N: 1})
	}
}
