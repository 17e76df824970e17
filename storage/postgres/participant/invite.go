package participant

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

const participantInviteColumns = `
	i.id, i.workspace_id, i.program_id, i.mode, i.email, i.group_id, coalesce(i.referral_code, '') as referral_code,
	i.invited_by, i.created_at, i.expires_at`

type participantInviteRow struct {
	ID           affiliate.InviteID    `db:"id"`
	WorkspaceID  affiliate.WorkspaceID `db:"workspace_id"`
	ProgramID    affiliate.ProgramID   `db:"program_id"`
	Mode         affiliate.Mode        `db:"mode"`
	Email        string                `db:"email"`
	GroupID      *affiliate.GroupID    `db:"group_id"`
	ReferralCode string                `db:"referral_code"`
	InvitedBy    affiliate.UserID      `db:"invited_by"`
	CreatedAt    time.Time             `db:"created_at"`
	ExpiresAt    time.Time             `db:"expires_at"`
}

func (r participantInviteRow) invite() participant.Invite {
	return participant.Invite{
		Invite: account.Invite{
			ID: r.ID, Email: r.Email, InvitedBy: r.InvitedBy, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
		},
		Scope:        affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode},
		Program:      r.ProgramID,
		Group:        r.GroupID,
		ReferralCode: r.ReferralCode,
	}
}

// participantInviteDetails has the fields of an invitation that the audit log stores.
// The email address is missing: it is stored only in the row of the invitation, where
// an erasure can remove it.
type participantInviteDetails struct {
	Program      affiliate.ProgramID `json:"program_id"`
	Group        *affiliate.GroupID  `json:"group_id"`
	ReferralCode string              `json:"referral_code"`
	// Replaces is the earlier invitation to the same email address that the new
	// invitation has ended. It is nil if there was no earlier invitation.
	Replaces *affiliate.InviteID `json:"replaces,omitempty"`
}

func participantInviteAudit(i participant.Invite, action string, at time.Time, by affiliate.Actor, oldValues, newValues any) affiliate.AuditLine {
	return affiliate.AuditLine{
		Workspace: i.Scope.Workspace, Mode: &i.Scope.Mode, Actor: by, At: at,
		Action: action, ResourceType: "participant_invite", ResourceID: i.ID, Before: oldValues, After: newValues,
	}
}

// updateRecentInvite gives the open invitation to the same address the group and the code of
// i, if the invitation was mailed within account.InviteMailInterval. found is false if there
// is no such invitation.
func updateRecentInvite(ctx context.Context, tx *postgres.Tx, i participant.Invite) (recent participant.Invite, found bool, err error) {
	const update = `
		update participant_invites i
		set group_id = @group, referral_code = nullif(@code, '')
		where i.workspace_id = @workspace and i.mode = @mode and i.program_id = @program and i.email = @email
			and i.ended_at is null and i.created_at > @since
		returning ` + participantInviteColumns
	row, err := postgres.OneRow[participantInviteRow](tx.Query(ctx, update, pgx.NamedArgs{
		"workspace": i.Scope.Workspace, "mode": i.Scope.Mode, "program": i.Program, "email": i.Email,
		"group": i.Group, "code": i.ReferralCode, "since": i.CreatedAt.Add(-account.InviteMailInterval),
	}))
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return recent, false, nil
	}
	return row.invite(), err == nil, err
}

