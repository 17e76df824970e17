// Package link has the SQL of links and of referral codes, which are the current and earlier codes of links.
package link

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

var (
	insertLink = postgres.RowsOf[link.Link](`
		insert into links ({columns}) values {rows}
		on conflict (short_key) do nothing`)
	updateLink = postgres.RowsOf[link.Link](`
		update links l set {changes}
		from (values {typed rows}) as t ({columns})
		where l.workspace_id = t.workspace_id and l.mode = t.mode and l.id = t.id`)
)

// Insert stores a new link with a random short key and a row for its totals, and
// increments the number of links. The link's code must already be reserved, in this or an
// earlier transaction.
func Insert(ctx context.Context, tx *postgres.Tx, l link.Link) (link.Link, error) {
	const totals = `insert into link_totals (workspace_id, link_id) values ($1, $2)`
	for inserted := int64(0); inserted == 0; {
		var err error
		l.ShortKey = link.NewShortKey()
		if inserted, err = insertLink.Exec(ctx, tx, l); err != nil {
			return l, err
		}
	}
	if _, err := tx.Exec(ctx, totals, l.Workspace, l.ID); err != nil {
		return l, err
	}
	return l, postgres.ChangeCounts(ctx, tx, l.Workspace, l.Program, postgres.CountChange{What: postgres.LinkCount, ID: l.ID.UUID, N: 1})
}

// Update stores the changes of a link whose participant is locked.
func Update(ctx context.Context, tx *postgres.Tx, l link.Link) error {
	_, err := updateLink.Exec(ctx, tx, l)
	return err
}

// Delete marks a link as deleted. The caller has locked its participant. The code of the link stays reserved.
func Delete(ctx context.Context, tx *postgres.Tx, l link.Link, at time.Time) error {
	l.DeletedAt, l.UpdatedAt, l.Version = &at, at, l.Version+1
	if err := Update(ctx, tx, l); err != nil {
		return err
	}
	return postgres.ChangeCounts(ctx, tx, l.Workspace, l.Program, postgres.CountChange{What: postgres.LinkCount, ID: l.ID.UUID, N: -1})
}

// Owner returns the participant of a link that is not deleted. A link never changes its participant. Errors: NOT_FOUND.
func Owner(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID,
) (affiliate.ParticipantID, error) {
	const query = `
		select participant_id from links
		where workspace_id = $1 and mode = $2 and program_id = $3 and id = $4 and deleted_at is null`
	type row struct{ ParticipantID affiliate.ParticipantID }
	found, err := postgres.OneRow[row](tx.Query(ctx, query, scope.Workspace, scope.Mode, program, id))
	return found.ParticipantID, err
}

// CountOfParticipant returns the number of links that a participant has besides its default
// link.
func CountOfParticipant(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, participant affiliate.ParticipantID) (int, error) {
	const count = `
		select count(*) from links
		where workspace_id = $1 and mode = $2 and participant_id = $3 and deleted_at is null and not is_default`
	return postgres.Value[int](ctx, tx, count, scope.Workspace, scope.Mode, participant)
}

// ReserveFirst reserves the first free code for a link and returns it. A code is not free if
// another link has it, or if an erased participant had it. The primary key of referral_codes
// makes sure that no two links have the same code. Errors: REFERRAL_CODE_TAKEN if no code is
// free.
func ReserveFirst(ctx context.Context, tx *postgres.Tx, l link.Link, codes iter.Seq[string]) (string, error) {
	const reserve = `
		insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		select @workspace, @mode, @code, @program, @participant, @link, @created_at
		where not exists (
			select from erased_values v
			where v.workspace_id = @workspace and v.mode = @mode and v.kind = @kind and v.digest = any(@digests))
		on conflict (workspace_id, mode, code) do nothing`
	for code := range codes {
		tag, err := tx.Exec(ctx, reserve, pgx.NamedArgs{
			"workspace": l.Workspace, "mode": l.Mode, "code": code, "program": l.Program, "participant": l.Participant,
			"link": l.ID, "created_at": l.CreatedAt,
			"kind": privacy.ErasedReferralCode, "digests": tx.ErasureKeys().Digests(l.Scope, privacy.ErasedReferralCode, code),
		})
		if err != nil || tag.RowsAffected() == 1 {
			return code, err
		}
	}
	return "", affiliate.Refuse(affiliate.ReasonReferralCodeTaken)
}

// ReserveCode reserves the requested code for the participant's default link and
// returns it. If no code is requested, it reserves the first free code that is derived
// from the partner's name.
func ReserveCode(ctx context.Context, tx *postgres.Tx, p participant.Participant, linkID affiliate.LinkID, requested string) (string, error) {
	if requested == "" {
		return reserveAndSetCode(ctx, tx, p, linkID, link.ReferralCodes(p.PartnerName))
	}
	return reserveAndSetCode(ctx, tx, p, linkID, slices.Values([]string{requested}))
}

// reserveAndSetCode reserves the first free code and makes it the participant's code. The
// previous code stays reserved and still leads to the default link. Errors:
// REFERRAL_CODE_TAKEN.
func reserveAndSetCode(ctx context.Context, tx *postgres.Tx, p participant.Participant, linkID affiliate.LinkID, codes iter.Seq[string]) (string, error) {
	const setCode = `update participants set referral_code = $4 where workspace_id = $1 and mode = $2 and id = $3`
	target := link.Link{ID: linkID, Scope: p.Scope, Program: p.Program, Participant: p.ID, CreatedAt: p.UpdatedAt}
	code, err := ReserveFirst(ctx, tx, target, codes)
	if err != nil {
		return "", err
	}
	_, err = tx.Exec(ctx, setCode, p.Workspace, p.Mode, p.ID, code)
	return code, err
}

var selectDefault = `
	select ` + columns + `
	from links l
	where l.workspace_id = $1 and l.mode = $2 and l.participant_id = $3 and l.is_default`

// ReplaceCode makes p.ReferralCode the code of a locked participant and of the
// participant's default link, and publishes an event. The code can be an earlier code of the
// link.
func ReplaceCode(ctx context.Context, tx *postgres.Tx, p participant.Participant, oldCode string) error {
	const setEarlierCode = `
		update participants t
		set referral_code = r.code
		from referral_codes r
		where t.workspace_id = $1 and t.mode = $2 and t.id = $3
			and r.workspace_id = $1 and r.mode = $2 and r.code = $4 and r.participant_id = t.id and r.link_id = $5`
	renamed, err := postgres.OneRow[link.Link](tx.Query(ctx, selectDefault, p.Workspace, p.Mode, p.ID))
	if err != nil {
		return err
	}
	_, err = reserveAndSetCode(ctx, tx, p, renamed.ID, slices.Values([]string{p.ReferralCode}))
	if taken := affiliate.Refuse(affiliate.ReasonReferralCodeTaken); errors.Is(err, taken) {
		var tag pgconn.CommandTag
		tag, err = tx.Exec(ctx, setEarlierCode, p.Workspace, p.Mode, p.ID, p.ReferralCode, renamed.ID)
		err = postgres.RefuseIfNone(tag, err, affiliate.ReasonReferralCodeTaken)
	}
	if err != nil {
		return err
	}
	renamed.Code, renamed.Version, renamed.UpdatedAt = p.ReferralCode, renamed.Version+1, p.UpdatedAt
	if err := Update(ctx, tx, renamed); err != nil {
		return err
	}
	oldValues := map[string]string{"code": oldCode}
	return tx.Publish(ctx, affiliate.NewEvent(p.Scope, affiliate.EventLinkUpdated, p.UpdatedAt, renamed.Object(), oldValues))
}
