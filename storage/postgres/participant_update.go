package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// UpdateParticipant changes what the patch names; a patch that changes nothing
// leaves no trace. No event tells of it, but for the default link's when the
// code changes. Errors: NOT_FOUND, PARTICIPANT_ERASED, VALIDATION_ERROR for a
// group that is not the programme's, REFERRAL_CODE_TAKEN.
func (s *Store) UpdateParticipant(
	ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID,
	patch affiliate.ParticipantPatch, at time.Time, by affiliate.Actor,
) (affiliate.Participant, error) {
	// A patch is relative to what is there, so the row is held from the reading to
	// the writing.
	const read = `
		select ` + participantColumns + `
		from participants t
		where t.workspace_id = @workspace and t.mode = @mode and t.program_id = @program and t.id = @id
		for no key update`
	const update = `
		update participants
		set group_id = @group, override_rate_bps = @override_bps, override_flat_amount_cents = @override_flat,
			tags = @tags, note = @note, version = @version, updated_at = @updated_at
		where workspace_id = @workspace and mode = @mode and program_id = @program and id = @id`
	var after affiliate.Participant
	err := s.InTx(ctx, func(tx *Tx) error {
		args := participantArgs(scope, program, id)
		row, err := OneRow[participantRow](tx.Query(ctx, read, args))
		if err != nil {
			return err
		}
		before := row.participant()
		if before.ErasedAt != nil {
			return affiliate.Refuse(affiliate.ReasonParticipantErased)
		}
		after = before.Patch(patch)
		was, is, err := before.ChangeTo(after)
		if err != nil {
			return err
		}
		if was != nil {
			after.Version, after.UpdatedAt = before.Version+1, at
			if err := holdGroup(ctx, tx, after.Scope, program, patch.Group.Value); err != nil {
				return err
			}
			override := affiliate.Rate{}
			if after.Override != nil {
				override = *after.Override
			}
			args["group"], args["tags"], args["note"] = after.Group, after.Tags, after.Note
			args["override_bps"], args["override_flat"] = override.Bps, override.FlatCents
			args["version"], args["updated_at"] = after.Version, at
			if _, err := tx.Exec(ctx, update, args); err != nil {
				return err
			}
			if err := s.participantUpdated(ctx, tx, before, after, by, was, is); err != nil {
				return err
			}
		}
		after, err = readParticipant(ctx, tx, scope, program, id)
		return err
	})
	return after, err
}

// participantUpdated writes what follows from an update. Only a code concerns
// the edge and the link's followers.
func (s *Store) participantUpdated(ctx context.Context, tx *Tx, before, after affiliate.Participant, by affiliate.Actor, was, is any) error {
	if after.ReferralCode == before.ReferralCode {
		return tx.Audit(ctx, participantAudit(after, "participant.update", after.UpdatedAt, by, was, is))
	}
	if err := s.replaceCode(ctx, tx, after, before.ReferralCode); err != nil {
		return err
	}
	return s.participantChanged(ctx, tx, after, "participant.update", after.UpdatedAt, by, was, is)
}

// holdGroup makes sure that a group, where one is given, is one of the
// programme's and stays: whoever is deleting it has finished or waits. The
// programme fixes the mode.
func holdGroup(ctx context.Context, tx *Tx, scope affiliate.Scope, program affiliate.ProgramID, group *affiliate.GroupID) error {
	const hold = `
		select true from groups where workspace_id = $1 and program_id = $2 and id = $3
		for key share`
	if group == nil {
		return nil
	}
	var there bool
	err := tx.QueryRow(ctx, hold, scope.Workspace, program, *group).Scan(&there)
	if errors.Is(err, pgx.ErrNoRows) {
		return affiliate.GroupNotInProgram()
	}
	return err
}