// Invite stores an invitation with the digests of its tokens, and returns it with its
// programme. It ends an earlier invitation to the same address. If the earlier invitation was
// mailed within account.InviteMailInterval, it stays with the new group and code, and is
// returned. Errors: NOT_FOUND,
// PROGRAM_STATE_INVALID for an archived programme, VALIDATION_ERROR for a group that does
// not belong to the programme, APPLICATION_DUPLICATE, REFERRAL_CODE_TAKEN.
func Invite(
	ctx context.Context, tx *postgres.Tx, i participant.Invite, digests account.InviteDigests, by affiliate.Actor,
) (stored participant.Invite, program program.Program, err error) {
	if program, err = checkInvite(ctx, tx, i); err != nil {
		return stored, program, err
	}
	// Two calls at the same time must not both mail the address.
	const lock = `select pg_advisory_xact_lock(hashtextextended('participant_invite:' || $1::uuid || ':' || $2, 0))`
	if _, err := tx.Exec(ctx, lock, i.Program, i.Email); err != nil {
		return stored, program, err
	}
	newValues := participantInviteDetails{Program: i.Program, Group: i.Group, ReferralCode: i.ReferralCode}
	stored, found, err := updateRecentInvite(ctx, tx, i)
	if err != nil {
		return stored, program, err
	}
	if found {
		return stored, program, tx.Audit(ctx, participantInviteAudit(stored, "participant_invite.update", i.CreatedAt, by, nil, newValues))
	}
	if newValues.Replaces, err = insertParticipantInvite(ctx, tx, i, digests); err != nil {
		return stored, program, err
	}
	return i, program, tx.Audit(ctx, participantInviteAudit(i, "participant_invite.create", i.CreatedAt, by, nil, newValues))
}

// GetInvite returns an invitation, also if it has ended. Errors: NOT_FOUND.
func GetInvite(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.InviteID) (participant.Invite, error) {
	const read = `select ` + participantInviteColumns + ` from participant_invites i where i.workspace_id = $1 and i.mode = $2 and i.id = $3`
	row, err := postgres.OneRow[participantInviteRow](tx.Query(ctx, read, scope.Workspace, scope.Mode, id))
	return row.invite(), err
}

// insertParticipantInvite stores an invitation with the digests of its tokens, after it has
// ended an earlier invitation to the same address, whose id it returns.
func insertParticipantInvite(ctx context.Context, tx *postgres.Tx, i participant.Invite, digests account.InviteDigests) (replaced *affiliate.InviteID, err error) {
	const (
		end = `
			update participant_invites
			set ended_at = $5
			where workspace_id = $1 and mode = $2 and program_id = $3 and email = $4 and ended_at is null
			returning id`
		insert = `
			insert into participant_invites (workspace_id, id, program_id, mode, email, group_id, referral_code, digest,
				mail_digest, invited_by, created_at, expires_at)
			values (@workspace, @id, @program, @mode, @email, @group, nullif(@code, ''), @digest, @mail_digest, @by, @created_at, @expires_at)
			on conflict (workspace_id, program_id, email) where ended_at is null do nothing`
	)
	for {
		var earlier affiliate.InviteID
		err := tx.QueryRow(ctx, end, i.Scope.Workspace, i.Scope.Mode, i.Program, i.Email, i.CreatedAt).Scan(&earlier)
		switch {
		case err == nil:
			replaced = &earlier
		case !errors.Is(err, pgx.ErrNoRows):
			return nil, err
		}
		// If another transaction has inserted an invitation to the address after the update,
		// this statement inserts nothing. The loop then ends the other invitation and tries
		// again.
		tag, err := tx.Exec(ctx, insert, pgx.NamedArgs{
			"workspace": i.Scope.Workspace, "id": i.ID, "program": i.Program, "mode": i.Scope.Mode, "email": i.Email,
			"group": i.Group, "code": i.ReferralCode, "digest": digests.Shown[:], "mail_digest": digests.Mailed[:], "by": i.InvitedBy,
			"created_at": i.CreatedAt, "expires_at": i.ExpiresAt,
		})
		if err != nil || tag.RowsAffected() == 1 {
			return replaced, err
		}
	}
}

// NamesForMail returns the names of a workspace and of a user. The latter is empty if the
// account was erased.
func NamesForMail(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, user affiliate.UserID) (workspaceName, userName string, err error) {
	const names = `
		select w.name, coalesce(u.name, '')
		from workspaces w left join users u on u.id = $2 and u.erased_at is null
		where w.id = $1`
	err = tx.QueryRow(ctx, names, workspace, user).Scan(&workspaceName, &userName)
	return workspaceName, userName, err
}

