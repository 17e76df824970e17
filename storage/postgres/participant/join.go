package participant

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
	links "github.com/tributary-hq/tributary/storage/postgres/link"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// Apply makes a partner a participant of a programme. The participant is approved
// immediately if the programme approves applications automatically. If a partner
// applies several times at the same time, or several partners request the same code,
// exactly one application succeeds. Errors: NOT_FOUND, VALIDATION_ERROR for the terms,
// APPLICATION_DUPLICATE, REFERRAL_CODE_TAKEN.
func Apply(ctx context.Context, db *postgres.DB, a participant.Application, at time.Time, by affiliate.Actor) (participant.Participant, error) {
	var p participant.Participant
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		name, email, err := partnerAccount(ctx, tx, a.Partner)
		if err != nil {
			return err
		}
		program, err := openProgram(ctx, tx, a, email, at)
		if err != nil {
			return err
		}
		if p, err = a.Join(program, at); err != nil {
			return err
		}
		p.PartnerName, p.PartnerEmail = name, email
		if p, err = join(ctx, tx, p, a.ReferralCode, "participant.apply", by, affiliate.EventParticipantApplied); err != nil {
			return err
		}
		// The partner no longer needs an invitation, and nobody else may use its token.
		_, err = tx.Exec(ctx, endInviteByEmail, p.Scope.Workspace, p.Scope.Mode, p.Program, email, at)
		return err
	})
	return p, err
}

// endInviteByEmail ends the open invitation of an email address to a programme.
const endInviteByEmail = `
	update participant_invites set ended_at = $5
	where workspace_id = $1 and mode = $2 and program_id = $3 and email = $4 and ended_at is null`

// AcceptInvite makes a partner an approved participant of the programme to
// which the invitation belongs. Any partner with the token can accept, even if the
// partner's email address is not the invited address. If several calls use the same
// token, exactly one succeeds. If a call is refused, the invitation stays open. If the
// merchant has made a participation for the partner, the call accepts this participation.
// Errors: NOT_FOUND, PARTICIPANT_STATE_INVALID if the merchant has withdrawn the
// participation, VALIDATION_ERROR for the terms, APPLICATION_DUPLICATE,
// REFERRAL_CODE_TAKEN.
func AcceptInvite(
	ctx context.Context, db *postgres.DB, digest [sha256.Size]byte, mode affiliate.Mode, partner affiliate.UserID, acceptTerms bool, at time.Time, by affiliate.Actor,
) (participant.Participant, error) {
	// A partner's call contains no workspace; the token determines it. A second call
	// with the same token waits for the lock on this row. When it gets the lock, it
	// finds no open invitation.
	const endInvite = `
		update participant_invites i
		set ended_at = $3
		where (i.digest = $1 or i.mail_digest = $1) and i.mode = $2 and i.ended_at is null and i.expires_at > $3
		returning ` + participantInviteColumns
	var p participant.Participant
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		row, err := postgres.OneRow[participantInviteRow](tx.Query(ctx, endInvite, digest[:], mode, at))
		if err != nil {
			return err
		}
		invite := row.invite()
		program, err := programs.LockActive(ctx, tx, invite.Scope, invite.Program)
		if err != nil {
			return err
		}
		if offered, found, err := lockOffered(ctx, tx, invite.Scope, invite.Program, partner); err != nil {
			return err
		} else if found {
			p, err = accept(ctx, tx, program, offered, acceptTerms, at, by)
			return err
		}
		if p, err = invite.Join(program, partner, acceptTerms, at); err != nil {
			return err
		}
		if p.PartnerName, p.PartnerEmail, err = partnerAccount(ctx, tx, partner); err != nil {
			return err
		}
		p, err = join(ctx, tx, p, invite.ReferralCode, "participant.accept_invite", by, affiliate.EventParticipantApplied)
		return err
	})
	return p, err
}

// openProgram returns the programme if it accepts the application. A partner's call
// contains no workspace, so the programme is found by its id and mode. A private
// programme accepts only partners that it has invited. The programme's row stays
// locked, so that no participant joins after the programme was paused.
func openProgram(ctx context.Context, tx *postgres.Tx, a participant.Application, email string, at time.Time) (program.Program, error) {
	open := `
		select ` + programs.Columns + `
		from programs p
		where p.id = $1 and p.mode = $2 and p.status = 'active' and (p.is_public or exists (
			select from participant_invites i
			where i.workspace_id = p.workspace_id and i.mode = p.mode and i.program_id = p.id and i.email = $3
				and i.ended_at is null and i.expires_at > $4
		))
		for share`
	return postgres.OneRow[program.Program](tx.Query(ctx, open, a.Program, a.Mode, email, at))
}

