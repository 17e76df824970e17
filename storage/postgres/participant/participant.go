// Package participant has the SQL of participants, of their invitations, and of the review of
// their commissions when they are suspended.
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
	promocodes "github.com/tributary-hq/tributary/storage/postgres/promocode"
)

// participantColumns are the fields of participantRow, selected from participants t.
// partner_name and partner_email are copies from the partner's account. A change of the
// account updates them, unless the partner's consent is missing (participant.PartnerConsent).
const participantColumns = `
	t.id, t.workspace_id, t.mode, t.program_id, t.partner_id, t.partner_name, t.partner_email,
	t.status, t.referral_code, t.group_id, t.override_rate_bps, t.override_flat_amount_cents, t.tags, t.note,
	t.application_answers, t.terms_accepted_at, t.applied_at, t.approved_at, t.rejected_at, t.rejection_reason,
	t.suspended_at, t.suspension_reason, t.erased_at, t.version, t.created_at, t.updated_at,
	t.external_id, coalesce(t.partner_consent, '') as partner_consent`

type participantRow struct {
	ID                 affiliate.ParticipantID    `db:"id"`
	WorkspaceID        affiliate.WorkspaceID      `db:"workspace_id"`
	Mode               affiliate.Mode             `db:"mode"`
	ProgramID          affiliate.ProgramID        `db:"program_id"`
	PartnerID          affiliate.UserID           `db:"partner_id"`
	PartnerName        string                     `db:"partner_name"`
	PartnerEmail       string                     `db:"partner_email"`
	Status             participant.Status         `db:"status"`
	ReferralCode       string                     `db:"referral_code"`
	GroupID            *affiliate.GroupID         `db:"group_id"`
	OverrideRateBps    *int64                     `db:"override_rate_bps"`
	OverrideFlatCents  *int64                     `db:"override_flat_amount_cents"`
	Tags               []string                   `db:"tags"`
	Note               *string                    `db:"note"`
	ApplicationAnswers map[string]string          `db:"application_answers"`
	TermsAcceptedAt    *time.Time                 `db:"terms_accepted_at"`
	AppliedAt          time.Time                  `db:"applied_at"`
	ApprovedAt         *time.Time                 `db:"approved_at"`
	RejectedAt         *time.Time                 `db:"rejected_at"`
	RejectionReason    *string                    `db:"rejection_reason"`
	SuspendedAt        *time.Time                 `db:"suspended_at"`
	SuspensionReason   *string                    `db:"suspension_reason"`
	ErasedAt           *time.Time                 `db:"erased_at"`
	Version            int                        `db:"version"`
	CreatedAt          time.Time                  `db:"created_at"`
	UpdatedAt          time.Time                  `db:"updated_at"`
	ExternalID         *string                    `db:"external_id"`
	PartnerConsent     participant.PartnerConsent `db:"partner_consent"`
}

func (r participantRow) participant() participant.Participant {
	p := participant.Participant{
		ID:               r.ID,
		Scope:            affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode},
		Program:          r.ProgramID,
		Partner:          r.PartnerID,
		PartnerName:      r.PartnerName,
		PartnerEmail:     r.PartnerEmail,
		Status:           r.Status,
		ReferralCode:     r.ReferralCode,
		Group:            r.GroupID,
		Tags:             r.Tags,
		Note:             r.Note,
		Answers:          r.ApplicationAnswers,
		TermsAcceptedAt:  r.TermsAcceptedAt,
		AppliedAt:        r.AppliedAt,
		ApprovedAt:       r.ApprovedAt,
		RejectedAt:       r.RejectedAt,
		RejectionReason:  r.RejectionReason,
		SuspendedAt:      r.SuspendedAt,
		SuspensionReason: r.SuspensionReason,
		ErasedAt:         r.ErasedAt,
		Version:          r.Version,
		CreatedAt:        r.CreatedAt,
		UpdatedAt:        r.UpdatedAt,
		ExternalID:       r.ExternalID,
		Consent:          r.PartnerConsent,
	}
	if r.OverrideRateBps != nil || r.OverrideFlatCents != nil {
		p.Override = &program.Rate{Bps: r.OverrideRateBps, FlatCents: r.OverrideFlatCents}
	}
	return p
}

const selectParticipant = `
	select t.* from participants t
	where t.workspace_id = @workspace and t.mode = @mode and t.program_id = @program and t.id = @id`

// Get returns one participant with its stats. Errors: NOT_FOUND.
func Get(ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID) (participant.Participant, error) {
	return readParticipant(ctx, db, scope, program, id)
}

func readParticipant(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID) (participant.Participant, error) {
	row, err := postgres.OneRow[participantStatsRow](db.Query(ctx, withStats(selectParticipant), participantArgs(scope, program, id)))
	return row.participant(), err
}

func participantArgs(scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID) pgx.NamedArgs {
	return pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "program": program, "id": id}
}