// checkInvite refuses an invitation that could not be accepted. It locks the programme,
// so that no invitation is stored after the programme was archived, and returns it.
func checkInvite(ctx context.Context, tx *postgres.Tx, i participant.Invite) (program.Program, error) {
	const (
		takesPart = `
			select exists (
				select from participants t
				where t.workspace_id = $1 and t.mode = $2 and t.program_id = $3 and lower(t.partner_email) = $4
			)`
		codeTaken = `select exists (select from referral_codes where workspace_id = $1 and mode = $2 and code = $3)`
	)
	program, err := programs.LockOpen(ctx, tx, i.Scope, i.Program)
	if err != nil {
		return program, err
	}
	if err := lockGroup(ctx, tx, i.Scope, i.Program, i.Group); err != nil {
		return program, err
	}
	var found bool
	if err := tx.QueryRow(ctx, takesPart, i.Scope.Workspace, i.Scope.Mode, i.Program, i.Email).Scan(&found); err != nil {
		return program, err
	}
	if found {
		return program, affiliate.Refuse(affiliate.ReasonApplicationDuplicate)
	}
	if i.ReferralCode == "" {
		return program, nil
	}
	if err := tx.QueryRow(ctx, codeTaken, i.Scope.Workspace, i.Scope.Mode, i.ReferralCode).Scan(&found); err != nil {
		return program, err
	}
	if found {
		return program, affiliate.Refuse(affiliate.ReasonReferralCodeTaken)
	}
	return program, nil
}

const (
	openParticipantInvites = `
		from participant_invites i
		where i.workspace_id = @workspace and i.mode = @mode and i.program_id = @program
			and i.ended_at is null and i.expires_at > @at`
	listParticipantInvites = `select ` + participantInviteColumns + openParticipantInvites + `
		order by i.created_at desc, i.id desc
		limit @limit offset @offset`
)

var countParticipantInvites = postgres.CountUpTo(affiliate.MaxTotal, openParticipantInvites)

// ListInvites returns one page of the invitations that can still be accepted,
// newest first, and the number of invitations on all pages, up to affiliate.MaxTotal.
// Errors: NOT_FOUND if the programme does not exist.
func ListInvites(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, at time.Time, page affiliate.Page,
) ([]participant.Invite, int64, error) {
	if _, err := programs.Get(ctx, db, scope, program); err != nil {
		return nil, 0, err
	}
	args := pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "program": program, "at": at, "limit": page.Size, "offset": page.Offset(),
	}
	var total int64
	if err := db.QueryRow(ctx, countParticipantInvites, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := db.Query(ctx, listParticipantInvites, args)
	invites, err := postgres.AllRows(rows, err, participantInviteRow.invite)
	return invites, total, err
}

// RevokeInvite ends an invitation that can still be accepted. Errors:
// NOT_FOUND.
func RevokeInvite(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.InviteID, at time.Time, by affiliate.Actor,
) error {
	const revoke = `
		update participant_invites i
		set ended_at = $5
		where i.workspace_id = $1 and i.mode = $2 and i.program_id = $3 and i.id = $4 and i.ended_at is null and i.expires_at > $5
		returning ` + participantInviteColumns
	return db.InTx(ctx, func(tx *postgres.Tx) error {
		row, err := postgres.OneRow[participantInviteRow](tx.Query(ctx, revoke, scope.Workspace, scope.Mode, program, id, at))
		if err != nil {
			return err
		}
		i := row.invite()
		oldValues := participantInviteDetails{Program: i.Program, Group: i.Group, ReferralCode: i.ReferralCode}
		return tx.Audit(ctx, participantInviteAudit(i, "participant_invite.revoke", at, by, oldValues, nil))
	})
}
