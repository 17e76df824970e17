package participant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// LockGroup prevents the deletion of a group of the programme until the transaction ends.
// It does nothing if group is nil. Errors: NOT_FOUND.
func LockGroup(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, programID affiliate.ProgramID, group *affiliate.GroupID) error {
	err := lockGroup(ctx, tx, scope, programID, group)
	if errors.Is(err, program.GroupNotInProgram()) {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return err
}

// Add stores a new participant with the requested code, or with a code derived
// from the partner's name. It ends an open invitation of the address to the programme.
// Errors: APPLICATION_DUPLICATE, EXTERNAL_ID_TAKEN, REFERRAL_CODE_TAKEN.
func Add(ctx context.Context, tx *postgres.Tx, p participant.Participant, requestedCode string, by affiliate.Actor) (participant.Participant, error) {
	const listed = `
		select exists (
			select from participants t
			where t.workspace_id = $1 and t.mode = $2 and t.program_id = $3 and lower(t.partner_email) = $4
		)`
	// A participation whose partner has since changed the address of the account still has
	// the given address until the partner accepts it. The address must not be used twice.
	var found bool
	if err := tx.QueryRow(ctx, listed, p.Scope.Workspace, p.Scope.Mode, p.Program, p.PartnerEmail).Scan(&found); err != nil {
		return p, fmt.Errorf("participants of an address: %w", err)
	}
	if found {
		return p, affiliate.Refuse(affiliate.ReasonApplicationDuplicate)
	}
	p, err := join(ctx, tx, p, requestedCode, "participant.create", by)
	if err != nil {
		return p, err
	}
	return p, endInvites(ctx, tx, p, p.CreatedAt)
}

func endInvites(ctx context.Context, tx *postgres.Tx, p participant.Participant, at time.Time) error {
	_, err := tx.Exec(ctx, endInviteByEmail, p.Scope.Workspace, p.Scope.Mode, p.Program, p.PartnerEmail, at)
	return err
}

// InsertInvite stores an invitation with the digests of its tokens. It ends an
// earlier invitation to the same address.
func InsertInvite(ctx context.Context, tx *postgres.Tx, i participant.Invite, digests account.InviteDigests) error {
	_, err := insertParticipantInvite(ctx, tx, i, digests)
	return err
}

// LockParticipation returns the participant of a partner in a programme and locks it.
// Errors: NOT_FOUND.
func LockParticipation(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, partner affiliate.UserID) (participant.Participant, error) {
	const lock = `
		select ` + participantColumns + `
		from participants t
		where t.workspace_id = $1 and t.mode = $2 and t.program_id = $3 and t.partner_id = $4
		for no key update`
	row, err := postgres.OneRow[participantRow](tx.Query(ctx, lock, scope.Workspace, scope.Mode, program, partner))
	return row.participant(), err
}

// lockOffered returns the participant that the merchant has made for a partner, and locks
// it. found is false if the partner has no participation, or one that needs no consent.
func lockOffered(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, partner affiliate.UserID,
) (p participant.Participant, found bool, err error) {
	p, err = LockParticipation(ctx, tx, scope, program, partner)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return p, false, nil
	}
	return p, err == nil && p.Consent != "", err
}

// SetConsent stores that a partner has accepted or declined a locked participant, with the
// event and the audit record of the change. It ends the invitation that was mailed. It
// returns the participant with its stats.
func SetConsent(
	ctx context.Context, tx *postgres.Tx, before, after participant.Participant, event affiliate.EventName, action string, by affiliate.Actor,
) (participant.Participant, error) {
	const update = `
		update participants
		set status = @status, partner_consent = nullif(@consent, ''), partner_name = @name, partner_email = @email,
			terms_accepted_at = @terms_accepted_at, applied_at = @applied_at, approved_at = @approved_at,
			rejected_at = @rejected_at, version = @version, updated_at = @at
		where workspace_id = @workspace and mode = @mode and program_id = @program and id = @id`
	args := participantArgs(after.Scope, after.Program, after.ID)
	for name, value := range map[string]any{
		"status": after.Status, "consent": after.Consent, "name": after.PartnerName, "email": after.PartnerEmail,
		"terms_accepted_at": after.TermsAcceptedAt, "applied_at": after.AppliedAt, "approved_at": after.ApprovedAt,
		"rejected_at": after.RejectedAt, "version": after.Version, "at": after.UpdatedAt,
	} {
		args[name] = value
	}
	if _, err := tx.Exec(ctx, update, args); err != nil {
		return after, fmt.Errorf("store the consent of a partner: %w", err)
	}
	oldValues, newValues := map[string]any{"status": before.Status}, map[string]any{"status": after.Status}
	if err := participantChanged(ctx, tx, after, action, after.UpdatedAt, by, oldValues, newValues,
		after.Event(event, after.UpdatedAt, oldValues)); err != nil {
		return after, err
	}
	if err := endInvites(ctx, tx, before, after.UpdatedAt); err != nil {
		return after, err
	}
	if err := postgres.ChangeCounts(ctx, tx, after.Scope.Workspace, after.Program,
		postgres.CountChange{What: postgres.ParticipantCount + string(before.Status), ID: after.ID.UUID, N: -1},
		postgres.CountChange{What: postgres.ParticipantCount + string(after.Status), ID: after.ID.UUID, N: 1},
	); err != nil {
		return after, err
	}
	return readParticipant(ctx, tx, after.Scope, after.Program, after.ID)
}

// accept accepts a participation that the merchant has made for the partner, by the token
// of its invitation. Errors: as participant.Participant.Accept.
func accept(
	ctx context.Context, tx *postgres.Tx, program program.Program, offered participant.Participant, acceptTerms bool, at time.Time, by affiliate.Actor,
) (participant.Participant, error) {
	name, email, err := partnerAccount(ctx, tx, offered.Partner)
	if err != nil {
		return offered, err
	}
	accepted, err := offered.Accept(program, account.User{Name: name, Email: email}, acceptTerms, at)
	if err != nil {
		return offered, err
	}
	return SetConsent(ctx, tx, offered, accepted, affiliate.EventParticipantApproved, "participant.accept_invite", by)
}