// Move approves, rejects, suspends or reinstates a participant. A participant
// without the partner's consent is not approved. reason may be nil. When a participant is no
// longer rejected or suspended, the time and the reason of the rejection or suspension are
// cleared; the audit log keeps them. Errors: NOT_FOUND, PARTICIPANT_ERASED,
// PARTICIPANT_STATE_INVALID. The metadata of the last two errors contains the current
// status.
func Move(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID,
	move participant.Move, reason *string, at time.Time, by affiliate.Actor,
) (participant.Participant, error) {
	// A separate statement locks the row first. If the update itself waited for the lock,
	// it would find that the row has changed, and would have to wait again behind all
	// other waiting transactions.
	const lock = `
		select from participants
		where workspace_id = @workspace and mode = @mode and program_id = @program and id = @id
		for no key update`
	const update = `
		update participants t
		set status = @to,
			approved_at = case when @move = 'approve' then @at else t.approved_at end,
			rejected_at = case when @move = 'reject' then @at::timestamptz end,
			rejection_reason = case when @move = 'reject' then @reason::text end,
			suspended_at = case when @move = 'suspend' then @at::timestamptz end,
			suspension_reason = case when @move = 'suspend' then @reason::text end,
			version = t.version + 1, updated_at = @at
		from (
			select id, status from participants
			where workspace_id = @workspace and mode = @mode and program_id = @program and id = @id
		) was
		where t.workspace_id = @workspace and t.mode = @mode and t.id = was.id and was.status = any(@from)
			and t.erased_at is null and (@move <> 'approve' or t.partner_consent is null)
		returning was.status as previous_status, ` + participantColumns
	type movedRow struct {
		participantRow
		Previous participant.Status `db:"previous_status"`
	}
	var after participant.Participant
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		if _, err := tx.Exec(ctx, lock, participantArgs(scope, program, id)); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, update, pgx.NamedArgs{
			"workspace": scope.Workspace, "mode": scope.Mode, "program": program, "id": id,
			"move": move, "to": move.To(), "from": move.From(), "reason": reason, "at": at,
		})
		if err != nil {
			return err
		}
		row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[movedRow])
		if errors.Is(err, pgx.ErrNoRows) {
			return refuseParticipantMove(ctx, tx, scope, program, id)
		}
		if err != nil {
			return err
		}
		after = row.participant()
		if move == participant.SuspendParticipant {
			if err := deactivateSyncedCodes(ctx, tx, after, at, by); err != nil {
				return err
			}
		}
		oldValues := map[string]participant.Status{"status": row.Previous}
		newValues := map[string]any{"status": after.Status, "reason": after.Object().Reason}
		event := after.Event(move.Event(), at, oldValues)
		if err := participantChanged(ctx, tx, after, "participant."+string(move), at, by, oldValues, newValues, event); err != nil {
			return err
		}
		if err := postgres.ChangeCounts(ctx, tx, scope.Workspace, program,
			postgres.CountChange{What: postgres.ParticipantCount + string(row.Previous), ID: id.UUID, N: -1},
			postgres.CountChange{What: postgres.ParticipantCount + string(after.Status), ID: id.UUID, N: 1},
		); err != nil {
			return err
		}
		if err := reviewPending(ctx, tx, after, move, at, by); err != nil {
			return err
		}
		after, err = readParticipant(ctx, tx, scope, program, id)
		return err
	})
	return after, err
}

// refuseParticipantMove returns the reason why a move has changed no row.
func refuseParticipantMove(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID) error {
	p, err := readParticipant(ctx, tx, scope, program, id)
	if err != nil {
		return err
	}
	return p.RefuseMove()
}

// deactivateSyncedCodes deactivates those promo codes of a suspended participant that also
// exist, or will exist, at the payment processor. This is necessary because the processor
// does not check the participant's status.
func deactivateSyncedCodes(ctx context.Context, tx *postgres.Tx, p participant.Participant, at time.Time, by affiliate.Actor) error {
	codes, err := promocodes.DeactivateSynced(ctx, tx, p.Scope, p.ID, at)
	if err != nil {
		return err
	}
	oldValues, newValues := map[string]bool{"active": true}, map[string]bool{"active": false}
	events, jobs := make([]affiliate.Event, len(codes)), make([]affiliate.Job, len(codes))
	for i, code := range codes {
		err := tx.Audit(ctx, affiliate.AuditLine{
			Workspace: p.Scope.Workspace, Mode: &p.Scope.Mode, Actor: by, At: at,
			Action: "promo_code.deactivate", ResourceType: "promo_code", ResourceID: code.ID, Before: oldValues, After: newValues,
		})
		if err != nil {
			return err
		}
		events[i] = affiliate.NewEvent(p.Scope, affiliate.EventPromoCodeDeactivated, at, code.Object(), oldValues)
		jobs[i] = code.SyncJob()
	}
	if err := tx.Enqueue(ctx, jobs...); err != nil {
		return err
	}
	return tx.Publish(ctx, events...)
}

// participantChanged stores everything that follows from a change of a participant: the
// audit record, the events, and the job that updates the edge directory.
func participantChanged(
	ctx context.Context, tx *postgres.Tx, p participant.Participant, action string, at time.Time, by affiliate.Actor,
	oldValues, newValues any, events ...affiliate.Event,
) error {
	if err := tx.Audit(ctx, participantAudit(p, action, at, by, oldValues, newValues)); err != nil {
		return err
	}
	if err := tx.Publish(ctx, events...); err != nil {
		return err
	}
	return tx.Enqueue(ctx, affiliate.SyncDirectory{Workspace: p.Scope.Workspace, Participant: &p.ID})
}

func participantAudit(p participant.Participant, action string, at time.Time, by affiliate.Actor, oldValues, newValues any) affiliate.AuditLine {
	return affiliate.AuditLine{
		Workspace: p.Scope.Workspace, Mode: &p.Scope.Mode, Actor: by, At: at,
		Action: action, ResourceType: "participant", ResourceID: p.ID, Before: oldValues, After: newValues,
	}
}
