package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
)

// The partner's name and address live in the account; an erased account has
// neither left in it.
const (
	participantColumns = `
		t.id, t.workspace_id, t.mode, t.program_id, t.partner_id, u.name as partner_name, u.email as partner_email,
		t.status, t.referral_code, t.application_answers, t.terms_accepted_at, t.applied_at, t.approved_at,
		t.rejected_at, t.rejection_reason, t.suspended_at, t.suspension_reason, t.erased_at, t.version, t.created_at, t.updated_at`
	fromParticipants = `
		from participants t join users u on u.id = t.partner_id`
	selectParticipant = `select ` + participantColumns + fromParticipants + `
		where t.workspace_id = $1 and t.mode = $2 and t.program_id = $3 and t.id = $4`
)

type participantRow struct {
	ID                 affiliate.ParticipantID     `db:"id"`
	WorkspaceID        affiliate.WorkspaceID       `db:"workspace_id"`
	Mode               affiliate.Mode              `db:"mode"`
	ProgramID          affiliate.ProgramID         `db:"program_id"`
	PartnerID          affiliate.UserID            `db:"partner_id"`
	PartnerName        string                      `db:"partner_name"`
	PartnerEmail       string                      `db:"partner_email"`
	Status             affiliate.ParticipantStatus `db:"status"`
	ReferralCode       string                      `db:"referral_code"`
	ApplicationAnswers map[string]string           `db:"application_answers"`
	TermsAcceptedAt    *time.Time                  `db:"terms_accepted_at"`
	AppliedAt          time.Time                   `db:"applied_at"`
	ApprovedAt         *time.Time                  `db:"approved_at"`
	RejectedAt         *time.Time                  `db:"rejected_at"`
	RejectionReason    *string                     `db:"rejection_reason"`
	SuspendedAt        *time.Time                  `db:"suspended_at"`
	SuspensionReason   *string                     `db:"suspension_reason"`
	ErasedAt           *time.Time                  `db:"erased_at"`
	Version            int                         `db:"version"`
	CreatedAt          time.Time                   `db:"created_at"`
	UpdatedAt          time.Time                   `db:"updated_at"`
}

func (r participantRow) participant() affiliate.Participant {
	return affiliate.Participant{
		ID:               r.ID,
		Scope:            affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode},
		Program:          r.ProgramID,
		Partner:          r.PartnerID,
		PartnerName:      r.PartnerName,
		PartnerEmail:     r.PartnerEmail,
		Status:           r.Status,
		ReferralCode:     r.ReferralCode,
		Answers:          r.ApplicationAnswers,
		TermsAcceptedAt:  optionalUTC(r.TermsAcceptedAt),
		AppliedAt:        r.AppliedAt.UTC(),
		ApprovedAt:       optionalUTC(r.ApprovedAt),
		RejectedAt:       optionalUTC(r.RejectedAt),
		RejectionReason:  r.RejectionReason,
		SuspendedAt:      optionalUTC(r.SuspendedAt),
		SuspensionReason: r.SuspensionReason,
		ErasedAt:         optionalUTC(r.ErasedAt),
		Version:          r.Version,
		CreatedAt:        r.CreatedAt.UTC(),
		UpdatedAt:        r.UpdatedAt.UTC(),
	}
}

func optionalUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	utc := t.UTC()
	return &utc
}

// Participant reads one participant. Errors: NOT_FOUND.
func (s *Store) Participant(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID) (affiliate.Participant, error) {
	return readParticipant(ctx, s.pool, scope, program, id)
}

func readParticipant(ctx context.Context, db queryer, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID) (affiliate.Participant, error) {
	row, err := oneRow[participantRow](db.Query(ctx, selectParticipant, scope.Workspace, scope.Mode, program, id))
	return row.participant(), err
}

// One statement per way of listing, so that each is planned with the index that
// has its order: a status of its own leads participants_by_status.
const (
	whereParticipants  = ` where t.workspace_id = @workspace and t.mode = @mode and t.program_id = @program`
	inStatus           = ` and t.status = @status`
	participantsNewest = `
		order by t.created_at desc, t.id desc
		limit @limit offset @offset`

	countParticipants         = `select count(*) from participants t` + whereParticipants
	countParticipantsInStatus = countParticipants + inStatus
	listParticipants          = `select ` + participantColumns + fromParticipants + whereParticipants + participantsNewest
	listParticipantsInStatus  = `select ` + participantColumns + fromParticipants + whereParticipants + inStatus + participantsNewest
)

// ListParticipants reads one page of a programme's participants, newest first,
// and counts all pages. An empty status is any. Errors: NOT_FOUND for the
// programme.
func (s *Store) ListParticipants(
	ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, status affiliate.ParticipantStatus, page affiliate.Page,
) ([]affiliate.Participant, int64, error) {
	if _, err := s.Program(ctx, scope, program); err != nil {
		return nil, 0, err
	}
	count, list := countParticipants, listParticipants
	args := pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "program": program, "limit": page.Size, "offset": page.Offset(),
	}
	if status != "" {
		count, list, args["status"] = countParticipantsInStatus, listParticipantsInStatus, status
	}
	var total int64
	if err := s.pool.QueryRow(ctx, count, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := s.pool.Query(ctx, list, args)
	if err != nil {
		return nil, 0, err
	}
	participants, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (affiliate.Participant, error) {
		r, err := pgx.RowToStructByName[participantRow](row)
		return r.participant(), err
	})
	return participants, total, err
}