func partnerAccount(ctx context.Context, tx *postgres.Tx, id affiliate.UserID) (name, email string, err error) {
	const account = `select name, email from users where id = $1 and kind = 'partner' and erased_at is null for share`
	err = tx.QueryRow(ctx, account, id).Scan(&name, &email)
	if errors.Is(err, pgx.ErrNoRows) {
		err = affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return name, email, err
}

// join stores a new participant with the requested code, or with a code derived from
// the partner's name. It also creates the default link and the rows for totals, and
// updates the list counts. It publishes the given events, and participant.approved for an
// approved participant. A duplicate application and a taken code are detected before
// anything else is stored. The list counts are updated last, because other transactions
// wait for these rows.
func join(
	ctx context.Context, tx *postgres.Tx, p participant.Participant, requestedCode, action string, by affiliate.Actor, names ...affiliate.EventName,
) (participant.Participant, error) {
	if err := insertParticipant(ctx, tx, p); err != nil {
		return p, err
	}
	link := link.Link{
		ID: affiliate.NewID[affiliate.LinkID](p.CreatedAt), Scope: p.Scope, Program: p.Program, Participant: p.ID,
		IsDefault: true, Version: 1, CreatedAt: p.CreatedAt, UpdatedAt: p.CreatedAt,
	}
	var err error
	if p.ReferralCode, err = links.ReserveCode(ctx, tx, p, link.ID, requestedCode); err != nil {
		return p, err
	}
	if p.Status == participant.Approved {
		names = append(names, affiliate.EventParticipantApproved)
	}
	var events []affiliate.Event
	for _, name := range names {
		events = append(events, p.Event(name, p.CreatedAt, nil))
	}
	link.Code = p.ReferralCode
	events = append(events, affiliate.NewEvent(p.Scope, affiliate.EventLinkCreated, p.CreatedAt, link.Object(), nil))
	if err := participantChanged(ctx, tx, p, action, p.CreatedAt, by, nil, p.Joined(), events...); err != nil {
		return p, err
	}
	const totals = `insert into participant_totals (workspace_id, participant_id, program_id) values ($1, $2, $3)`
	if _, err := tx.Exec(ctx, totals, p.Scope.Workspace, p.ID, p.Program); err != nil {
		return p, fmt.Errorf("insert participant totals: %w", err)
	}
	if _, err := links.Insert(ctx, tx, link); err != nil {
		return p, err
	}
	return p, postgres.ChangeCounts(ctx, tx, p.Scope.Workspace, p.Program,
		postgres.CountChange{What: postgres.ParticipantCount + string(p.Status), ID: p.ID.UUID, N: 1})
}

// insertParticipant inserts the participant without a code; the caller adds the code
// later. If another transaction with an application of the same partner has not
// committed yet, insertParticipant waits for it. If the other transaction commits, this
// application is refused as a duplicate.
func insertParticipant(ctx context.Context, tx *postgres.Tx, p participant.Participant) error {
	const insert = `
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status,
			referral_code, group_id, tags, application_answers, terms_accepted_at, applied_at, approved_at, version,
			created_at, updated_at, external_id, partner_consent)
		values (@workspace, @id, @program, @mode, @partner, @partner_name, @partner_email, @status,
			'', @group, @tags, @answers, @terms_accepted_at, @applied_at, @approved_at, @version,
			@created_at, @updated_at, @external_id, nullif(@consent, ''))
		on conflict (workspace_id, program_id, partner_id) do nothing`
	tag, err := tx.Exec(ctx, insert, pgx.NamedArgs{
		"workspace": p.Scope.Workspace, "id": p.ID, "program": p.Program, "mode": p.Scope.Mode, "partner": p.Partner,
		"partner_name": p.PartnerName, "partner_email": p.PartnerEmail, "status": p.Status, "group": p.Group, "tags": p.Tags,
		"answers": p.Answers, "terms_accepted_at": p.TermsAcceptedAt, "applied_at": p.AppliedAt,
		"approved_at": p.ApprovedAt, "version": p.Version, "created_at": p.CreatedAt, "updated_at": p.UpdatedAt,
		"external_id": p.ExternalID, "consent": p.Consent,
	})
	return postgres.RefuseIfNone(tag, postgres.Refusal(err), affiliate.ReasonApplicationDuplicate)
}
