package privacy

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// EraseParticipant replaces a locked participant's personal data that members, partners and
// receivers of webhooks can see. The partner's name stays on paid payouts if the workspace
// demands it (Workspace.RetainPayeeYears). The participant's links are deleted; a step
// replaces their codes after the edge directory has deleted these codes. EraseParticipant
// returns the texts that the steps search for.
func EraseParticipant(ctx context.Context, tx *postgres.Tx, p participant.Participant, at time.Time) (texts []string, err error) {
	const (
		keepName = `
			update payouts p set payee_name = @name
			from workspaces w
			where w.id = @workspace and p.workspace_id = w.id and p.mode = @mode and p.mode = 'live' and p.participant_id = @id
				and w.retain_payee_years > 0 and p.status = 'paid' and p.paid_at > @at::timestamptz - make_interval(years => w.retain_payee_years)`
		codes = `select code from referral_codes where workspace_id = @workspace and mode = @mode and participant_id = @id`
		erase = `
			update participants set
				partner_name = @pseudonym, partner_email = @pseudonym, referral_code = @pseudonym, application_answers = '{}', tags = '{}',
				note = null, external_id = null, rejection_reason = null, suspension_reason = null,
				proposal_id = null, proposed_method = null, proposed_account = null, proposed_account_hint = null, proposed_at = null,
				erased_at = @at, version = version + 1, updated_at = @at
			where workspace_id = @workspace and mode = @mode and id = @id`
		endInvites = `
			update participant_invites set email = @pseudonym, referral_code = null, ended_at = coalesce(ended_at, @at)
			where workspace_id = @workspace and mode = @mode and program_id = @program and email = @email`
		deleteLinks = `
			update links set deleted_at = @at, updated_at = @at, version = version + 1
			where workspace_id = @workspace and mode = @mode and participant_id = @id and deleted_at is null`
		eraseLinks = `
			update links set destination_url = case when is_default then null else @pseudonym end, sub_id = null,
				utm_source = null, utm_medium = null, utm_campaign = null, utm_term = null, utm_content = null
			where workspace_id = @workspace and mode = @mode and participant_id = @id`
		logErased = `insert into analytics_log (workspace_id, mode, erased) values (@workspace, @mode, @id)`
	)
	args := pgx.NamedArgs{
		"workspace": p.Workspace, "mode": p.Mode, "program": p.Program, "id": p.ID, "name": p.PartnerName, "email": p.PartnerEmail,
		"pseudonym": privacy.Pseudonym(p.Partner.UUID), "at": at,
	}
	if _, err := postgres.RedactEvents(ctx, tx, p.Scope, p.ID, privacy.Pseudonym(p.Partner.UUID)); err != nil {
		return nil, fmt.Errorf("redact events: %w", err)
	}
	rows, err := tx.Query(ctx, codes, args)
	if err != nil {
		return nil, err
	}
	if texts, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return nil, err
	}
	// The digests are stored before a step deletes the codes. So each transaction that
	// requests a code sees the code or its digest.
	if err := keepDigests(ctx, tx, p, privacy.ErasedReferralCode, texts); err != nil {
		return nil, err
	}
	for _, statement := range []string{keepName, erase, endInvites, eraseLinks, logErased} {
		if _, err := tx.Exec(ctx, statement, args); err != nil {
			return nil, err
		}
	}
	tag, err := tx.Exec(ctx, deleteLinks, args)
	if err != nil {
		return nil, err
	}
	if err := postgres.ChangeLinkCount(ctx, tx, p.Workspace, p.Program, p.ID.UUID, -tag.RowsAffected()); err != nil {
		return nil, err
	}
	promoCodes, err := erasePromoCodes(ctx, tx, p, args)
	if err != nil {
		return nil, err
	}
	texts = append(append(texts, promoCodes...), p.PartnerName, p.PartnerEmail)
	return texts, tx.Enqueue(ctx, affiliate.SyncDirectory{Workspace: p.Workspace, Participant: &p.ID})
}

