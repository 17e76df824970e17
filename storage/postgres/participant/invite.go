package participant

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// newInviteRow is an invitation with the digests of its tokens.
type newInviteRow struct {
	participant.Invite
	Digest     []byte
	MailDigest []byte
}

var (
	inviteColumns = postgres.Columns[participant.Invite]("i")
	insertInvite  = postgres.RowsOf[newInviteRow](`
		insert into participant_invites ({columns}) values {rows}
		on conflict (workspace_id, program_id, email) where ended_at is null do nothing`)
	updateInvite = postgres.RowsOf[participant.Invite](`
		update participant_invites i
		set {changes}
		from (values {typed rows}) as t ({columns})
		where i.workspace_id = t.workspace_id and i.mode = t.mode and i.id = t.id`)
	selectInvite = `
		select ` + inviteColumns + `
		from participant_invites i
		where i.workspace_id = $1 and i.mode = $2 and i.id = $3`
	lockInvite     = selectInvite + ` for no key update`
	lockOpenInvite = `
		select ` + inviteColumns + `
		from participant_invites i
		where i.workspace_id = $1 and i.mode = $2 and i.program_id = $3 and i.email = $4 and i.ended_at is null
		for no key update`
	inviteByToken = `
		select ` + inviteColumns + `
		from participant_invites i
		where (i.digest = $1 or i.mail_digest = $1) and i.mode in ('test', 'live')`
	// A partner's call contains no workspace; the token determines it.
	lockInviteByToken = `
		select ` + inviteColumns + `
		from participant_invites i
		where (i.digest = $1 or i.mail_digest = $1) and i.mode = $2
		for no key update`
)

// Invite returns an invitation, also if it has ended. Errors: NOT_FOUND.
func Invite(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.InviteID) (participant.Invite, error) {
	return postgres.OneRow[participant.Invite](tx.Query(ctx, selectInvite, scope.Workspace, scope.Mode, id))
}

// LockInvite locks an invitation and returns it, also if it has ended. Errors: NOT_FOUND.
func LockInvite(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.InviteID) (participant.Invite, error) {
	return postgres.OneRow[participant.Invite](tx.Query(ctx, lockInvite, scope.Workspace, scope.Mode, id))
}

// InviteByToken returns the invitation, of either mode, with a token that has the given digest. The
// token determines the workspace. Errors: NOT_FOUND.
func InviteByToken(ctx context.Context, db *postgres.DB, digest [sha256.Size]byte) (participant.Invite, error) {
	return postgres.OneRow[participant.Invite](db.Query(ctx, inviteByToken, digest[:]))
}

// LockInviteByToken does the same as LockInvite for the invitation with a token that has the
// given digest. Errors: NOT_FOUND.
func LockInviteByToken(ctx context.Context, tx *postgres.Tx, digest [sha256.Size]byte, mode affiliate.Mode) (participant.Invite, error) {
	return postgres.OneRow[participant.Invite](tx.Query(ctx, lockInviteByToken, digest[:], mode))
}

// LockOpenInvite locks the open invitation of an e-mail address to a programme. An open invitation was not
// accepted, revoked or replaced, but may have expired. found is false if the address has none. Before that,
// LockOpenInvite locks the address until the transaction ends, so that two concurrent calls do not both send
// a mail to the address.
func LockOpenInvite(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, email string,
) (invite participant.Invite, found bool, err error) {
	const lockAddress = `select pg_advisory_xact_lock(hashtextextended('participant_invite:' || $1::uuid || ':' || $2, 0))`
	if _, err := tx.Exec(ctx, lockAddress, program, email); err != nil {
		return invite, false, err
	}
	invite, err = postgres.OneRow[participant.Invite](tx.Query(ctx, lockOpenInvite, scope.Workspace, scope.Mode, program, email))
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return invite, false, nil
	}
	return invite, err == nil, err
}

// UpdateInvite stores an invitation that the transaction has locked.
func UpdateInvite(ctx context.Context, tx *postgres.Tx, i participant.Invite) error {
	_, err := updateInvite.Exec(ctx, tx, i)
	return err
}

// EndInvites ends the open invitation of an e-mail address to a programme. It returns the id
// of this invitation, or nil if the address had no open invitation.
func EndInvites(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, email string, at time.Time,
) (*affiliate.InviteID, error) {
	const end = `
		update participant_invites
		set ended_at = $5
		where workspace_id = $1 and mode = $2 and program_id = $3 and email = $4 and ended_at is null
		returning id`
	var ended affiliate.InviteID
	err := tx.QueryRow(ctx, end, scope.Workspace, scope.Mode, program, email, at).Scan(&ended)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &ended, err
}

// ReplaceInvite ends the open invitation of the same address to the programme and stores the new invitation
// with the digests of its tokens. It returns the id of the ended invitation, or nil if there was none.
func ReplaceInvite(ctx context.Context, tx *postgres.Tx, i participant.Invite, digests account.InviteDigests) (replaced *affiliate.InviteID, err error) {
	for {
		earlier, err := EndInvites(ctx, tx, i.Scope, i.Program, i.Email, i.CreatedAt)
		if err != nil {
			return nil, err
		}
		if earlier != nil {
			replaced = earlier
		}
		// If another transaction has inserted an invitation to the address after the update,
		// this statement inserts nothing. The loop then ends that invitation and inserts
		// again.
		inserted, err := insertInvite.Exec(ctx, tx, newInviteRow{i, digests.Shown[:], digests.Mailed[:]})
		if err != nil || inserted == 1 {
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

const openInvites = `
	from participant_invites i
	where i.workspace_id = @workspace and i.mode = @mode and i.program_id = @program
		and i.ended_at is null and i.expires_at > @at`

var (
	listInvites = `select ` + inviteColumns + `, ` + postgres.ActorName("i.invited_by::text", "i.workspace_id") + ` as invited_by_name` + openInvites + `
		order by i.created_at desc, i.id desc
		limit @limit offset @offset`
	countInvites = postgres.CountUpTo(affiliate.MaxTotal, openInvites)
)

// ListInvites returns one page of the invitations to a programme that can still be accepted,
// newest first, and the number of invitations on all pages, up to affiliate.MaxTotal.
func ListInvites(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, at time.Time, page affiliate.Page,
) ([]participant.ListedInvite, int64, error) {
	args := pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "program": program, "at": at, "limit": page.Size, "offset": page.Offset(),
	}
	var total int64
	if err := db.QueryRow(ctx, countInvites, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	invites, err := postgres.List[participant.ListedInvite](ctx, db, listInvites, args)
	return invites, total, err
}
