// Package directory has the statements that read what the edge needs: public keys and the targets
// of referral codes. The statements cover all workspaces.
package directory

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// These statements read the contents of the edge directory (package directory) from the
// database. All workspaces and both modes share one directory. When the whole directory
// is rebuilt, the statements therefore read all workspaces and both modes. A job that
// updates a part of the directory reads the public keys of one workspace, or the referral
// codes of one programme or participant. Its statements need no condition on the mode: the keys of both modes are
// read, and a programme or a participant has only one mode.

// Version returns the next version number for writes to the edge directory.
// The caller must get the number before it reads the data for the write. Otherwise
// older data could get a higher number than newer data.
func Version(ctx context.Context, db *postgres.DB) (int64, error) {
	return postgres.Value[int64](ctx, db, `select nextval('directory_version')`)
}

// These two parts of a statement enclose a subquery that selects a page of keys. Only the
// keys of the page are joined with their workspaces.
const (
	selectDirectoryKeys = `
		select k.workspace_id, k.id, k.mode, k.name, k.public_text, k.prefix, k.last4, k.created_at, k.expires_at, k.revoked_at,
			w.allowed_origins, w.origin_policy in ('enforce', 'enforce_strict') as enforce_origins, w.origin_policy = 'enforce_strict' as require_origin
		from (
			select workspace_id, id, mode, name, public_text, prefix, last4, created_at, expires_at, revoked_at
			from api_keys`
	joinWorkspaces = `
		) k
		join workspaces w on w.id = k.workspace_id
		order by k.workspace_id, k.id`
)

type directoryKeyRow struct {
	WorkspaceID    affiliate.WorkspaceID `db:"workspace_id"`
	ID             affiliate.APIKeyID    `db:"id"`
	Mode           affiliate.Mode        `db:"mode"`
	Name           string                `db:"name"`
	PublicText     string                `db:"public_text"`
	Prefix         string                `db:"prefix"`
	Last4          string                `db:"last4"`
	CreatedAt      time.Time             `db:"created_at"`
	ExpiresAt      *time.Time            `db:"expires_at"`
	RevokedAt      *time.Time            `db:"revoked_at"`
	AllowedOrigins []string              `db:"allowed_origins"`
	EnforceOrigins bool                  `db:"enforce_origins"`
	RequireOrigin  bool                  `db:"require_origin"`
}

// WorkspacePublicKeys returns all public keys of a workspace, including revoked and
// expired keys.
func WorkspacePublicKeys(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID) ([]account.PublicKeyTarget, error) {
	const query = selectDirectoryKeys + `
			where workspace_id = $1 and kind = 'public'` + joinWorkspaces
	return directoryKeys(ctx, db, query, workspace)
}

const publicKeysAfter = selectDirectoryKeys + `
			where (workspace_id, id) > ($1, $2) and kind = 'public'
			order by workspace_id, id
			limit $3` + joinWorkspaces

// PublicKeysAfter returns at most limit public keys of the deployment, including revoked
// and expired keys. The result is ordered by workspace and id and starts after the given
// key. If the given key is the zero value, the result starts with the first key.
func PublicKeysAfter(ctx context.Context, db *postgres.DB, after account.APIKey, limit int) ([]account.PublicKeyTarget, error) {
	return directoryKeys(ctx, db, publicKeysAfter, after.Workspace, after.ID, limit)
}

func directoryKeys(ctx context.Context, db *postgres.DB, query string, args ...any) ([]account.PublicKeyTarget, error) {
	rows, err := db.Query(ctx, query, args...)
	return postgres.AllRows(rows, err, func(r directoryKeyRow) account.PublicKeyTarget {
		return account.PublicKeyTarget{
			APIKey: account.APIKey{
				ID: r.ID, Scope: affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode}, Kind: account.PublicKey,
				Name: r.Name, PublicText: r.PublicText, Prefix: r.Prefix, Last4: r.Last4,
				CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, RevokedAt: r.RevokedAt,
			},
			AllowedOrigins: r.AllowedOrigins, EnforceOrigins: r.EnforceOrigins, RequireOrigin: r.RequireOrigin,
		}
	})
}