// erasePromoCodes replaces the promo codes of a participant by texts that contain their ids, because promo codes
// are unique. No other participant can get the replaced codes. It returns these codes.
func erasePromoCodes(ctx context.Context, tx *postgres.Tx, p participant.Participant, args pgx.NamedArgs) (codes []string, err error) {
	const (
		read = `
			select id, code, sync_to_processor as sync from promo_codes
			where workspace_id = @workspace and mode = @mode and participant_id = @id`
		erase = `
			update promo_codes set code = 'erased-' || replace(id::text, '-', ''), active = false, version = version + 1, updated_at = @at
			where workspace_id = @workspace and mode = @mode and participant_id = @id`
	)
	type row struct {
		ID   affiliate.PromoCodeID
		Code string
		Sync bool
	}
	found, err := postgres.List[row](ctx, tx, read, args)
	if err != nil {
		return nil, err
	}
	var jobs []affiliate.Job
	for _, code := range found {
		codes = append(codes, code.Code)
		if code.Sync {
			jobs = append(jobs, promocode.SyncPromoCode{Workspace: p.Workspace, Mode: p.Mode, PromoCode: code.ID})
		}
	}
	if err := keepDigests(ctx, tx, p, privacy.ErasedPromoCode, codes); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, erase, args); err != nil {
		return nil, err
	}
	return codes, tx.Enqueue(ctx, jobs...)
}

// keepDigests stores the digests of erased codes of a participant.
func keepDigests(ctx context.Context, tx *postgres.Tx, p participant.Participant, kind privacy.ErasedKind, values []string) error {
	const insert = `
		insert into erased_values (workspace_id, mode, kind, digest, subject_id)
		select $1, $2, $3, digest, $5 from unnest($4::bytea[]) as d (digest)
		on conflict (workspace_id, mode, kind, digest) do nothing`
	digests := make([][]byte, len(values))
	for i, value := range values {
		digests[i] = tx.ErasureKeys().First().Digest(p.Scope, kind, value)
	}
	return postgres.Exec(ctx, tx, insert, p.Workspace, p.Mode, kind, digests, p.ID)
}

// directoryCodes returns a step that requests the deletion of the codes of erased participants
// from the edge directory. The next call of Advance replaces the texts of these codes. If the
// process crashes before that, the step requests the same codes again.
func directoryCodes() step {
	return step{name: "codes", request: func(ctx context.Context, tx *postgres.Tx, t target, _ uuid.UUID) (privacy.ErasurePage, error) {
		found, err := codesToDelete(ctx, tx, t, pageSize)
		return privacy.ErasurePage{Delete: found}, err
	}}
}

// codesToDelete returns at most limit codes that still have their texts and whose links are deleted. They are the
// codes of the participant of the target, or of all participants of its workspace.
func codesToDelete(ctx context.Context, tx *postgres.Tx, t target, limit int) ([]privacy.DirectoryCodes, error) {
	const query = `
		select r.mode, r.code, l.short_key
		from referral_codes r join links l on l.workspace_id = r.workspace_id and l.id = r.link_id
		where r.workspace_id = @workspace and r.mode in ('test', 'live') and l.deleted_at is not null
			and (@participant::uuid is null or r.participant_id = @participant)
		order by r.mode, r.code
		limit @limit`
	rows, err := tx.Query(ctx, query, postgres.PlanForArgs, pgx.NamedArgs{"workspace": t.Workspace, "participant": t.Participant, "limit": limit})
	if err != nil {
		return nil, err
	}
	var (
		found      []privacy.DirectoryCodes
		mode       affiliate.Mode
		code, link string
	)
	_, err = pgx.ForEachRow(rows, []any{&mode, &code, &link}, func() error {
		if len(found) == 0 || found[len(found)-1].Scope.Mode != mode {
			found = append(found, privacy.DirectoryCodes{Scope: affiliate.Scope{Workspace: t.Workspace, Mode: mode}})
		}
		last := &found[len(found)-1]
		last.Codes, last.Links = append(last.Codes, code), append(last.Links, link)
		return nil
	})
	return found, err
}

// replaceCodes deletes codes that the edge directory has deleted and replaces the texts of
// their links.
func replaceCodes(ctx context.Context, tx *postgres.Tx, codes privacy.DirectoryCodes) error {
	const replace = `
		with removed as (
			delete from referral_codes
			where workspace_id = $1 and mode = $2 and code = any($3)
			returning link_id
		)
		update links l set code = 'erased-' || right(t.partner_id::text, 8), short_key = 'erased-' || replace(l.id::text, '-', '')
		from participants t
		where l.workspace_id = $1 and l.mode = $2 and l.id in (select link_id from removed)
			and t.workspace_id = l.workspace_id and t.mode = l.mode and t.id = l.participant_id`
	return postgres.Exec(ctx, tx, replace, codes.Scope.Workspace, codes.Scope.Mode, codes.Codes)
}
