package link

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// ReserveCode reserves the requested code for the participant's default link and
// returns it. If no code is requested, it reserves the first free code that is derived
// from the partner's name.
func ReserveCode(ctx context.Context, tx *postgres.Tx, p participant.Participant, linkID affiliate.LinkID, requested string) (string, error) {
	if requested != "" {
		return requested, reserveAndSetCode(ctx, tx, p, linkID, requested)
	}
	taken := affiliate.Refuse(affiliate.ReasonReferralCodeTaken)
	for code := range link.ReferralCodes(p.PartnerName) {
		if err := reserveAndSetCode(ctx, tx, p, linkID, code); !errors.Is(err, taken) {
			return code, err
		}
	}
	panic("postgres: affiliate.ReferralCodes must not end")
}

// reserveAndSetCode reserves a free code and makes it the participant's code. The
// previous code stays reserved and still leads to the default link. Errors:
// REFERRAL_CODE_TAKEN.
func reserveAndSetCode(ctx context.Context, tx *postgres.Tx, p participant.Participant, linkID affiliate.LinkID, code string) error {
	const setCode = `update participants set referral_code = $4 where workspace_id = $1 and mode = $2 and id = $3`
	target := link.Link{ID: linkID, Scope: p.Scope, Program: p.Program, Participant: p.ID, CreatedAt: p.UpdatedAt}
	reserved, err := insertReferralCode(ctx, tx, target, code)
	if err != nil {
		return err
	}
	if !reserved {
		return affiliate.Refuse(affiliate.ReasonReferralCodeTaken)
	}
	_, err = tx.Exec(ctx, setCode, p.Scope.Workspace, p.Scope.Mode, p.ID, code)
	return err
}

// SelectErasedValue selects the row of an erased code with one of the digests @digests.
const SelectErasedValue = `
	select from erased_values v
	where v.workspace_id = @workspace and v.mode = @mode and v.kind = @kind and v.digest = any(@digests)`

// insertReferralCode reserves a code for a link. It returns false if the code is not free:
// another link has the code, or an erased participant had it. The primary key of
// referral_codes makes sure that no two links have the same code.
func insertReferralCode(ctx context.Context, tx *postgres.Tx, l link.Link, code string) (reserved bool, err error) {
	const insert = `
		insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		select @workspace, @mode, @code, @program, @participant, @link, @created_at
		where not exists (` + SelectErasedValue + `)
		on conflict (workspace_id, mode, code) do nothing`
	tag, err := tx.Exec(ctx, insert, pgx.NamedArgs{
		"workspace": l.Scope.Workspace, "mode": l.Scope.Mode, "code": code, "program": l.Program, "participant": l.Participant,
		"link": l.ID, "created_at": l.CreatedAt,
		"kind": privacy.ErasedReferralCode, "digests": tx.ErasureKeys().Digests(l.Scope, privacy.ErasedReferralCode, code),
	})
	return tag.RowsAffected() != 0, err
}

// ReplaceCode makes p.ReferralCode the code of a locked participant and of the
// participant's default link. The code can be an earlier code of the link.
func ReplaceCode(ctx context.Context, tx *postgres.Tx, p participant.Participant, oldCode string) error {
	// There is no condition on the mode, because a participant has only one mode.
	const find = `select id from links where workspace_id = $1 and participant_id = $2 and is_default`
	const setEarlierCode = `
		update participants t
		set referral_code = r.code
		from referral_codes r
		where t.workspace_id = $1 and t.mode = $2 and t.id = $3
			and r.workspace_id = $1 and r.mode = $2 and r.code = $4 and r.participant_id = t.id and r.link_id = $5`
	var link affiliate.LinkID
	if err := tx.QueryRow(ctx, find, p.Scope.Workspace, p.ID).Scan(&link); err != nil {
		return err
	}
	err := reserveAndSetCode(ctx, tx, p, link, p.ReferralCode)
	if taken := affiliate.Refuse(affiliate.ReasonReferralCodeTaken); errors.Is(err, taken) {
		var tag pgconn.CommandTag
		tag, err = tx.Exec(ctx, setEarlierCode, p.Scope.Workspace, p.Scope.Mode, p.ID, p.ReferralCode, link)
		err = postgres.RefuseIfNone(tag, err, affiliate.ReasonReferralCodeTaken)
	}
	if err != nil {
		return err
	}
	return renameDefaultLink(ctx, tx, p, link, oldCode)
}

// renameDefaultLink sets the code of the participant's default link to p.ReferralCode
// and publishes an event.
func renameDefaultLink(ctx context.Context, tx *postgres.Tx, p participant.Participant, linkID affiliate.LinkID, oldCode string) error {
	const rename = `
		update links l
		set code = $4, version = l.version + 1, updated_at = $5
		where l.workspace_id = $1 and l.mode = $2 and l.id = $3
		returning l.id, l.code, l.destination_url as destination, coalesce(l.sub_id, '') as sub_id,
			coalesce(l.utm_source, '') as source, coalesce(l.utm_medium, '') as medium, coalesce(l.utm_campaign, '') as campaign,
			coalesce(l.utm_term, '') as term, coalesce(l.utm_content, '') as content, l.is_default, l.version`
	type renamedRow struct {
		ID          affiliate.LinkID
		Code        string
		Destination *string
		SubID       string
		click.UTM
		IsDefault bool
		Version   int
	}
	row, err := postgres.OneRow[renamedRow](tx.Query(ctx, rename, p.Scope.Workspace, p.Scope.Mode, linkID, p.ReferralCode, p.UpdatedAt))
	if err != nil {
		return err
	}
	renamed := link.Link{
		ID: row.ID, Scope: p.Scope, Program: p.Program, Participant: p.ID, Code: row.Code, Destination: row.Destination,
		SubID: row.SubID, UTM: row.UTM, IsDefault: row.IsDefault, Version: row.Version,
	}
	oldValues := map[string]string{"code": oldCode}
	return tx.Publish(ctx, affiliate.NewEvent(p.Scope, affiliate.EventLinkUpdated, p.UpdatedAt, renamed.Object(), oldValues))
}