// Apply makes a partner a participant, at once approved where the programme
// approves by itself. Of any number of applications of one partner, and of any
// number for one code, exactly one succeeds. Errors: NOT_FOUND, VALIDATION_ERROR
// for terms, APPLICATION_DUPLICATE, REFERRAL_CODE_TAKEN.
func (s *Store) Apply(ctx context.Context, a affiliate.Application, at time.Time, by affiliate.Actor) (affiliate.Participant, error) {
	var p affiliate.Participant
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		program, err := openProgram(ctx, tx, a)
		if err != nil {
			return err
		}
		p = affiliate.Participant{
			ID: affiliate.NewID[affiliate.Participant](at), Scope: program.Scope, Program: a.Program, Partner: a.Partner,
			Status: affiliate.ParticipantPending, Answers: a.Answers, AppliedAt: at, Version: 1, CreatedAt: at, UpdatedAt: at,
		}
		if p.Answers == nil {
			p.Answers = map[string]string{}
		}
		if program.TermsURL != nil && !a.AcceptTerms {
			return affiliate.Invalid("accept_terms", "has to be true: the programme has terms")
		}
		if a.AcceptTerms {
			p.TermsAcceptedAt = &at
		}
		if program.AutoApprovePartners {
			p.Status, p.ApprovedAt = affiliate.ParticipantApproved, &at
		}
		if p.PartnerName, p.PartnerEmail, err = partnerAccount(ctx, tx, a.Partner); err != nil {
			return err
		}
		if err := insertParticipant(ctx, tx, p); err != nil {
			return err
		}
		if p.ReferralCode, err = takeCode(ctx, tx, p, a.ReferralCode); err != nil {
			return err
		}
		events := []affiliate.Event{affiliate.NewEvent(p.Scope, affiliate.EventParticipantApplied, at, p.Object(), nil)}
		if p.Status == affiliate.ParticipantApproved {
			events = append(events, affiliate.NewEvent(p.Scope, affiliate.EventParticipantApproved, at, p.Object(), nil))
		}
		return s.participantChanged(ctx, tx, p, "participant.apply", at, by, nil, p.Object(), events...)
	})
	return p, err
}

// openProgram is the programme that takes the application. A partner's call has
// no workspace: the programme, found by its id and mode alone, says whose
// partner the caller is about to become. The row stays locked, so that no
// participant comes in behind a pause.
func openProgram(ctx context.Context, tx pgx.Tx, a affiliate.Application) (affiliate.Program, error) {
	const open = `
		select ` + programColumns + `
		from programs p
		where p.id = $1 and p.mode = $2 and p.status = 'active' and p.is_public
		for share`
	row, err := oneRow[programRow](tx.Query(ctx, open, a.Program, a.Mode))
	return row.program(), err
}

func partnerAccount(ctx context.Context, tx pgx.Tx, id affiliate.UserID) (name, email string, err error) {
	const account = `select name, email from users where id = $1 and kind = 'partner' and erased_at is null`
	err = tx.QueryRow(ctx, account, id).Scan(&name, &email)
	if errors.Is(err, pgx.ErrNoRows) {
		err = affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return name, email, err
}

// insertParticipant waits for an application of the same partner that has not
// been decided, and refuses this one when that one holds. The code comes after.
func insertParticipant(ctx context.Context, tx pgx.Tx, p affiliate.Participant) error {
	const insert = `
		insert into participants (workspace_id, id, program_id, mode, partner_id, status, referral_code,
			application_answers, terms_accepted_at, applied_at, approved_at, version, created_at, updated_at)
		values (@workspace, @id, @program, @mode, @partner, @status, '', @answers, @terms_accepted_at, @applied_at,
			@approved_at, @version, @created_at, @updated_at)
		on conflict (workspace_id, program_id, partner_id) do nothing`
	tag, err := tx.Exec(ctx, insert, pgx.NamedArgs{
		"workspace": p.Scope.Workspace, "id": p.ID, "program": p.Program, "mode": p.Scope.Mode, "partner": p.Partner,
		"status": p.Status, "answers": p.Answers, "terms_accepted_at": p.TermsAcceptedAt, "applied_at": p.AppliedAt,
		"approved_at": p.ApprovedAt, "version": p.Version, "created_at": p.CreatedAt, "updated_at": p.UpdatedAt,
	})
	return unlessNone(tag, err, affiliate.ReasonApplicationDuplicate)
}

// takeCode gives the participant the code it wants, or the first free one of
// those that are made for it.
func takeCode(ctx context.Context, tx pgx.Tx, p affiliate.Participant, wanted string) (string, error) {
	if wanted != "" {
		return wanted, useCode(ctx, tx, p, wanted)
	}
	taken := affiliate.Refuse(affiliate.ReasonReferralCodeTaken)
	for code := range affiliate.ReferralCodes(p.PartnerName) {
		if err := useCode(ctx, tx, p, code); !errors.Is(err, taken) {
			return code, err
		}
	}
	panic("postgres: the referral codes of a name never end")
}

func useCode(ctx context.Context, tx pgx.Tx, p affiliate.Participant, code string) error {
	const (
		take = `
			insert into referral_codes (workspace_id, mode, code, program_id, participant_id, created_at)
			values ($1, $2, $3, $4, $5, $6)
			on conflict (workspace_id, mode, code) do nothing`
		use = `update participants set referral_code = $4 where workspace_id = $1 and mode = $2 and id = $3`
	)
	tag, err := tx.Exec(ctx, take, p.Scope.Workspace, p.Scope.Mode, code, p.Program, p.ID, p.CreatedAt)
	if err := unlessNone(tag, err, affiliate.ReasonReferralCodeTaken); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, use, p.Scope.Workspace, p.Scope.Mode, p.ID, code)
	return err
}

