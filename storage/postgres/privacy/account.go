package privacy

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// EraseAccount replaces the personal data of a locked account and ends its access. The revoked sessions stay for
// privacy.TombstoneLife, so that the account's access tokens are recognised. Other tables refer to the address by
// the given keyed digests.
func EraseAccount(ctx context.Context, tx *postgres.Tx, a privacy.ErasableAccount, digests privacy.AddressDigests, at time.Time) error {
	const erase = `
		update users set email = 'erased-' || replace(id::text, '-', ''), password_hash = '', name = @pseudonym, country = null, locale = null, previous_email = null,
			company_name = null, website_url = null, email_verified_at = null, unclaimed = false, erased_at = @at, version = version + 1
		where id = @user`
	args := pgx.NamedArgs{
		"user": a.ID, "kind": a.Kind, "email": a.Email, "pseudonym": privacy.Pseudonym(a.ID.UUID), "at": at,
		"until": at.Add(privacy.TombstoneLife), "login": digests.Login, "mail": digests.Mail,
	}
	for _, statement := range append([]string{erase}, endAccess...) {
		if _, err := tx.Exec(ctx, statement, args); err != nil {
			return err
		}
	}
	return nil
}

// endAccess are the statements that revoke the sessions of an account, delete its other rows and empty its audit
// log. An account has few rows in these tables; its notifications are deleted in steps.
var endAccess = []string{
	`update sessions set revoked_at = coalesce(revoked_at, @at), expires_at = least(expires_at, @until), idle_expires_at = least(idle_expires_at, @until),
			browser_digest = null, device = '', network = ''
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

// EndFeed deletes the state of the feed of an erased partner or workspace. The notifications
// of the feed are deleted in steps.
func EndFeed(ctx context.Context, tx *postgres.Tx, feed notification.FeedID) error {
	for _, statement := range []string{
		`delete from notification_feeds where feed_id = $1`,
		`delete from notification_positions where feed_id = $1`,
		`delete from notification_dismissals where feed_id = $1`,
		`delete from notification_periods where feed_id = $1`,
	} {
		if _, err := tx.Exec(ctx, statement, feed); err != nil {
			return err
		}
	}
	return nil
}

// EraseAccountTraces ends the invitations to the address of an erased partner and replaces the address in them. It
// removes the network and the changed values from the partner's entries in the audit logs of workspaces.
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
		return err
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
			return err
		}
	}
	return nil
}

// EraseWorkspace ends every access to a locked workspace and replaces its settings and
// programmes. The accounts of its members are erased by EraseAccount. The steps erase its
// participants and the data about buyers.
func EraseWorkspace(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID, at time.Time) error {
	args := pgx.NamedArgs{"workspace": id, "pseudonym": privacy.Pseudonym(id.UUID), "at": at}
	for _, statement := range eraseWorkspace {
		if _, err := tx.Exec(ctx, statement, args); err != nil {
			return err
		}
	}
	const programs = `select id from programs where workspace_id = $1 and mode in ('test', 'live')`
	found, err := ids(tx.Query(ctx, programs, id))
	if err != nil {
		return err
	}
	jobs := []affiliate.Job{affiliate.SyncDirectory{Workspace: id}}
	for _, program := range found {
		jobs = append(jobs, affiliate.SyncDirectory{Workspace: id, Program: &affiliate.ProgramID{UUID: program}})
	}
	return tx.Enqueue(ctx, jobs...)
}

// eraseWorkspace are the statements on tables that have few rows per workspace.
var eraseWorkspace = []string{
	`update workspaces set name = @pseudonym, allowed_origins = '{}', test_mail_redirect = null, erased_at = @at,
		slug = 'erased-' || replace(id::text, '-', ''), portal_name = null, accent_color = null, support_email = null, website_url = null,
		terms_url = null, privacy_url = null, logo_digest = null,
		version = version + 1, updated_at = @at
		where id = @workspace`,
	`delete from workspace_logos where workspace_id = @workspace`,
	`update api_keys set name = @pseudonym, revoked_at = coalesce(revoked_at, @at) where workspace_id = @workspace and mode in ('test', 'live')`,
	`update service_tokens set name = @pseudonym, last_used_ip_prefix = null, revoked_at = coalesce(revoked_at, @at)
		where workspace_id = @workspace and mode in ('test', 'live')`,
	`delete from members where workspace_id = @workspace`,
	`update webhook_endpoints set url = @pseudonym, description = null, deleted_at = coalesce(deleted_at, @at), updated_at = @at, version = version + 1,
		active = false, disabled_reason = coalesce(disabled_reason, 'manual'), epoch = epoch + 1,
		secret = null, previous_secret = null, previous_until = null, sender = null, sender_until = null
		where workspace_id = @workspace and mode in ('test', 'live')`,
	`update programs set name = 'erased-' || right(id::text, 8), slug = 'erased-' || replace(id::text, '-', ''), description = null,
		status = 'archived', website_url = null, allowed_domains = '{}', landing_url = null, is_public = false, terms_url = null,
		public_text = null, application_questions = '[]', terms_text = null,
		fraud_settings = '{}', version = version + 1, updated_at = @at
		where workspace_id = @workspace and mode in ('test', 'live')`,
	`update groups set name = 'erased-' || replace(id::text, '-', ''), version = version + 1, updated_at = @at where workspace_id = @workspace`,
	`update test_data_resets set ip_prefix = '' where workspace_id = @workspace and ip_prefix <> ''`,
	`delete from announcements where workspace_id = @workspace`,
	`delete from mails where workspace_id = @workspace and status = 'pending'`,
}

// EndConnections disconnects the payment processors of a workspace: their signing secrets
// are deleted, and jobs delete the endpoints at the processors and then the connections.
func EndConnections(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, at time.Time) error {
	const end = `
		update processor_connections set deleted_at = coalesce(deleted_at, $2), secret = '', previous_secret = null
		where workspace_id = $1 and mode in ('test', 'live')
		returning id as connection, endpoint_id as endpoint`
	rows, err := tx.Query(ctx, end, workspace, at)
	if err != nil {
		return err
	}
	type ended struct {
		Connection processor.ConnectionID
		Endpoint   string
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[ended])
	if err != nil {
		return err
	}
	var jobs []affiliate.Job
	for _, c := range all {
		jobs = append(jobs, processor.RemoveProcessorEndpoint{Workspace: workspace, Connection: c.Connection, Endpoint: c.Endpoint})
	}
	return tx.Enqueue(ctx, jobs...)
}
