package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// What the edge directory is made of. The statements of a rebuild read all
// workspaces and both modes, because the directory is one for all of them; those
// of a job name a workspace, and the programme or participant fixes the mode.

// DirectoryVersion takes the next number of a write to the edge directory. It
// has to be taken before what is written is read.
func (s *Store) DirectoryVersion(ctx context.Context) (int64, error) {
	var version int64
	err := s.pool.QueryRow(ctx, `select nextval('directory_version')`).Scan(&version)
	return version, err
}

const directoryKeyColumns = `k.workspace_id, k.id, k.mode, k.name, k.public_text, k.prefix, k.last4, k.created_at, k.expires_at, k.revoked_at`

type directoryKeyRow struct {
	WorkspaceID affiliate.WorkspaceID `db:"workspace_id"`
	ID          affiliate.APIKeyID    `db:"id"`
	Mode        affiliate.Mode        `db:"mode"`
	Name        string                `db:"name"`
	PublicText  string                `db:"public_text"`
	Prefix      string                `db:"prefix"`
	Last4       string                `db:"last4"`
	CreatedAt   time.Time             `db:"created_at"`
	ExpiresAt   *time.Time            `db:"expires_at"`
	RevokedAt   *time.Time            `db:"revoked_at"`
}

// WorkspacePublicKeys reads all public keys of a workspace, ended ones too.
func (s *Store) WorkspacePublicKeys(ctx context.Context, workspace affiliate.WorkspaceID) ([]affiliate.APIKey, error) {
	const query = `
		select ` + directoryKeyColumns + `
		from api_keys k
		where k.workspace_id = $1 and k.kind = 'public'
		order by k.id`
	return s.directoryKeys(ctx, query, workspace)
}

const publicKeysAfter = `
	select ` + directoryKeyColumns + `
	from api_keys k
	where (k.workspace_id, k.id) > ($1, $2) and k.kind = 'public'
	order by k.workspace_id, k.id
	limit $3`

// PublicKeysAfter reads the next public keys of the deployment, ended ones too;
// the zero key stands before the first.
func (s *Store) PublicKeysAfter(ctx context.Context, after affiliate.APIKey, limit int) ([]affiliate.APIKey, error) {
	return s.directoryKeys(ctx, publicKeysAfter, after.Scope.Workspace, after.ID, limit)
}

func (s *Store) directoryKeys(ctx context.Context, query string, args ...any) ([]affiliate.APIKey, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (affiliate.APIKey, error) {
		r, err := pgx.RowToStructByName[directoryKeyRow](row)
		return affiliate.APIKey{
			ID: r.ID, Scope: affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode}, Kind: affiliate.PublicKey,
			Name: r.Name, PublicText: r.PublicText, Prefix: r.Prefix, Last4: r.Last4,
			CreatedAt: r.CreatedAt.UTC(), ExpiresAt: optionalUTC(r.ExpiresAt), RevokedAt: optionalUTC(r.RevokedAt),
		}, err
	})
}

// The page of codes is cut out before it is joined with the programmes, so that
// no plan joins all that is left to sort it for one page.
const (
	selectReferralTargets = `
		select r.workspace_id, r.mode, r.code, r.program_id, r.participant_id, r.link_id,
			p.status = 'active' as active, p.attribution_window_days, p.attribution_model
		from (
			select workspace_id, mode, code, program_id, participant_id, link_id
			from referral_codes`
	ofTheirPrograms = `
		) r
		join programs p on p.workspace_id = r.workspace_id and p.id = r.program_id
		order by r.workspace_id, r.mode, r.code`
)

type referralTargetRow struct {
	WorkspaceID           affiliate.WorkspaceID      `db:"workspace_id"`
	Mode                  affiliate.Mode             `db:"mode"`
	Code                  string                     `db:"code"`
	ProgramID             affiliate.ProgramID        `db:"program_id"`
	ParticipantID         affiliate.ParticipantID    `db:"participant_id"`
	LinkID                *affiliate.LinkID          `db:"link_id"`
	Active                bool                       `db:"active"`
	AttributionWindowDays int                        `db:"attribution_window_days"`
	AttributionModel      affiliate.AttributionModel `db:"attribution_model"`
}

// ParticipantReferralTargets reads the codes of one participant, which are as
// few as its links.
func (s *Store) ParticipantReferralTargets(ctx context.Context, workspace affiliate.WorkspaceID, participant affiliate.ParticipantID) ([]affiliate.ReferralTarget, error) {
	const query = selectReferralTargets + `
			where workspace_id = $1 and participant_id = $2` + ofTheirPrograms
	return s.referralTargets(ctx, query, workspace, participant)
}

// The programme's mode lets the primary key give the order where one programme
// has most of a workspace's codes.
const programReferralTargets = selectReferralTargets + `
			where workspace_id = $1 and program_id = $2 and code > $3
				and mode = (select mode from programs where workspace_id = $1 and id = $2)
			order by code
			limit $4` + ofTheirPrograms

// ProgramReferralTargets reads the next codes of one programme; the empty code
// stands before the first.
func (s *Store) ProgramReferralTargets(ctx context.Context, workspace affiliate.WorkspaceID, program affiliate.ProgramID, after string, limit int) ([]affiliate.ReferralTarget, error) {
	return s.referralTargets(ctx, programReferralTargets, workspace, program, after, limit)
}

const referralTargetsAfter = selectReferralTargets + `
			where (workspace_id, mode, code) > ($1, $2, $3)
			order by workspace_id, mode, code
			limit $4` + ofTheirPrograms

// ReferralTargetsAfter reads the next codes of the deployment; the zero target
// stands before the first.
func (s *Store) ReferralTargetsAfter(ctx context.Context, after affiliate.ReferralTarget, limit int) ([]affiliate.ReferralTarget, error) {
	return s.referralTargets(ctx, referralTargetsAfter, after.Scope.Workspace, after.Scope.Mode, after.Code, limit)
}

func (s *Store) referralTargets(ctx context.Context, query string, args ...any) ([]affiliate.ReferralTarget, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (affiliate.ReferralTarget, error) {
		r, err := pgx.RowToStructByName[referralTargetRow](row)
		target := affiliate.ReferralTarget{
			Scope: affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode}, Code: r.Code,
			Program: r.ProgramID, Participant: r.ParticipantID,
			Active: r.Active, WindowDays: r.AttributionWindowDays, Model: r.AttributionModel,
		}
		if r.LinkID != nil {
			target.Link.ID = *r.LinkID
		}
		return target, err
	})
}
