package participant

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
	links "github.com/tributary-hq/tributary/storage/postgres/link"
)

// Update changes the fields that the patch contains. If nothing changes, it
// writes no audit record. It publishes an event only if the referral code changes; the
// event is about the default link. Errors: NOT_FOUND, PARTICIPANT_ERASED,
// VALIDATION_ERROR for a group that does not belong to the programme,
// REFERRAL_CODE_TAKEN, EXTERNAL_ID_TAKEN.
func Update(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, programID affiliate.ProgramID, id affiliate.ParticipantID,
	patch participant.Patch, at time.Time, by affiliate.Actor,
) (participant.Participant, error) {
	// The patch is applied to the stored participant, so the row stays locked from the
	// read to the write.
	const read = selectParticipantToLock + ` for no key update`
	const update = `
		update participants
		set group_id = @group, override_rate_bps = @override_bps, override_flat_amount_cents = @override_flat,
			tags = @tags, note = @note, external_id = @external_id, version = @version, updated_at = @updated_at
		where workspace_id = @workspace and mode = @mode and program_id = @program and id = @id`
	var after participant.Participant
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		args := participantArgs(scope, programID, id)
		row, err := postgres.OneRow[participantRow](tx.Query(ctx, read, args))
		if err != nil {
			return err
		}
		before := row.participant()
		if before.ErasedAt != nil {
			return affiliate.Refuse(affiliate.ReasonParticipantErased)
		}
		after = before.Patch(patch)
		oldValues, newValues, err := before.ChangeTo(after)
		if err != nil {
			return err
		}
		if oldValues != nil {
			after.Version, after.UpdatedAt = before.Version+1, at
			if err := lockGroup(ctx, tx, after.Scope, programID, patch.Group.Value); err != nil {
				return err
			}
			override := program.Rate{}
			if after.Override != nil {
				override = *after.Override
			}
			args["group"], args["tags"], args["note"], args["external_id"] = after.Group, after.Tags, after.Note, after.ExternalID
			args["override_bps"], args["override_flat"] = override.Bps, override.FlatCents
			args["version"], args["updated_at"] = after.Version, at
			if _, err := tx.Exec(ctx, update, args); err != nil {
				return postgres.Refusal(err)
			}
			if err := participantUpdated(ctx, tx, before, after, by, oldValues, newValues); err != nil {
				return err
			}
		}
		after, err = readParticipant(ctx, tx, scope, programID, id)
		return err
	})
	return after, err
}

// participantUpdated stores everything that follows from an update of a participant.
// Only a change of the referral code affects the edge directory and causes an event.
func participantUpdated(ctx context.Context, tx *postgres.Tx, before, after participant.Participant, by affiliate.Actor, oldValues, newValues any) error {
	if after.ReferralCode == before.ReferralCode {
		return tx.Audit(ctx, participantAudit(after, "participant.update", after.UpdatedAt, by, oldValues, newValues))
	}
	if err := links.ReplaceCode(ctx, tx, after, before.ReferralCode); err != nil {
		return err
	}
	return participantChanged(ctx, tx, after, "participant.update", after.UpdatedAt, by, oldValues, newValues)
}

// lockGroup checks that the group belongs to the programme, and prevents its deletion
// until the transaction ends. It does nothing if group is nil. The statement needs no
// condition on the mode, because the programme has only one mode.
func lockGroup(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, programID affiliate.ProgramID, group *affiliate.GroupID) error {
	const lock = `
		select true from groups where workspace_id = $1 and program_id = $2 and id = $3
		for key share`
	if group == nil {
		return nil
	}
	var found bool
	err := tx.QueryRow(ctx, lock, scope.Workspace, programID, *group).Scan(&found)
	if errors.Is(err, pgx.ErrNoRows) {
		return program.GroupNotInProgram()
	}
	return err
}
