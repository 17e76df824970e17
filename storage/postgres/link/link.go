// Package link has the SQL of links and of referral codes, which are the codes of default links.
package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/storage/postgres"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// Insert stores a new link with a random short key and a row for its totals, and
// increments the number of links. The link's code must already be reserved, in this or an
// earlier transaction.
func Insert(ctx context.Context, tx *postgres.Tx, l link.Link) (link.Link, error) {
	const insert = `
		insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, destination_url, sub_id,
			utm_source, utm_medium, utm_campaign, utm_term, utm_content, is_default, version, created_at, updated_at)
		values (@workspace, @id, @program, @participant, @mode, @code, @key, @destination, nullif(@sub_id, ''),
			nullif(@source, ''), nullif(@medium, ''), nullif(@campaign, ''), nullif(@term, ''), nullif(@content, ''),
			@is_default, @version, @created_at, @updated_at)
		on conflict (short_key) do nothing`
	const totals = `insert into link_totals (workspace_id, link_id) values ($1, $2)`
	for inserted := false; !inserted; {
		l.ShortKey = link.NewShortKey()
		tag, err := tx.Exec(ctx, insert, linkArgs(l))
		if err != nil {
			return l, fmt.Errorf("insert link: %w", err)
		}
		inserted = tag.RowsAffected() == 1
	}
	if _, err := tx.Exec(ctx, totals, l.Scope.Workspace, l.ID); err != nil {
		return l, fmt.Errorf("insert link totals: %w", err)
	}
	return l, postgres.ChangeCounts(ctx, tx, l.Scope.Workspace, l.Program, postgres.CountChange{What: postgres.LinkCount, ID: l.ID.UUID, N: 1})
}

func linkArgs(l link.Link) pgx.NamedArgs {
	return pgx.NamedArgs{
		"workspace": l.Scope.Workspace, "id": l.ID, "program": l.Program, "participant": l.Participant,
		"mode": l.Scope.Mode, "code": l.Code, "key": l.ShortKey, "destination": l.Destination, "sub_id": l.SubID,
		"source": l.UTM.Source, "medium": l.UTM.Medium, "campaign": l.UTM.Campaign, "term": l.UTM.Term, "content": l.UTM.Content,
		"is_default": l.IsDefault, "version": l.Version, "created_at": l.CreatedAt, "updated_at": l.UpdatedAt,
	}
}

// Create stores an additional link of a participant. If Code is empty, the code is
// derived from the participant's code. Errors: NOT_FOUND if the programme does not exist,
// VALIDATION_ERROR if the participant or the destination is not valid,
// PROGRAM_STATE_INVALID, PARTICIPANT_ERASED, LINK_LIMIT_EXCEEDED, REFERRAL_CODE_TAKEN.
func Create(ctx context.Context, db *postgres.DB, l link.Link, by affiliate.Actor) (link.Link, error) {
	var created link.Link
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		created = l
		created.Version, created.UpdatedAt = 1, l.CreatedAt
		program, err := programs.LockOpen(ctx, tx, l.Scope, l.Program)
		if err != nil {
			return err
		}
		if err := l.CheckDestination(program.LinkHosts()); err != nil {
			return err
		}
		participantCode, err := LockNewOwner(ctx, tx, l.Scope, l.Program, l.Participant, by)
		if err != nil {
			return err
		}
		if err := checkLinkLimit(ctx, tx, l.Scope, l.Participant); err != nil {
			return err
		}
		if created.Code, err = reserveLinkCode(ctx, tx, created, participantCode); err != nil {
			return err
		}
		if _, err := Insert(ctx, tx, created); err != nil {
			return err
		}
		if created, err = readLink(ctx, tx, l.Scope, l.Program, l.ID); err != nil {
			return err
		}
		event := affiliate.NewEvent(l.Scope, affiliate.EventLinkCreated, l.CreatedAt, created.Object(), nil)
		return linkChanged(ctx, tx, created, "link.create", l.CreatedAt, by, nil, created.Object(), event)
	})
	return created, err
}

// LockNewOwner locks the participant that will own a new link or promo code and returns
// the participant's referral code. Because of the lock, two requests at the same time
// cannot exceed the maximum number of links. Errors: VALIDATION_ERROR,
// PARTICIPANT_ERASED, PARTICIPANT_STATE_INVALID.
func LockNewOwner(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID, by affiliate.Actor,
) (code string, err error) {
	// FOR UPDATE would wait for transactions that store clicks and conversions, because
	// these take key share locks on the row.
	const lock = `
		select partner_id, coalesce(partner_consent, ''), referral_code, status, erased_at from participants
		where workspace_id = $1 and mode = $2 and program_id = $3 and id = $4
		for no key update`
	var p participant.Participant
	err = tx.QueryRow(ctx, lock, scope.Workspace, scope.Mode, program, id).Scan(&p.Partner, &p.Consent, &p.ReferralCode, &p.Status, &p.ErasedAt)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", participant.NotInProgram()
	case err != nil:
		return "", err
	}
	return p.ReferralCode, p.CheckNewCode(by)
}

// LockOwner locks the participant that owns a link or promo code before the link or
// promo code is changed. owner is an SQL expression that selects the participant's id.
// Because of this lock, changes of one participant's links and promo codes run one
// after another. Errors: NOT_FOUND, PARTICIPANT_ERASED.
func LockOwner(ctx context.Context, tx *postgres.Tx, owner string, args pgx.NamedArgs) error {
	lock := `
		select erased_at from participants
		where workspace_id = @workspace and mode = @mode and program_id = @program and id = (` + owner + `)
		for no key update`
	var erasedAt *time.Time
	err := tx.QueryRow(ctx, lock, args).Scan(&erasedAt)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return affiliate.Refuse(affiliate.ReasonNotFound)
	case err == nil && erasedAt != nil:
		return affiliate.Refuse(affiliate.ReasonParticipantErased)
	}
	return err
}