// The CTE named page selects a page of referral codes, and only these codes are joined with
// other tables. Without the CTE, Postgres could join and sort all referral codes after the
// start of the page. The CTE named offers reads, for each participant, the newest promo code
// that can still be used. It reads this promo code only once, even if the page has several
// referral codes of the participant.
var (
	utmColumns            = postgres.Columns[click.UTM]("l")
	selectReferralTargets = `
		with page as materialized (
			select workspace_id, mode, code, program_id, participant_id, link_id
			from referral_codes`
	joinLinks = `
		), offers as (
			select h.workspace_id, h.participant_id, d.code, d.discount_type, d.discount_value, d.currency, d.expires_at
			from (select distinct workspace_id, participant_id from page) h
			cross join lateral (
				select c.code, c.discount_type, c.discount_value, c.currency, c.expires_at
				from promo_codes c
				where c.workspace_id = h.workspace_id and c.participant_id = h.participant_id
					and c.active and (c.expires_at is null or c.expires_at >= $1)
					and (c.max_redemptions is null or c.redemptions < c.max_redemptions)
				order by c.created_at desc, c.id desc
				limit 1
			) d
		)
		select r.workspace_id, r.mode, r.code, r.program_id, r.participant_id,
			p.status = 'active' and l.deleted_at is null as active, a.erased_at is not null as erased, p.attribution_window_days, p.attribution_model,
			p.allowed_domains, p.website_url, p.landing_url, p.link_param, coalesce(p.landing_url, p.website_url, '') as page,
			r.link_id, l.short_key, l.code as link_code, l.destination_url, coalesce(l.sub_id, '') as sub_id, ` + utmColumns + `,
			o.code as promo_code, o.discount_type, o.discount_value, o.currency, o.expires_at
		from page r
		join programs p on p.workspace_id = r.workspace_id and p.id = r.program_id
		join participants a on a.workspace_id = r.workspace_id and a.id = r.participant_id
		join links l on l.workspace_id = r.workspace_id and l.id = r.link_id
		left join offers o on o.workspace_id = r.workspace_id and o.participant_id = r.participant_id
		order by r.workspace_id, r.mode, r.code`
)

type referralTargetRow struct {
	WorkspaceID           affiliate.WorkspaceID    `db:"workspace_id"`
	Mode                  affiliate.Mode           `db:"mode"`
	Code                  string                   `db:"code"`
	ProgramID             affiliate.ProgramID      `db:"program_id"`
	ParticipantID         affiliate.ParticipantID  `db:"participant_id"`
	Active                bool                     `db:"active"`
	Erased                bool                     `db:"erased"`
	AttributionWindowDays int                      `db:"attribution_window_days"`
	AttributionModel      program.AttributionModel `db:"attribution_model"`
	AllowedDomains        []string                 `db:"allowed_domains"`
	WebsiteURL            *string                  `db:"website_url"`
	LandingURL            *string                  `db:"landing_url"`
	LinkParam             string                   `db:"link_param"`
	Page                  string                   `db:"page"`
	LinkID                affiliate.LinkID         `db:"link_id"`
	ShortKey              string                   `db:"short_key"`
	LinkCode              string                   `db:"link_code"`
	DestinationURL        *string                  `db:"destination_url"`
	SubID                 string                   `db:"sub_id"`
	click.UTM
	PromoCode     *string                 `db:"promo_code"`
	DiscountType  *promocode.DiscountType `db:"discount_type"`
	DiscountValue *int64                  `db:"discount_value"`
	Currency      *string                 `db:"currency"`
	ExpiresAt     *time.Time              `db:"expires_at"`
}

