package privacy

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// EraseAccount replaces the personal data of a locked account and ends its access. The
// sessions stay for privacy.TombstoneLife, revoked, so that the account's access tokens are
// recognised. digests are the keyed digests of the address that other tables use.
func EraseAccount(ctx context.Context, tx *postgres.Tx, a privacy.ErasableAccount, digests privacy.AddressDigests, at time.Time) error {
	const erase = `
		update users set email = 'erased-' || replace(id::text, '-', ''), password_hash = '', name = @pseudonym, country = null, previous_email = null,
			company_name = null, website_url = null, email_verified_at = null, unclaimed = false, erased_at = @at, version = version + 1
		where id = @user`
	args := pgx.NamedArgs{
		"user": a.ID, "kind": a.Kind, "email": a.Email, "pseudonym": privacy.Pseudonym(a.ID.UUID), "at": at,
		"until": at.Add(privacy.TombstoneLife), "login": digests.Login, "mail": digests.Mail,
	}
	for _, statement := range append([]string{erase}, endAccess...) {
		if _, err := tx.Exec(ctx, statement, args); err != nil {
			return fmt.Errorf("erase an account: %w", err)
		}
	}
	return nil
}

// endAccess are the statements that delete the rows of an account. An account has few rows
// in these tables; its notifications are deleted in steps.
var endAccess = []string{
	`update sessions set revoked_at = coalesce(revoked_at, @at), expires_at = least(expires_at, @until), idle_expires_at = least(idle_expires_at, @until)
		where user_id = @user`,
	`delete from refresh_tokens t using sessions s where s.id = t.session_id and s.user_id = @user`,
	`delete from notification_stream_tickets t using sessions s where s.id = t.session_id and s.user_id = @user`,
	`delete from notification_streams where user_id = @user`,
	`delete from email_tokens where user_id = @user or address = @email`,
	`delete from email_requests where user_id = @user or account_kind = @kind and address = @email`,
	`delete from login_failures where subject = any(@login)`,
	`delete from login_challenges where user_id = @user`,
	`delete from recovery_codes where user_id = @user`,
	`delete from second_factors where user_id = @user`,
	`delete from mail_suppressions where digest = any(@mail)
		and not exists (select from users u where u.email = @email and u.id <> @user and u.erased_at is null)`,
	`delete from payout_methods where user_id = @user`,
	`delete from former_emails where user_id = @user`,
	`delete from user_origins where user_id = @user`,
	`delete from user_devices where user_id = @user`,
	`delete from notification_preferences where user_id = @user`,
	`delete from notification_watermarks where user_id = @user`,
	`delete from notification_digests where user_id = @user`,
	`delete from notification_reads where user_id = @user`,
	`delete from mails where user_id = @user`,
	`select erase_account_audit(@user)`,
}

// EndFeed deletes the state of a feed: of an erased partner or workspace. Its notifications
// are deleted in steps.
func EndFeed(ctx context.Context, tx *postgres.Tx, feed notification.FeedID) error {
	for _, statement := range []string{
		`delete from notification_feeds where feed_id = $1`,
		`delete from notification_positions where feed_id = $1`,
		`delete from notification_dismissals where feed_id = $1`,
		`delete from notification_periods where feed_id = $1`,
	} {
		if _, err := tx.Exec(ctx, statement, feed); err != nil {
			return fmt.Errorf("delete the state of a feed: %w", err)
		}
	}
	return nil
}

// EraseAccountTraces removes the network and the changed values from entries of workspaces'
// audit logs that an erased partner has caused, and deletes invitations to the address.
func EraseAccountTraces(ctx context.Context, tx *postgres.Tx, a privacy.ErasableAccount, at time.Time) error {
	const (
		entries = `select workspace_id, array_agg(id) from audit_log where actor = $1 and workspace_id = any($2) group by workspace_id`
		places  = `select distinct workspace_id from participants where partner_id = $1 and mode in ('test', 'live')`
		invites = `
			update participant_invites set email = $2, referral_code = null, ended_at = coalesce(ended_at, $3)
			where email = $1 and workspace_id is not null and mode in ('test', 'live')`
		erase = `select erase_texts('audit_log', $1, $2, $3)`
	)
	pseudonym := privacy.Pseudonym(a.ID.UUID)
	if _, err := tx.Exec(ctx, invites, a.Email, pseudonym, at); err != nil {
		return fmt.Errorf("erase invitations: %w", err)
	}
	workspaces, err := ids(tx.Query(ctx, places, a.ID))
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, entries, a.ID.String(), workspaces)
	if err != nil {
		return err
	}
	type page struct {
		Workspace affiliate.WorkspaceID
		IDs       []affiliate.AuditID
	}
	pages, err := pgx.CollectRows(rows, pgx.RowToStructByPos[page])
	if err != nil {
		return err
	}
	for _, p := range pages {
		if _, err := tx.Exec(ctx, erase, p.Workspace, p.IDs, pseudonym); err != nil {
			return fmt.Errorf("erase audit records: %w", err)
		}
	}
	return nil
}