// checkLinkLimit checks that the participant has fewer than link.MaxLinks
// additional links.
func checkLinkLimit(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, participant affiliate.ParticipantID) error {
	const count = `
		select count(*) from links
		where workspace_id = $1 and mode = $2 and participant_id = $3 and deleted_at is null and not is_default`
	var n int
	if err := tx.QueryRow(ctx, count, scope.Workspace, scope.Mode, participant).Scan(&n); err != nil {
		return err
	}
	if n >= link.MaxLinks {
		return affiliate.Refuse(affiliate.ReasonLinkLimitExceeded)
	}
	return nil
}

// reserveLinkCode reserves the code of the link and returns it. If the link has no
// code, it reserves the first free code that is derived from the participant's code.
func reserveLinkCode(ctx context.Context, tx *postgres.Tx, l link.Link, participantCode string) (string, error) {
	if l.Code != "" {
		reserved, err := insertReferralCode(ctx, tx, l, l.Code)
		if err == nil && !reserved {
			err = affiliate.Refuse(affiliate.ReasonReferralCodeTaken)
		}
		return l.Code, err
	}
	for code := range link.Codes(participantCode) {
		if reserved, err := insertReferralCode(ctx, tx, l, code); err != nil || reserved {
			return code, err
		}
	}
	panic("postgres: affiliate.LinkCodes must not end")
}

const ownerOfLink = `
	select participant_id from links
	where workspace_id = @workspace and mode = @mode and program_id = @program and id = @id and deleted_at is null`

// Update changes the fields that the patch contains. If nothing changes, it writes no
// audit record and no event. Errors: NOT_FOUND, PARTICIPANT_ERASED,
// PROGRAM_STATE_INVALID, VALIDATION_ERROR if the destination is not valid.
func Update(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID, patch link.Patch, at time.Time, by affiliate.Actor,
) (link.Link, error) {
	const update = `
		update links
		set destination_url = @destination, sub_id = nullif(@sub_id, ''), utm_source = nullif(@source, ''),
			utm_medium = nullif(@medium, ''), utm_campaign = nullif(@campaign, ''), utm_term = nullif(@term, ''),
			utm_content = nullif(@content, ''), version = @version, updated_at = @updated_at
		where workspace_id = @workspace and mode = @mode and id = @id`
	var after link.Link
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		lockedProgram, err := programs.Lock(ctx, tx, scope, program)
		if err != nil {
			return err
		}
		if err := LockOwner(ctx, tx, ownerOfLink, linkKeyArgs(scope, program, id)); err != nil {
			return err
		}
		if err := lockedProgram.CheckNotArchived(); err != nil {
			return err
		}
		before, err := readLink(ctx, tx, scope, program, id)
		if err != nil {
			return err
		}
		if after, err = before.Patch(patch, lockedProgram.LinkHosts()); err != nil {
			return err
		}
		oldValues, newValues, err := affiliate.ChangedFields(before.Object(), after.Object())
		if err != nil || oldValues == nil {
			return err
		}
		after.Version, after.UpdatedAt = before.Version+1, at
		if _, err := tx.Exec(ctx, update, linkArgs(after)); err != nil {
			return err
		}
		event := affiliate.NewEvent(scope, affiliate.EventLinkUpdated, at, after.Object(), oldValues)
		return linkChanged(ctx, tx, after, "link.update", at, by, oldValues, newValues, event)
	})
	return after, err
}

// Delete marks a link as deleted. Its code stays reserved. Errors: NOT_FOUND,
// PARTICIPANT_ERASED, VALIDATION_ERROR for a default link.
func Delete(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID, at time.Time, by affiliate.Actor,
) error {
	const markDeleted = `
		update links set deleted_at = $4, version = version + 1, updated_at = $4
		where workspace_id = $1 and mode = $2 and id = $3 and deleted_at is null`
	return db.InTx(ctx, func(tx *postgres.Tx) error {
		if err := LockOwner(ctx, tx, ownerOfLink, linkKeyArgs(scope, program, id)); err != nil {
			return err
		}
		l, err := readLink(ctx, tx, scope, program, id)
		if err != nil {
			return err
		}
		if err := l.CheckDelete(); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, markDeleted, scope.Workspace, scope.Mode, id, at); err != nil {
			return err
		}
		change := postgres.CountChange{What: postgres.LinkCount, ID: id.UUID, N: -1}
		if err := postgres.ChangeCounts(ctx, tx, scope.Workspace, program, change); err != nil {
			return err
		}
		return linkChanged(ctx, tx, l, "link.delete", at, by, l.Object(), nil)
	})
}

// linkChanged stores everything that follows from a change of a link: the audit record,
// the events, and the job that updates the edge directory.
func linkChanged(
	ctx context.Context, tx *postgres.Tx, l link.Link, action string, at time.Time, by affiliate.Actor, oldValues, newValues any, events ...affiliate.Event,
) error {
	err := tx.Audit(ctx, affiliate.AuditLine{
		Workspace: l.Scope.Workspace, Mode: &l.Scope.Mode, Actor: by, At: at,
		Action: action, ResourceType: "link", ResourceID: l.ID, Before: oldValues, After: newValues,
	})
	if err != nil {
		return err
	}
	if err := tx.Publish(ctx, events...); err != nil {
		return err
	}
	return tx.Enqueue(ctx, affiliate.SyncDirectory{Workspace: l.Scope.Workspace, Participant: &l.Participant})
}