func (r referralTargetRow) target() participant.ReferralTarget {
	target := participant.ReferralTarget{
		Scope: affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode}, Code: r.Code,
		Program: r.ProgramID, Participant: r.ParticipantID,
		Active: r.Active, Erased: r.Erased, WindowDays: r.AttributionWindowDays, Model: r.AttributionModel,
		Link: participant.ShortLink{ID: r.LinkID, Key: r.ShortKey, Code: r.LinkCode, SubID: r.SubID, UTM: r.UTM},
	}
	if r.DestinationURL == nil || stillAllowed(link.Hosts(r.AllowedDomains, r.WebsiteURL, r.LandingURL), *r.DestinationURL) {
		target.Link.TargetURL = link.Link{
			Code: r.LinkCode, Destination: r.DestinationURL, SubID: r.SubID, UTM: r.UTM, Page: r.Page, Param: r.LinkParam,
		}.URL()
	}
	if r.PromoCode != nil {
		target.Discount = &participant.Discount{
			PromoCode: *r.PromoCode, Type: *r.DiscountType, Value: *r.DiscountValue, ExpiresAt: r.ExpiresAt,
		}
		if r.Currency != nil {
			target.Discount.Currency = *r.Currency
		}
	}
	return target
}

// stillAllowed reports whether the programme's domains allow a destination. The domains
// may have changed since the destination was stored.
func stillAllowed(domains []string, destination string) bool {
	host, ok := affiliate.ParseWebURL(destination)
	return ok && link.AllowedHost(domains, host)
}

// ParticipantReferralTargets returns all referral codes of one participant. The result
// has no pages, because a participant has few codes: the codes of its links and the
// earlier codes of its default link. The result includes a promo code only if it can be
// used at the given time.
func ParticipantReferralTargets(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, participant affiliate.ParticipantID, at time.Time) ([]participant.ReferralTarget, error) {
	return referralTargets(ctx, db, participantReferralTargets, at, workspace, participant)
}

var participantReferralTargets = selectReferralTargets + `
			where workspace_id = $2 and participant_id = $3` + joinLinks

// The programme determines the mode. The statement still has a condition on the mode, so
// that Postgres can read the codes in the order of the primary key, which contains the
// mode. This plan is fast if most codes of the workspace belong to the programme.
var programReferralTargets = selectReferralTargets + `
			where workspace_id = $2 and program_id = $3 and code > $4
				and mode = (select mode from programs where workspace_id = $2 and id = $3)
			order by code
			limit $5` + joinLinks

// ProgramReferralTargets returns at most limit referral codes of one programme. The
// result is ordered by code and starts after the given code. If the given code is empty,
// the result starts with the first code. It includes a promo code only if the promo code can
// be used at the given time.
func ProgramReferralTargets(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, program affiliate.ProgramID, at time.Time, after string, limit int) ([]participant.ReferralTarget, error) {
	return referralTargets(ctx, db, programReferralTargets, at, workspace, program, after, limit)
}

var referralTargetsAfter = selectReferralTargets + `
			where (workspace_id, mode, code) > ($2, $3, $4)
			order by workspace_id, mode, code
			limit $5` + joinLinks

// ReferralTargetsAfter returns the targets of at most limit referral codes of the
// deployment, ordered by workspace, mode and code. The result starts after the given
// target. If this is the zero value, the result starts with the first target. It includes
// a promo code only if the promo code can be used at the given time.
func ReferralTargetsAfter(ctx context.Context, db *postgres.DB, after participant.ReferralTarget, at time.Time, limit int) ([]participant.ReferralTarget, error) {
	return referralTargets(ctx, db, referralTargetsAfter, at, after.Scope.Workspace, after.Scope.Mode, after.Code, limit)
}

func referralTargets(ctx context.Context, db *postgres.DB, query string, args ...any) ([]participant.ReferralTarget, error) {
	rows, err := db.Query(ctx, query, args...)
	return postgres.AllRows(rows, err, referralTargetRow.target)
}