// unlessNone refuses when a statement that ran touched no row.
func unlessNone(tag pgconn.CommandTag, err error, reason affiliate.Reason) error {
	if err == nil && tag.RowsAffected() == 0 {
		return affiliate.Refuse(reason)
	}
	return err
}

// MoveParticipant approves, rejects, suspends or reinstates; reason may be nil.
// What an earlier move said is dropped when its status ends: the record tells
// how things are, the audit log how they came to be. Errors: NOT_FOUND,
// PARTICIPANT_ERASED, PARTICIPANT_STATE_INVALID.
func (s *Store) MoveParticipant(
	ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID,
	move affiliate.ParticipantMove, reason *string, at time.Time, by affiliate.Actor,
) (affiliate.Participant, error) {
	// One statement, judged as in MoveProgram.
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
			for no key update
		) was, users u
		where t.workspace_id = @workspace and t.mode = @mode and t.id = was.id and u.id = t.partner_id
			and was.status = any(@from) and t.erased_at is null
		returning was.status as previous_status, ` + participantColumns
	type movedRow struct {
		participantRow
		Previous affiliate.ParticipantStatus `db:"previous_status"`
	}
	var after affiliate.Participant
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
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
		if move == affiliate.SuspendParticipant {
			if err := flagPending(ctx, tx, after, at); err != nil {
				return err
			}
		}
		was := map[string]affiliate.ParticipantStatus{"status": row.Previous}
		is := map[string]any{"status": after.Status, "reason": after.Object().Reason}
		event := affiliate.NewEvent(scope, move.Event(), at, after.Object(), was)
		return s.participantChanged(ctx, tx, after, "participant."+string(move), at, by, was, is, event)
	})
	return after, err
}

// refuseParticipantMove says why a move found nothing to change.
func refuseParticipantMove(ctx context.Context, tx pgx.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID) error {
	p, err := readParticipant(ctx, tx, scope, program, id)
	if err != nil {
		return err
	}
	if p.ErasedAt != nil {
		return affiliate.Refuse(affiliate.ReasonParticipantErased)
	}
	refused := affiliate.Refuse(affiliate.ReasonParticipantState)
	refused.Metadata = map[string]string{"status": string(p.Status)}
	return refused
}

// flagPending keeps what a suspended participant has waiting from being approved
// without a person. A conversion decided at the same moment may miss the flag;
// automatic approval asks for the participant's status as well.
func flagPending(ctx context.Context, tx pgx.Tx, p affiliate.Participant, at time.Time) error {
	const flag = `
		update commissions
		set needs_review = true, review_reasons = array_append(review_reasons, $4), version = version + 1, updated_at = $5
		where workspace_id = $1 and mode = $2 and participant_id = $3 and status = 'pending'
			and $4 <> all (review_reasons)`
	_, err := tx.Exec(ctx, flag, p.Scope.Workspace, p.Scope.Mode, p.ID, affiliate.ReviewParticipantSuspended, at)
	return err
}

// participantChanged writes what follows from a change: the audit log's line,
// the events, and the job that takes it to the edge.
func (s *Store) participantChanged(
	ctx context.Context, tx pgx.Tx, p affiliate.Participant, action string, at time.Time, by affiliate.Actor,
	was, is any, events ...affiliate.Event,
) error {
	err := record(ctx, tx, audit{
		Workspace: p.Scope.Workspace, Mode: &p.Scope.Mode, Actor: by, At: at,
		Action: action, ResourceType: "participant", ResourceID: p.ID, Before: was, After: is,
	})
	if err != nil {
		return err
	}
	if err := s.publish(ctx, tx, events...); err != nil {
		return err
	}
	return s.enqueue(ctx, tx, affiliate.SyncDirectory{Workspace: p.Scope.Workspace, Participant: &p.ID})
}
