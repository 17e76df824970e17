-- +goose Up

-- In all tables whose rows belong to workspaces, the primary key starts with
-- workspace_id, so that the tables can be distributed by workspace later. No foreign key
-- cascades: a cascade ignores grants, and the append-only tables rely on grants. Times
-- are UTC with milliseconds. They are set by the service's clock, never by now().
--
-- The service uses the role tributary_app. This role owns no tables except those of the
-- job queue. The grants make some tables append-only: in these tables the role can
-- neither update nor delete rows.
grant usage on schema public to tributary_app;

-- Accounts
-- --------

create table users (
  id                uuid primary key,
  kind              text not null check (kind in ('merchant', 'partner')),
  email             text not null,              -- lower case
  password_hash     text not null,              -- argon2id, PHC string
  name              text not null,
  country           text,                       -- ISO 3166-1 alpha-2
  email_verified_at timestamptz,
  created_at        timestamptz not null,
  erased_at         timestamptz,
  company_name      text,
  website_url       text,
  version           integer not null default 1, -- incremented by every change
  -- The address before the last change of the address. A warning about a changed payout
  -- account is sent to it too. It is deleted after 30 days.
  previous_email    text,
  email_changed_at  timestamptz,
  -- An account without a password yet. A login to it is not possible.
  unclaimed         boolean not null default false,
  unique (kind, email)
);
-- Partners belong to no workspace. The size of the next two indexes therefore depends
-- on the number of all partners, and a short prefix also finds partners of other
-- workspaces. The join with participants removes these partners.
create index users_by_partner_name on users (lower(name) text_pattern_ops) where kind = 'partner';
create index users_by_partner_email on users (lower(email) text_pattern_ops) where kind = 'partner';
create index users_previous_email on users (email_changed_at) where previous_email is not null;
-- Accounts that are erased when they take part in no programme any more.
create index users_unclaimed on users (id) where unclaimed;
grant select, insert, update, delete on users to tributary_app;

-- A session has a chain of refresh tokens, each of which replaces the previous one.
-- Access tokens contain the session's id (sid), and the core reads the session on each
-- request.
create table sessions (
  id              uuid primary key,
  user_id         uuid not null references users (id),
  created_at      timestamptz not null,
  idle_expires_at timestamptz not null,         -- 30 days after the last use
  expires_at      timestamptz not null,         -- 90 days after created_at
  revoked_at      timestamptz
);
create index sessions_by_user on sessions (user_id);
create index sessions_by_expiry on sessions (expires_at);
grant select, insert, update, delete on sessions to tributary_app;

create table refresh_tokens (
  digest     bytea primary key,                 -- SHA-256 of 256 random bits
  session_id uuid not null references sessions (id),
  created_at timestamptz not null,
  used_at    timestamptz
);
create index refresh_tokens_by_session on refresh_tokens (session_id);
grant select, insert, update, delete on refresh_tokens to tributary_app;

-- Failed logins for an email address. An address is included even if no account has it.
-- They are kept for 15 minutes.
create table login_failures (
  id        uuid primary key,
  subject   bytea not null,                     -- HMAC of kind and address
  failed_at timestamptz not null,
  -- Failed logins delay only attempts of the same bucket: of a session, of the known devices in a
  -- network, or of a network.
  bucket    bytea not null                      -- HMAC of kind, address and caller
);
create index login_failures_by_subject on login_failures (subject, failed_at);
create index login_failures_by_time on login_failures (failed_at);
create index login_failures_by_bucket on login_failures (bucket, failed_at);
grant select, insert, update, delete on login_failures to tributary_app;

-- Logins that wait for a code. Rows are deleted after the login or after they have expired.
create table login_challenges (
  digest     bytea primary key,                 -- SHA-256 of 256 random bits
  user_id    uuid not null references users (id),
  failures   integer not null default 0,        -- wrong codes
  created_at timestamptz not null,
  expires_at timestamptz not null
);
create index login_challenges_by_user on login_challenges (user_id);
create index login_challenges_by_expiry on login_challenges (expires_at);
grant select, insert, update, delete on login_challenges to tributary_app;

-- Second factors of accounts (affiliate.SecondFactor). A row without confirmed_at is an
-- enrolment that was not confirmed.
create table second_factors (
  user_id      uuid primary key references users (id),
  secret       bytea not null,                  -- encrypted secret of the TOTP (RFC 6238)
  created_at   timestamptz not null,
  confirmed_at timestamptz,
  last_step    bigint not null default 0,       -- codes of this time step and of earlier steps are refused
  -- Wrong codes in a row. Codes are refused after 100.
  failures     integer not null default 0
);
grant select, insert, update, delete on second_factors to tributary_app;

-- Recovery codes. Each works once.
create table recovery_codes (
  user_id uuid not null references second_factors (user_id),
  digest  bytea not null,                       -- SHA-256 of 80 random bits
  used_at timestamptz,
  primary key (user_id, digest)
);
grant select, insert, update, delete on recovery_codes to tributary_app;

-- The networks and devices from which partners have used their accounts, kept for 30
-- days. No full IP address is stored. The user agent is stored as a hash. The key of this
-- hash changes every month.
create table user_origins (
  user_id   uuid not null references users (id),
  ip_prefix text not null,                      -- /24 or /48
  ua_hash   bytea not null,                     -- empty if there was no user agent
  seen_at   timestamptz not null,
  primary key (user_id, ip_prefix, ua_hash)
);
create index user_origins_by_age on user_origins (seen_at);
grant select, insert, update, delete on user_origins to tributary_app;

-- The devices with which users have signed in, kept for 90 days after their last use. A
-- device is a browser in a network.
create table user_devices (
  user_id uuid not null references users (id),
  device  bytea not null,                       -- keyed hash
  seen_at timestamptz not null,
  primary key (user_id, device)
);
create index user_devices_by_age on user_devices (seen_at);
grant select, insert, update, delete on user_devices to tributary_app;

-- The keyed digests of addresses that accounts of partners had before
-- (affiliate.FormerEmailDigests). The rule self_referral_email compares buyers with them.
create table former_emails (
  user_id    uuid not null references users (id),
  digest     bytea not null,
  created_at timestamptz not null,
  primary key (user_id, digest)
);
grant select, insert, delete on former_emails to tributary_app;

-- Tokens in the links of mails that verify an address, change the address of an account,
-- or reset a password. Rows are deleted after they have expired.
create table email_tokens (
  digest     bytea primary key,                 -- SHA-256 of 256 random bits
  user_id    uuid not null references users (id),
  purpose    text not null check (purpose in ('verify', 'change', 'reset')),
  address    text not null,                     -- the recipient of the mail, lower case
  session_id uuid,                              -- the session that requested a change; null for other purposes
  created_at timestamptz not null,
  expires_at timestamptz not null,
  used_at    timestamptz                        -- null: neither used nor revoked
);
create index email_tokens_by_user on email_tokens (user_id);
create index email_tokens_by_address on email_tokens (address, purpose, created_at);
create index email_tokens_by_expiry on email_tokens (expires_at);
grant select, insert, update, delete on email_tokens to tributary_app;

-- Requests to reset a password or to change an address. A job processes a request and
-- deletes it. Only the job looks the address up, so the time of the response does not
-- depend on whether an account has the address.
create table email_requests (
  id           uuid primary key,
  purpose      text not null check (purpose in ('change', 'reset')),
  account_kind text not null check (account_kind in ('merchant', 'partner')),
  address      text not null,                   -- lower case
  user_id      uuid,                            -- the user who requested a change; null: reset
  session_id   uuid,                            -- the session that requested a change; null: reset
  created_at   timestamptz not null
);
create index email_requests_by_user on email_requests (user_id) where user_id is not null;
create index email_requests_by_age on email_requests (created_at);
grant select, insert, delete on email_requests to tributary_app;

-- Append-only. The audit log of accounts, which belong to no workspace.
create table account_audit_log (
  user_id    uuid not null references users (id),
  id         uuid not null,
  at         timestamptz not null,
  action     text not null,                     -- noun.verb
  before     jsonb,
  after      jsonb,
  ip_prefix  text,
  request_id text,
  primary key (user_id, id)
);
grant select, insert on account_audit_log to tributary_app;

-- Workspaces
-- ----------

create table workspaces (
  id                        uuid primary key,
  name                      text not null,
  currency                  text not null,      -- ISO 4217
  timezone                  text not null,      -- IANA
  created_at                timestamptz not null,
  allowed_origins           text[] not null default '{}',
  origin_policy             text not null default 'observe' check (origin_policy in ('observe', 'enforce', 'enforce_strict')), -- enforce_strict also refuses clicks without an origin
  test_mail_redirect        text,
  version                   integer not null default 1, -- incremented by every change
  updated_at                timestamptz not null,
  erased_at                 timestamptz,
  billing_active            boolean not null default false, -- the operator sets it: the workspace cannot be erased
  -- Clicks of test mode that a collector received at this time or earlier are not stored any
  -- more. Null: the test data was never deleted.
  test_data_reset_at        timestamptz,
  -- Batches with a total above this amount, in minor units of a currency, need the
  -- confirmation of two members. Null: one is enough.
  second_person_above_cents bigint check (second_person_above_cents >= 0),
  -- The books of a workspace are closed up to this time: no entry of the ledger gets an
  -- earlier date. Null: no period is closed.
  books_closed_until        timestamptz,
  require_second_factor     boolean not null default false,
  -- For how many years after the payment the name of an erased partner stays on paid payouts
  -- of live mode, because a law demands it. 0: it does not stay.
  retain_payee_years        integer not null default 0,
  constraint workspaces_retain_payee_years check (retain_payee_years between 0 and 30)
);
grant select, insert, update, delete on workspaces to tributary_app;

-- A user is a member of at most one workspace.
create table members (
  workspace_id uuid not null references workspaces (id),
  user_id      uuid not null unique references users (id),
  role         text not null check (role in ('owner', 'admin', 'manager', 'finance', 'developer', 'viewer')),
  created_at   timestamptz not null,
  primary key (workspace_id, user_id)
);
grant select, insert, update, delete on members to tributary_app;

-- Invitations of members. Accepted and revoked invitations are kept.
create table member_invites (
  workspace_id uuid not null references workspaces (id),
  id           uuid not null,
  email        text not null,                   -- lower case
  role         text not null check (role in ('owner', 'admin', 'manager', 'finance', 'developer', 'viewer')),
  digest       bytea not null unique,           -- SHA-256 of 256 random bits
  invited_by   uuid not null references users (id),
  created_at   timestamptz not null,
  expires_at   timestamptz not null,
  ended_at     timestamptz,                     -- accepted, revoked or replaced
  -- Digest of the token in the mail of an invitation. The response to the request that made
  -- the invitation has another token, so only the mailed one proves that its holder reads the
  -- mail of the address.
  mail_digest  bytea not null unique,
  primary key (workspace_id, id)
);
create index member_invites_open on member_invites (workspace_id, created_at desc, id desc) where ended_at is null;
grant select, insert, update, delete on member_invites to tributary_app;

create table api_keys (
  workspace_id uuid not null references workspaces (id),
  id           uuid not null,
  mode         text not null check (mode in ('test', 'live')),
  kind         text not null check (kind in ('secret', 'public')),
  name         text not null,
  digest       bytea not null unique,           -- SHA-256 of the key
  public_text  text,                            -- public keys only
  prefix       text not null,
  last4        text not null,
  created_at   timestamptz not null,
  last_used_at timestamptz,                     -- to the minute
  expires_at   timestamptz,
  revoked_at   timestamptz,
  -- A key can be rolled once. After that, the old key works until expires_at.
  rolled_at    timestamptz,
  primary key (workspace_id, id),
  check ((kind = 'public') = (public_text is not null))
);
create index api_keys_by_mode on api_keys (workspace_id, mode, kind, created_at desc);
grant select, insert, update, delete on api_keys to tributary_app;

-- Credentials of programs that manage a workspace (affiliate.ServiceToken).
create table service_tokens (
  workspace_id        uuid not null references workspaces (id),
  id                  uuid not null,
  mode                text not null check (mode in ('test', 'live')),
  name                text not null,
  role                text not null check (role in ('admin', 'manager', 'finance', 'developer', 'viewer')),
  allow_payouts       boolean not null,
  digest              bytea not null unique,    -- SHA-256 of the token
  prefix              text not null,
  last4               text not null,
  created_by          uuid not null references users (id),
  created_at          timestamptz not null,
  expires_at          timestamptz not null,
  revoked_at          timestamptz,
  rolled_at           timestamptz,
  last_used_at        timestamptz,              -- to the minute
  last_used_ip_prefix text,                     -- /24 or /48
  primary key (workspace_id, id)
);
create index service_tokens_by_age on service_tokens (workspace_id, created_at desc, id desc) where revoked_at is null;
grant select, insert, update, delete on service_tokens to tributary_app;

-- Append-only. The audit log: changes that users made.
create table audit_log (
  workspace_id      uuid not null,
  id                uuid not null,
  mode              text,                       -- null: concerns both modes
  at                timestamptz not null,
  actor             text not null,              -- user id, key id or system
  action            text not null,              -- noun.verb, for example commission.approve
  resource_type     text not null,
  resource_id       uuid not null,
  before            jsonb,
  after             jsonb,
  ip_prefix         text,
  request_id        text,
  -- The actor has created a participant token, and the change was made with this token.
  participant_token boolean not null default false,
  primary key (workspace_id, id)
);
-- Lists of the audit log filter by mode. The indexes contain the mode, so that an
-- index-only scan can count the entries of a list.
create index audit_log_by_age on audit_log (workspace_id, at desc, id desc) include (mode);
create index audit_log_by_actor on audit_log (workspace_id, actor, at desc, id desc) include (mode);
create index audit_log_by_resource on audit_log (workspace_id, resource_id, at desc, id desc) include (mode);
grant select, insert on audit_log to tributary_app;

-- Programmes
-- ----------

create table programs (
  workspace_id            uuid not null references workspaces (id),
  id                      uuid not null unique,
  mode                    text not null check (mode in ('test', 'live')),
  name                    text not null,
  slug                    text not null,
  description             text,
  status                  text not null check (status in ('draft', 'active', 'paused', 'archived')),
  website_url             text,
  allowed_domains         text[] not null,
  landing_url             text,
  currency                text not null,
  attribution_window_days integer not null check (attribution_window_days between 1 and 365),
  attribution_model       text not null check (attribution_model in ('last_click', 'first_click')),
  link_param              text not null,
  auto_approve_partners   boolean not null,
  is_public               boolean not null,
  rules                   jsonb not null,       -- the version in force
  rules_version           integer not null,
  terms_url               text,
  version                 integer not null default 1, -- incremented by every change
  created_at              timestamptz not null,
  updated_at              timestamptz not null,
  signal_precedence       text not null default 'click_first' check (signal_precedence in ('click_first', 'promo_code_first')),
  min_payout_cents        bigint not null default 0 check (min_payout_cents >= 0),
  payout_term_days        integer not null default 0 check (payout_term_days between 0 and 365),
  fraud_policy            text not null default 'flag' check (fraud_policy in ('off', 'observe', 'flag', 'block')),
  -- The settings of a programme's fraud rules. The policy itself is in the column
  -- fraud_policy.
  fraud_settings          jsonb not null default '{}',
  fraud_updated_at        timestamptz,
  primary key (workspace_id, id)
);
create unique index programs_slug on programs (workspace_id, mode, slug);
create index programs_by_age on programs (workspace_id, mode, created_at desc, id desc);
-- Indexes of the public programmes, which every partner can find. They cover all
-- workspaces.
create index programs_public on programs (mode, created_at desc, id desc) where status = 'active' and is_public;
create index programs_public_by_name on programs (mode, lower(name) text_pattern_ops) where status = 'active' and is_public;
-- Index for searching a workspace's programmes by a prefix of their names.
create index programs_by_name on programs (workspace_id, mode, lower(name) text_pattern_ops);
grant select, insert, update, delete on programs to tributary_app;

-- All versions of the rules that have been in force.
create table program_rules (
  workspace_id uuid not null,
  program_id   uuid not null,
  version      integer not null,
  rules        jsonb not null,
  at           timestamptz not null,
  by           uuid not null,                   -- user
  primary key (workspace_id, program_id, version),
  foreign key (workspace_id, program_id) references programs (workspace_id, id)
);
grant select, insert on program_rules to tributary_app;

create table groups (
  workspace_id      uuid not null,
  id                uuid not null,
  program_id        uuid not null,
  name              text not null,
  rate_bps          bigint,
  flat_amount_cents bigint,
  version           integer not null default 1, -- incremented by every change
  created_at        timestamptz not null,
  updated_at        timestamptz not null,
  primary key (workspace_id, id),
  check ((rate_bps is null) <> (flat_amount_cents is null)),
  foreign key (workspace_id, program_id) references programs (workspace_id, id)
);
create unique index groups_name on groups (workspace_id, program_id, lower(name));
grant select, insert, update, delete on groups to tributary_app;

-- Participants
-- ------------

create table participants (
  workspace_id               uuid not null,
  id                         uuid not null,
  program_id                 uuid not null,
  mode                       text not null check (mode in ('test', 'live')),
  partner_id                 uuid not null references users (id),
  status                     text not null check (status in ('pending', 'approved', 'rejected', 'suspended')),
  referral_code              text not null,     -- the current code; see referral_codes
  application_answers        jsonb not null,
  terms_accepted_at          timestamptz,
  applied_at                 timestamptz not null,
  approved_at                timestamptz,
  rejected_at                timestamptz,
  rejection_reason           text,
  suspended_at               timestamptz,
  suspension_reason          text,
  erased_at                  timestamptz,
  version                    integer not null default 1, -- incremented by every change
  created_at                 timestamptz not null,
  updated_at                 timestamptz not null,
  -- A participant has copies of the partner's name and email address, so that a list can
  -- sort and search them with one index of one workspace. A change of the account updates
  -- the copies in the same transaction.
  partner_name               text not null,
  partner_email              text not null,
  group_id                   uuid,
  override_rate_bps          bigint,
  override_flat_amount_cents bigint,
  tags                       text[] not null default '{}',
  note                       text,
  external_id                text,              -- the merchant's own id of the partner
  -- Null unless the merchant added a partner who already had an account and who has not
  -- accepted yet.
  partner_consent            text,
  primary key (workspace_id, id),
  foreign key (workspace_id, program_id) references programs (workspace_id, id),
  check (override_rate_bps is null or override_flat_amount_cents is null),
  foreign key (workspace_id, group_id) references groups (workspace_id, id),
  -- A participation without the partner's consent cannot be approved.
  constraint participants_partner_consent check (
    partner_consent is null or partner_consent in ('awaited', 'declined') and status in ('pending', 'rejected')
  )
);
create unique index participants_once on participants (workspace_id, program_id, partner_id);
create index participants_by_age on participants (workspace_id, program_id, created_at desc, id desc);
create index participants_by_status on participants (workspace_id, program_id, status, created_at desc, id desc);
create index participants_by_partner on participants (partner_id, mode);
create index participants_by_group on participants (workspace_id, group_id, created_at desc, id desc) where group_id is not null;
create index participants_by_name on participants (workspace_id, program_id, lower(partner_name) text_pattern_ops, created_at desc, id desc);
create index participants_by_email on participants (workspace_id, program_id, lower(partner_email) text_pattern_ops);
-- Index of the erased participants. Ingestion searches it for each batch of clicks.
create index participants_erased on participants (workspace_id, id) where erased_at is not null;
create unique index participants_external_id on participants (workspace_id, program_id, external_id) where external_id is not null;
-- A filter by tag reads the programme's participants that have tags, newest first, and
-- checks the tags of each. A GIN index of the tags would also contain the other programmes.
create index participants_tagged on participants (workspace_id, program_id, created_at desc, id desc) where tags <> '{}';
grant select, insert, update, delete on participants to tributary_app;

-- Invitations of partners. Accepted and revoked invitations are kept.
create table participant_invites (
  workspace_id  uuid not null,
  id            uuid not null,
  program_id    uuid not null,
  mode          text not null check (mode in ('test', 'live')),
  email         text not null,                  -- lower case
  group_id      uuid,
  referral_code text,                           -- requested code, case-folded
  digest        bytea not null unique,          -- SHA-256 of 256 random bits
  invited_by    uuid not null references users (id),
  created_at    timestamptz not null,
  expires_at    timestamptz not null,
  ended_at      timestamptz,                    -- accepted, revoked or replaced
  mail_digest   bytea not null unique,          -- as in member_invites
  primary key (workspace_id, id),
  foreign key (workspace_id, program_id) references programs (workspace_id, id),
  foreign key (workspace_id, group_id) references groups (workspace_id, id)
);
create unique index participant_invites_email on participant_invites (workspace_id, program_id, email) where ended_at is null;
create index participant_invites_open on participant_invites (workspace_id, program_id, created_at desc, id desc) where ended_at is null;
create index participant_invites_by_group on participant_invites (workspace_id, group_id) where group_id is not null;
-- For the references to a programme that is deleted with the test data.
create index participant_invites_by_program on participant_invites (workspace_id, program_id);
-- The erasure of a partner's account finds invitations by the address.
create index participant_invites_by_email on participant_invites (email);
grant select, insert, update, delete on participant_invites to tributary_app;

-- Links and promo codes
-- ---------------------

-- Referral links. Each link has one current code. The current code of a participant's
-- default link is the participant's code. The participant's earlier codes lead to the
-- default link too.
create table links (
  workspace_id    uuid not null,
  id              uuid not null,
  program_id      uuid not null,
  participant_id  uuid not null,
  mode            text not null check (mode in ('test', 'live')),
  code            text not null,                -- case-folded
  short_key       text not null unique,         -- ten base62 characters, unique in the deployment
  destination_url text,                         -- null: the programme's page (default links only)
  sub_id          text,
  utm_source      text,
  utm_medium      text,
  utm_campaign    text,
  utm_term        text,
  utm_content     text,
  is_default      boolean not null,
  version         integer not null default 1,   -- incremented by every change
  created_at      timestamptz not null,
  updated_at      timestamptz not null,
  deleted_at      timestamptz,
  primary key (workspace_id, id),
  check (is_default or destination_url is not null),
  foreign key (workspace_id, participant_id) references participants (workspace_id, id)
);
create unique index links_default on links (workspace_id, participant_id) where is_default;
create index links_by_age on links (workspace_id, program_id, created_at desc, id desc) where deleted_at is null;
create index links_by_code on links (workspace_id, program_id, code text_pattern_ops) where deleted_at is null;
-- Also for the references of links to a participant that is deleted with the test data.
create index links_by_participant on links (workspace_id, participant_id, created_at desc, id desc) include (deleted_at);
grant select, insert, update, delete on links to tributary_app;

-- A code is unique within a workspace and mode. A code that was replaced stays
-- reserved.
create table referral_codes (
  workspace_id   uuid not null,
  mode           text not null check (mode in ('test', 'live')),
  code           text not null,                 -- case-folded
  program_id     uuid not null,
  participant_id uuid not null,
  link_id        uuid not null,                 -- the link to which the code leads
  created_at     timestamptz not null,
  primary key (workspace_id, mode, code),
  foreign key (workspace_id, participant_id) references participants (workspace_id, id)
);
create index referral_codes_by_participant on referral_codes (workspace_id, participant_id);
-- Index for searching codes by prefix.
create index referral_codes_by_program on referral_codes (workspace_id, program_id, code text_pattern_ops);
grant select, insert, update, delete on referral_codes to tributary_app;

create table promo_codes (
  workspace_id      uuid not null,
  id                uuid not null,
  program_id        uuid not null,
  participant_id    uuid not null,
  mode              text not null check (mode in ('test', 'live')),
  code              text not null,              -- case-folded
  discount_type     text not null check (discount_type in ('percentage', 'fixed')),
  discount_value    bigint not null check (discount_value >= 0), -- basis points, or minor units
  currency          text,                       -- of a fixed discount
  max_redemptions   bigint,
  redemptions       bigint not null default 0,
  expires_at        timestamptz,
  active            boolean not null,
  sync_to_processor boolean not null,
  sync_status       text not null check (sync_status in ('none', 'pending', 'synced', 'failed')),
  version           integer not null default 1, -- incremented by every change
  created_at        timestamptz not null,
  updated_at        timestamptz not null,
  primary key (workspace_id, id),
  check ((discount_type = 'fixed') = (currency is not null)),
  foreign key (workspace_id, participant_id) references participants (workspace_id, id)
);
create unique index promo_codes_code on promo_codes (workspace_id, mode, code text_pattern_ops);
create index promo_codes_by_age on promo_codes (workspace_id, program_id, created_at desc, id desc);
create index promo_codes_by_participant on promo_codes (workspace_id, participant_id, created_at desc, id desc);
create index promo_codes_by_code on promo_codes (workspace_id, program_id, code text_pattern_ops);
create index promo_codes_by_active on promo_codes (workspace_id, mode, program_id, active, created_at desc, id desc);
grant select, insert, update, delete on promo_codes to tributary_app;

-- Counts
-- ------

-- Changes of counts. Transactions that change the same count do not wait for each
-- other, because each of them inserts a delta instead of updating a total. A job adds
-- the deltas to the totals soon after. A total plus its deltas is always exact.
create table stats_deltas (
  workspace_id     uuid not null,
  id               uuid not null,
  mode             text not null,
  program_id       uuid not null,
  participant_id   uuid not null,
  link_id          uuid,
  currency         text not null,               -- of the amounts; empty if there are none
  clicks           bigint not null default 0,
  signups          bigint not null default 0,
  conversions      bigint not null default 0,
  revenue_cents    bigint not null default 0,
  commission_cents bigint not null default 0,
  primary key (workspace_id, id)
);
create index stats_deltas_by_participant on stats_deltas (workspace_id, participant_id);
create index stats_deltas_by_link on stats_deltas (workspace_id, link_id);
grant select, insert, update, delete on stats_deltas to tributary_app;

-- Totals of each participant over all time. Amounts in other currencies than the
-- programme's are left out.
create table participant_totals (
  workspace_id     uuid not null,
  participant_id   uuid not null,
  program_id       uuid not null,
  clicks           bigint not null default 0,
  signups          bigint not null default 0,
  conversions      bigint not null default 0,
  revenue_cents    bigint not null default 0,
  commission_cents bigint not null default 0,
  primary key (workspace_id, participant_id),
  foreign key (workspace_id, participant_id) references participants (workspace_id, id)
);
create index participant_totals_by_clicks on participant_totals (workspace_id, program_id, clicks desc, participant_id desc);
create index participant_totals_by_conversions on participant_totals (workspace_id, program_id, conversions desc, participant_id desc);
create index participant_totals_by_revenue on participant_totals (workspace_id, program_id, revenue_cents desc, participant_id desc);
create index participant_totals_by_commission on participant_totals (workspace_id, program_id, commission_cents desc, participant_id desc);
-- Indexes for lists in ascending order. In these lists, rows with equal values are
-- still ordered newest first, so the indexes above cannot be read backwards. Equal
-- values are frequent: in a large programme, most values are zero.
create index participant_totals_by_clicks_up on participant_totals (workspace_id, program_id, clicks, participant_id desc);
create index participant_totals_by_conversions_up on participant_totals (workspace_id, program_id, conversions, participant_id desc);
create index participant_totals_by_revenue_up on participant_totals (workspace_id, program_id, revenue_cents, participant_id desc);
create index participant_totals_by_commission_up on participant_totals (workspace_id, program_id, commission_cents, participant_id desc);
grant select, insert, update, delete on participant_totals to tributary_app;

create table link_totals (
  workspace_id uuid not null,
  link_id      uuid not null,
  clicks       bigint not null default 0,
  conversions  bigint not null default 0,
  primary key (workspace_id, link_id),
  foreign key (workspace_id, link_id) references links (workspace_id, id)
);
grant select, insert, update, delete on link_totals to tributary_app;

-- The lengths of lists. The transactions that change a list update its length. Each
-- length is distributed over several rows (slots), so that these transactions rarely
-- wait for each other. The length is the sum of its slots.
create table list_counts (
  workspace_id uuid not null,
  program_id   uuid not null,
  what         text not null,                   -- links, promo_codes, participants.<status>
  slot         smallint not null,
  n            bigint not null,
  primary key (workspace_id, program_id, what, slot)
);
grant select, insert, update, delete on list_counts to tributary_app;

-- Clicks
-- ------

-- Clicks, partitioned by the day of clicked_at. clicked_at is the time in the id (a
-- UUIDv7), in milliseconds. Because it comes from the id, a click that is sent twice
-- has the same key both times. clicked_at is part of the key and has no other meaning:
-- the attribution window starts at received_at. No foreign key refers to this table.
create table clicks (
  workspace_id    uuid not null,
  id              uuid not null,
  clicked_at      timestamptz not null,
  mode            text not null,
  program_id      uuid not null,
  participant_id  uuid not null,
  link_id         uuid not null,
  referral_code   text not null,
  received_at     timestamptz not null,
  expires_at      timestamptz not null,
  created_at      timestamptz not null,
  occurred_at     timestamptz,
  landing_url     text,
  referrer_domain text,
  utm_source      text,
  utm_medium      text,
  utm_campaign    text,
  utm_term        text,
  utm_content     text,
  sub_id          text,
  consent         text not null,
  language        text,
  screen          text,
  ip_hash         bytea,
  ip_prefix       text,
  ua_hash         bytea,
  is_bot          boolean not null,
  bot_reason      text,
  foreign_origin  boolean not null default false,
  country         text,                         -- ISO 3166-1 alpha-2
  region          text,                         -- part of ISO 3166-2 after the hyphen
  device          text,                         -- desktop, mobile or tablet
  browser         text,
  os              text,
  paid_platform   text,                         -- platform whose click id was in the landing URL
  is_unique       boolean not null default false,
  unique (workspace_id, id, clicked_at)
) partition by range (clicked_at);
create table clicks_default partition of clicks default;
create index clicks_by_time on clicks using brin (clicked_at);
create index clicks_by_address on clicks (workspace_id, ip_hash, clicked_at) where ip_hash is not null;
-- The export of a participant would otherwise read the clicks of the whole workspace.
create index clicks_by_participant on clicks (workspace_id, participant_id, clicked_at);
grant select, insert, update, delete on clicks to tributary_app;
grant select on clicks_default to tributary_app; -- for the alarm about days without a partition
grant update (ip_hash, ip_prefix, ua_hash) on clicks_default to tributary_app; -- for the purge after 90 days

-- +goose StatementBegin
-- Creates the missing partitions of the table that the argument parent names, in the
-- schema home. Each has the given number of days. The first begins at the argument first,
-- and the last contains the argument last. The argument key names the column by which the
-- table is partitioned, a date or a time in UTC. Rows in the default partition move into
-- the new partitions, also those of transactions that commit while the function waits for
-- the default partition. The function returns the number of new partitions. If another
-- transaction locks the table for more than a second, as a dump does, the function fails
-- with lock_not_available. If it waited instead, all later transactions would have to
-- wait too.
--
-- If rows move, the function locks the table. Otherwise a query that waits for the default
-- partition would not return them: it would look for them in the partitions that existed
-- before it waited. Usually no rows move, and only the default partition is locked. Queries
-- lock the table first, so the function must do so too.
create function ensure_partitions(home text, parent text, key text, first date, last date, days integer) returns integer
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  midnight  text := 'YYYY-MM-DD 00:00:00+00'; -- as a date it is the day, as a time the beginning of the day in UTC
  day       date := first;
  stop      date := first + ((last - first) / days + 1) * days; -- the end of the last partition
  name      text;
  rows_move boolean;
  moved     bigint;
  made      integer := 0;
begin
  execute format('select exists (select from %I.%I where %I >= %L and %I < %L)', home, parent || '_default',
    key, to_char(day, midnight), key, to_char(stop, midnight)) into rows_move;
  if rows_move then
    execute format('lock table only %I.%I in access exclusive mode', home, parent);
  end if;
  while day < stop loop
    name := parent || '_' || to_char(day, 'YYYYMMDD');
    if to_regclass(format('%I.%I', home, name)) is null then
      execute format('create table %I.%I (like %I.%I including defaults including constraints)', home, name, home, parent);
      execute format('lock table %I.%I in access exclusive mode', home, parent || '_default');
      execute format('with moved as (delete from %I.%I where %I >= %L and %I < %L returning *) insert into %I.%I select * from moved',
        home, parent || '_default', key, to_char(day, midnight), key, to_char(day + days, midnight), home, name);
      get diagnostics moved = row_count;
      if moved > 0 and not rows_move then
        -- The next call finds these rows and locks the table.
        raise exception 'rows were inserted into the default partition of % in the meantime', parent using errcode = 'lock_not_available';
      end if;
      execute format('alter table %I.%I attach partition %I.%I for values from (%L) to (%L)',
        home, parent, home, name, to_char(day, midnight), to_char(day + days, midnight));
      made := made + 1;
    end if;
    day := day + days;
  end loop;
  return made;
end $$;
-- +goose StatementEnd
revoke execute on function ensure_partitions(text, text, text, date, date, integer) from public;

-- +goose StatementBegin
-- Creates the missing daily partitions of clicks for all days from the argument first to
-- the argument last, both included.
create function ensure_click_partitions(first date, last date) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  made integer;
  -- The schema that contains the tables. It is read from the catalogue, because
  -- search_path is fixed and does not contain this schema.
  home text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where c.relname = 'clicks' and c.relkind = 'p' limit 1);
begin
  -- Only one database session at a time creates partitions. Other sessions wait for a
  -- second at most.
  perform pg_advisory_xact_lock(7305804402567017331);
  execute format('select %I.ensure_partitions($1, $2, $3, $4, $5, $6)', home) into made using home, 'clicks', 'clicked_at', first, last, 1;
  return made;
end $$;
-- +goose StatementEnd
revoke execute on function ensure_click_partitions(date, date) from public;
grant execute on function ensure_click_partitions(date, date) to tributary_app;

-- Daily sums, which replace clicks after 13 months. A link has at most 200 rows per
-- day: one for each of its most frequent combinations of values, and one for all other
-- combinations, whose values are null. If the day is summed up in pieces, the limit
-- applies to each piece. Values that differ for nearly every click (landing page, sub
-- id) are left out. The clicks of one combination may be distributed over several rows;
-- readers must add them up.
create table click_days (
  workspace_id    uuid not null,
  mode            text not null,
  program_id      uuid not null,
  participant_id  uuid not null,
  link_id         uuid,
  day             date not null,                -- of receipt, UTC
  country         text,
  device          text,
  browser         text,
  os              text,
  paid_platform   text,
  referrer_domain text,
  utm_source      text,
  utm_medium      text,
  utm_campaign    text,
  others          boolean not null,             -- the row of all other combinations
  clicks          bigint not null,              -- clicks and unique_clicks do not include clicks of bots
  unique_clicks   bigint not null,
  bot_clicks      bigint not null
);
create index click_days_by_day on click_days (workspace_id, mode, day);
grant select on click_days to tributary_app;

-- The progress of a day that is summed up in pieces. The clicks in all blocks before the
-- given block of the day's partition have been replaced by sums and deleted. A click that
-- was updated after that is an exception, because the update can move it into one of
-- these blocks. The function roll_clicks continues at the given block.
create table click_rolls (
  day_table text primary key,
  block     bigint not null
);

-- +goose StatementBegin
-- Replaces the clicks of the oldest day by sums in click_days and drops the day's
-- partition. If no partition is old enough, the function replaces old clicks of the
-- default partition; the argument most limits their number. If a day's partition has more
-- blocks than the argument blocks, each call processes one piece of this size and deletes
-- the clicks of the piece. The call that processes the last piece drops the partition.
-- The function returns the number of replaced clicks, or null if there is nothing to do
-- or another session is doing it.
--
-- The caller cannot choose which days are old enough. These are the days that ended at
-- least 13 months ago by the database's clock. A click is deleted in the transaction
-- that adds it to the sums, so it is always counted exactly once.
--
-- While the function computes the sums, other transactions can read the day, and none
-- has to wait. Dropping the partition needs an exclusive lock on the whole table for a
-- moment. If a long transaction prevents this lock, all later transactions would have
-- to wait too. The function therefore fails after one second with lock_not_available.
create function roll_clicks(most integer, blocks integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  kept   timestamptz := date_trunc('day', now() at time zone 'UTC' - interval '13 months') at time zone 'UTC';
  -- The schema that contains the tables. It is read from the catalogue, because
  -- search_path is fixed and does not contain this schema.
  home   text := (select n.nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                  where c.relname = 'clicks' and c.relkind = 'p' and pg_get_userbyid(c.relowner) = current_user limit 1);
  oldest text;
  source text;
  first  bigint;
  whole  boolean := true;                       -- this call processes all remaining blocks of the partition
  rolled bigint;
begin
  if not pg_try_advisory_xact_lock(7305804402567017332) then
    return null;
  end if;
  select c.relname into oldest
  from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = format('%I.clicks', home)::regclass
    and c.relname ~ '^clicks_[0-9]{8}$' and c.relname < 'clicks_' || to_char(kept at time zone 'UTC', 'YYYYMMDD')
  order by c.relname
  limit 1;
  if oldest is not null then
    execute format('select coalesce((select block from %I.click_rolls where day_table = $1), 0)', home) into first using oldest;
    whole := first + blocks >= pg_relation_size(format('%I.%I', home, oldest)::regclass) / current_setting('block_size')::bigint;
  end if;
  if oldest is not null and whole then
    -- The lock prevents that rows are inserted or changed between the sums and the
    -- drop. All remaining rows are read, because a changed click can be in any block.
    execute format('lock table %I.%I in share mode', home, oldest);
    source := format('select * from %I.%I', home, oldest);
  elsif oldest is not null then
    source := format('delete from %I.%I where ctid >= %L::tid and ctid < %L::tid returning *', home, oldest,
      format('(%s,0)', first), format('(%s,0)', first + blocks));
    execute format('insert into %I.click_rolls (day_table, block) values ($1, $2) on conflict (day_table) do update set block = excluded.block', home)
      using oldest, first + blocks;
  else
    source := format(
      'delete from %1$I.clicks_default where ctid = any (array(select ctid from %1$I.clicks_default where clicked_at < $1 limit $2)) returning *',
      home);
  end if;
  execute format($roll$
    with rolled as (%s), combined as (
      select workspace_id, mode, program_id, participant_id, link_id, (received_at at time zone 'UTC')::date as day,
        country, device, browser, os, paid_platform, referrer_domain, utm_source, utm_medium, utm_campaign,
        count(*) as n, count(*) filter (where not is_bot) as clicks,
        count(*) filter (where is_unique and not is_bot) as unique_clicks, count(*) filter (where is_bot) as bot_clicks
      from rolled
      group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    ), ranked as (
      select *, row_number() over (
          partition by workspace_id, mode, program_id, participant_id, link_id, day order by n desc
        ) >= 200 as others
      from combined
    ), kept as (
      insert into %I.click_days (workspace_id, mode, program_id, participant_id, link_id, day,
        country, device, browser, os, paid_platform, referrer_domain, utm_source, utm_medium, utm_campaign,
        others, clicks, unique_clicks, bot_clicks)
      select workspace_id, mode, program_id, participant_id, link_id, day,
        country, device, browser, os, paid_platform, referrer_domain, utm_source, utm_medium, utm_campaign,
        false, clicks, unique_clicks, bot_clicks
      from ranked where not others
      union all
      select workspace_id, mode, program_id, participant_id, link_id, day,
        null, null, null, null, null, null, null, null, null,
        true, sum(clicks), sum(unique_clicks), sum(bot_clicks)
      from ranked where others
      group by 1, 2, 3, 4, 5, 6
    )
    select coalesce(sum(n), 0) from combined
  $roll$, source, home) into rolled using kept, most;
  if oldest is null then
    return nullif(rolled, 0);
  end if;
  if whole then
    execute format('drop table %I.%I', home, oldest);
    execute format('delete from %I.click_rolls where day_table = $1', home) using oldest;
  end if;
  return rolled;
end $$;
-- +goose StatementEnd
revoke execute on function roll_clicks(integer, integer) from public;
grant execute on function roll_clicks(integer, integer) to tributary_app;

-- +goose StatementBegin
-- Removes the campaign parameters and the referrer from the sums of one day of clicks of a
-- workspace, or of one of its participants. The argument most limits the number of rows. The
-- function returns the number of changed rows.
create function erase_click_days(workspace uuid, participant uuid, of_day date, most integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  home    text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                   where c.relname = 'erasures' and c.relkind = 'r' and pg_get_userbyid(c.relowner) = current_user limit 1);
  changed bigint;
begin
  execute format($update$
    update %1$I.click_days set referrer_domain = null, utm_source = null, utm_medium = null, utm_campaign = null
    where ctid = any (array(
      select ctid from %1$I.click_days
      where workspace_id = $1 and mode in ('test', 'live') and day = $3 and ($2 is null or participant_id = $2)
        and num_nonnulls(referrer_domain, utm_source, utm_medium, utm_campaign) > 0
      limit $4
    ))
  $update$, home) using workspace, participant, of_day, most;
  get diagnostics changed = row_count;
  return changed;
end $$;
-- +goose StatementEnd
revoke execute on function erase_click_days(uuid, uuid, date, integer) from public;
grant execute on function erase_click_days(uuid, uuid, date, integer) to tributary_app;

-- Clicks that ingestion could not store, with the reason. Every acknowledged click is
-- stored here or in clicks.
create table click_dead_letters (
  id         uuid primary key,                  -- id of the click, or a new id if it has none
  reason     text not null,
  record     bytea not null,                    -- edge.v1.Click, or the raw stream entry
  created_at timestamptz not null
);
create index click_dead_letters_by_age on click_dead_letters (created_at);
grant select, insert, update, delete on click_dead_letters to tributary_app;

-- Conversions that wait for a click that has not arrived. The rows are kept for 24
-- hours.
create table awaited_clicks (
  workspace_id  uuid not null,
  click_id      uuid not null,
  conversion_id uuid not null,
  mode          text not null,
  created_at    timestamptz not null,
  expires_at    timestamptz not null,
  primary key (workspace_id, click_id, conversion_id)
);
create index awaited_clicks_by_expiry on awaited_clicks (expires_at);
grant select, insert, update, delete on awaited_clicks to tributary_app;

-- This sequence orders the writes to the edge directory. A writer first takes a number
-- and then reads the data that it writes. Data with a higher number is therefore never
-- older.
create sequence directory_version;
grant usage on sequence directory_version to tributary_app;

-- Conversions
-- -----------

create table conversions (
  workspace_id            uuid not null references workspaces (id),
  id                      uuid not null,
  mode                    text not null check (mode in ('test', 'live')),
  external_transaction_id text not null,
  event_type              text not null,
  amount_cents            bigint not null check (amount_cents between 0 and 1000000000000),
  currency                text,
  tax_cents               bigint not null,
  shipping_cents          bigint not null,
  fee_cents               bigint not null,
  discount_cents          bigint not null,
  occurred_at             timestamptz not null,
  created_at              timestamptz not null,
  source                  text not null check (source in ('api', 'stripe', 'import', 'manual')),
  status                  text not null check (status in ('recorded', 'partially_refunded', 'refunded', 'disputed')),
  refunded_amount_cents   bigint not null default 0,
  attributed              boolean not null,
  reason_code             text not null,
  decision_id             uuid not null,        -- the decision in force
  program_id              uuid,
  participant_id          uuid,
  click_id                uuid,                 -- as reported
  promo_code              text,                 -- as reported, case-folded
  customer_ref            text,                 -- keyed hash of customer_id
  customer_email_hash     bytea,
  customer_email_domain   text,
  subscription_id         text,
  product_ids             text[] not null,
  line_items              jsonb,
  is_recurring            boolean not null,
  sub_id                  text,
  metadata                jsonb,
  customer_ip_hash        bytea,
  customer_ua_hash        bytea,
  fraud_score             integer not null,
  fraud_signals           jsonb not null,
  version                 integer not null,
  link_id                 uuid,
  recurring_index         integer,
  -- The processor's ids of the sale, see affiliate.ProcessorIDs. Null: reported by the
  -- merchant alone.
  processor               jsonb,
  -- When the data of the buyer was erased.
  buyer_erased_at         timestamptz,
  primary key (workspace_id, id)
);
create unique index conversions_external on conversions (workspace_id, mode, external_transaction_id);
create index conversions_by_age on conversions (workspace_id, mode, created_at desc, id desc);
-- Indexes for the numbers that fraud rules count, and for lists.
create index conversions_by_participant_time on conversions (workspace_id, mode, participant_id, created_at desc, id desc) include (amount_cents, refunded_amount_cents);
create index conversions_refunded on conversions (workspace_id, mode, participant_id) where status = 'refunded';
create index conversions_by_program on conversions (workspace_id, mode, program_id, created_at desc, id desc) where program_id is not null;
create index conversions_by_attributed on conversions (workspace_id, mode, attributed, created_at desc, id desc);
create index conversions_by_event_type on conversions (workspace_id, mode, event_type, created_at desc, id desc);
create index conversions_by_click on conversions (workspace_id, click_id) where click_id is not null;
-- A conversion searches for conversions of the same customer with other participants. With
-- the programme and the participant in the indexes, the search reads a few rows, even if one
-- participant has many conversions of the customer.
create index conversions_by_customer on conversions (workspace_id, mode, customer_ref, program_id, participant_id) where customer_ref is not null;
create index conversions_by_email on conversions (workspace_id, mode, customer_email_hash, program_id, participant_id) where customer_email_hash is not null;
-- Conversions of a customer of a payment processor.
create index conversions_by_processor_customer on conversions (workspace_id, mode, (processor ->> 'customer_id'))
  where (processor ->> 'customer_id') is not null;
grant select, insert, update, delete on conversions to tributary_app;

-- The ids by which a processor knows the sale of a conversion: session, payment intents,
-- charge, invoice. Each id belongs to one conversion, so a sale that is reported under two
-- of its ids is recorded once. External transaction ids that have the form of such an id
-- are aliases too.
create table conversion_aliases (
  workspace_id  uuid not null,
  mode          text not null check (mode in ('test', 'live')),
  id            text not null,
  conversion_id uuid not null,
  primary key (workspace_id, mode, id)
);
create index conversion_aliases_by_conversion on conversion_aliases (workspace_id, conversion_id);
grant select, insert, update, delete on conversion_aliases to tributary_app;

-- Append-only: no row is ever changed. A later decision about the same conversion
-- supersedes the earlier one.
create table attribution_decisions (
  workspace_id   uuid not null,
  id             uuid not null,
  conversion_id  uuid not null,
  mode           text not null,
  attributed     boolean not null,
  method         text,
  reason_code    text not null,
  explanation    text not null,
  engine_version text not null,
  program_id     uuid,
  participant_id uuid,
  click_id       uuid,
  clicked_at     timestamptz,                   -- received_at of the click that was attributed
  expires_at     timestamptz,
  trace          jsonb not null,                -- inputs, candidates, steps, rule, calculation
  supersedes     uuid,
  decided_at     timestamptz not null,
  -- decided_by is the member who made a decision, if a member made it.
  decided_by     uuid,
  primary key (workspace_id, id),
  foreign key (workspace_id, conversion_id) references conversions (workspace_id, id)
);
create index attribution_decisions_by_conversion on attribution_decisions (workspace_id, conversion_id, decided_at);
create index attribution_decisions_by_age on attribution_decisions (workspace_id, mode, decided_at desc, id desc);
create index attribution_decisions_by_reason on attribution_decisions (workspace_id, mode, reason_code, decided_at desc, id desc);
create index attribution_decisions_by_refusal on attribution_decisions (workspace_id, mode, decided_at desc, id desc) where not attributed;
create index attribution_decisions_by_program on attribution_decisions (workspace_id, mode, (trace #>> '{program,id}'), decided_at desc, id desc);
create index attribution_decisions_superseding on attribution_decisions (workspace_id, supersedes) where supersedes is not null;
grant select, insert on attribution_decisions to tributary_app;

-- +goose StatementBegin
-- Replaces the evidence of fraud rules in the decisions about conversions whose buyer was
-- erased. Decisions are append-only, and the function changes nothing else. It returns the
-- number of changed decisions.
create function erase_decision_evidence(workspace uuid, erased_mode text, conversions uuid[], replacement text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- The schema that contains the tables. It is read from the catalogue, because
  -- search_path is fixed and does not contain this schema.
  home    text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                   where c.relname = 'attribution_decisions' and c.relkind = 'r' and pg_get_userbyid(c.relowner) = current_user limit 1);
  changed bigint;
begin
  execute format($update$
    update %1$I.attribution_decisions d
    set trace = jsonb_set(d.trace, '{fraud}', (
      select jsonb_agg(s.signal || jsonb_build_object('evidence', $4) order by s.n)
      from jsonb_array_elements(d.trace -> 'fraud') with ordinality as s (signal, n)
    ))
    from %1$I.conversions c
    where c.workspace_id = $1 and c.mode = $2 and c.id = any($3) and c.buyer_erased_at is not null
      and d.workspace_id = c.workspace_id and d.mode = c.mode and d.conversion_id = c.id
      and jsonb_typeof(d.trace -> 'fraud') = 'array' and jsonb_array_length(d.trace -> 'fraud') > 0
  $update$, home) using workspace, erased_mode, conversions, replacement;
  get diagnostics changed = row_count;
  return changed;
end $$;
-- +goose StatementEnd
revoke execute on function erase_decision_evidence(uuid, text, uuid[], text) from public;
grant execute on function erase_decision_evidence(uuid, text, uuid[], text) to tributary_app;

-- A merchant's customers that occur in reported conversions. The row is locked while the
-- service decides to whom it attributes a conversion of the customer. The first
-- attributed conversion binds the customer to the participant of this conversion.
create table customers (
  workspace_id   uuid not null references workspaces (id),
  mode           text not null check (mode in ('test', 'live')),
  ref            text not null,                 -- keyed hash of customer_id
  program_id     uuid,
  participant_id uuid,
  conversion_id  uuid,                          -- the conversion that created the binding
  bound_at       timestamptz,
  signal_at      timestamptz,                   -- time of the click that created the binding; without a click: bound_at
  window_ends_at timestamptz,                   -- last instant at which the binding wins over a later click
  created_at     timestamptz not null,
  -- The name under which the merchant sees the customer in lists.
  label          text,
  primary key (workspace_id, mode, ref),
  check ((program_id is null) = (participant_id is null) and (program_id is null) = (bound_at is null) and (program_id is null) = (signal_at is null))
);
grant select, insert, update, delete on customers to tributary_app;

-- The number of a customer's payments in each programme. A payment is an attributed
-- purchase or renewal.
create table customer_payments (
  workspace_id uuid not null,
  mode         text not null,
  ref          text not null,
  program_id   uuid not null,
  payments     integer not null,
  first_at     timestamptz not null,            -- time of the first attributed payment
  primary key (workspace_id, mode, ref, program_id)
);
grant select, insert, update, delete on customer_payments to tributary_app;

-- Reported refunds. A refund whose conversion is unknown is parked: it is stored without
-- being applied until the conversion is reported, or until expires_at. amount_cents is
-- set when the refund is applied and does not change after that.
create table refunds (
  workspace_id            uuid not null,
  id                      uuid not null,
  mode                    text not null check (mode in ('test', 'live')),
  external_refund_id      text not null,
  external_transaction_id text not null,
  conversion_id           uuid,                 -- null: parked
  asked_cents             bigint,               -- requested amount; null: all that remains
  amount_cents            bigint,               -- refunded amount; null: parked
  reason                  text,
  created_at              timestamptz not null,
  applied_at              timestamptz,
  expires_at              timestamptz not null, -- for a parked refund
  primary key (workspace_id, id),
  check ((conversion_id is null) = (amount_cents is null))
);
create unique index refunds_external on refunds (workspace_id, mode, external_refund_id);
create index refunds_by_conversion on refunds (workspace_id, conversion_id, created_at) where conversion_id is not null;
create index refunds_parked on refunds (workspace_id, mode, external_transaction_id) where conversion_id is null;
create index refunds_parked_by_expiry on refunds (expires_at) where conversion_id is null;
grant select, insert, update, delete on refunds to tributary_app;

create table fraud_events (
  workspace_id   uuid not null,
  id             uuid not null,
  mode           text not null check (mode in ('test', 'live')),
  program_id     uuid not null,
  participant_id uuid not null,
  conversion_id  uuid not null,
  commission_id  uuid,
  score          integer not null check (score between 0 and 100),
  signals        jsonb not null,                -- [{rule, score, evidence}]
  action         text not null check (action in ('observed', 'flagged', 'blocked')),
  status         text not null check (status in ('open', 'confirmed', 'dismissed')),
  note           text,
  resolved_by    uuid,
  resolved_at    timestamptz,
  created_at     timestamptz not null,
  primary key (workspace_id, id),
  foreign key (workspace_id, conversion_id) references conversions (workspace_id, id)
);
create index fraud_events_by_age on fraud_events (workspace_id, mode, created_at desc, id desc);
create index fraud_events_by_status on fraud_events (workspace_id, mode, status, created_at desc, id desc);
create index fraud_events_by_program on fraud_events (workspace_id, mode, program_id, created_at desc, id desc);
-- For the references to a conversion that is deleted with the test data.
create index fraud_events_by_conversion on fraud_events (workspace_id, conversion_id);
-- The export of a participant would otherwise read the fraud events of the whole workspace.
create index fraud_events_by_participant on fraud_events (workspace_id, mode, participant_id, created_at, id);
grant select, insert, update, delete on fraud_events to tributary_app;

-- Stored responses to requests with an Idempotency-Key, kept for 24 hours. A
-- transaction first inserts the row, then processes the request and stores the
-- response. A concurrent request with the same key waits for this transaction.
create table idempotency_keys (
  workspace_id uuid not null,
  mode         text not null,
  method       text not null,                   -- full name of the RPC
  key          text not null,
  fingerprint  bytea not null,                  -- keyed hash of the request
  response     bytea,                           -- the response message
  created_at   timestamptz not null,
  expires_at   timestamptz not null,
  primary key (workspace_id, mode, method, key)
);
create index idempotency_keys_by_expiry on idempotency_keys (expires_at);
grant select, insert, update, delete on idempotency_keys to tributary_app;

-- Exchange rates that the operator has loaded: one unit of base is worth rate units of
-- quote. They belong to no workspace.
create table fx_rates (
  base      text not null,                      -- ISO 4217
  quote     text not null,
  date      date not null,                      -- UTC
  rate      numeric not null check (rate > 0),
  loaded_at timestamptz not null,
  primary key (base, quote, date)
);
grant select, insert, update, delete on fx_rates to tributary_app;

-- Commissions
-- -----------

create table commissions (
  workspace_id            uuid not null,
  id                      uuid not null,
  mode                    text not null check (mode in ('test', 'live')),
  program_id              uuid not null,
  participant_id          uuid not null,
  partner_id              uuid not null,
  conversion_id           uuid not null,
  decision_id             uuid not null,
  external_transaction_id text not null,
  click_id                uuid,
  promo_code              text,
  customer_ref            text,
  status                  text not null check (status in ('pending', 'approved', 'rejected', 'paid', 'refunded')),
  commission_type         text not null check (commission_type in ('percentage', 'flat')),
  event_type              text not null,
  rate_bps                bigint,
  flat_amount_cents       bigint,
  amount_cents            bigint not null check (amount_cents >= 0),
  original_amount_cents   bigint not null,
  currency                text not null,
  base_amount_cents       bigint not null,
  sale_amount_cents       bigint not null,
  sale_currency           text not null,
  fx_rate                 text,
  fx_date                 date,
  recurring_index         integer,
  needs_review            boolean not null,
  review_reasons          text[] not null,
  dispute_status          text not null check (dispute_status in ('none', 'open', 'won', 'lost')),
  hold_until              timestamptz,          -- null: no hold period
  auto_approve_at         timestamptz,          -- null: only a member can approve it
  override_reason         text,
  override_by             uuid,
  rejection_reason        text,
  rejection_code          text,
  approved_at             timestamptz,
  approved_by             text,                 -- user id, or system
  rejected_at             timestamptz,
  paid_at                 timestamptz,
  refunded_at             timestamptz,
  payout_id               uuid,
  rule_snapshot           jsonb not null,       -- {version, rules}
  version                 integer not null,     -- incremented by every change
  created_at              timestamptz not null,
  updated_at              timestamptz not null,
  primary key (workspace_id, id),
  check (amount_cents <= original_amount_cents),
  check ((commission_type = 'percentage') = (rate_bps is not null)),
  check ((commission_type = 'flat') = (flat_amount_cents is not null)),
  foreign key (workspace_id, conversion_id) references conversions (workspace_id, id)
);
-- A decision has at most one commission, so that a repeated job does not create a
-- second one.
create unique index commissions_decision on commissions (workspace_id, decision_id);
create index commissions_by_age on commissions (workspace_id, mode, created_at desc, id desc);
create index commissions_by_status on commissions (workspace_id, mode, status, created_at desc, id desc) include (amount_cents);
create index commissions_by_program on commissions (workspace_id, mode, program_id, created_at desc, id desc);
create index commissions_by_participant on commissions (workspace_id, mode, participant_id, created_at desc, id desc);
create index commissions_due on commissions (auto_approve_at) where status = 'pending' and not needs_review;
-- Indexes for searching commissions by prefix, regardless of case. Each index has an
-- entry for every row, so the cost of a search is its number of matches and does not
-- depend on the other rows of the workspace. For each index, an insert has to write one
-- more leaf page. Commission ids need no separate index: the ids with a prefix are a
-- range of the primary key.
--
-- The index of promo codes also contains the rows without a code. They need little space,
-- because Postgres stores equal values of many rows together. Without these rows,
-- Postgres would have no statistics about them and would expect two hundred times as many
-- matches as there are.
create index commissions_by_external on commissions (workspace_id, mode, lower(external_transaction_id) text_pattern_ops);
create index commissions_by_promo_code on commissions (workspace_id, mode, lower(promo_code) text_pattern_ops);
-- Index of the commissions that need review. It has few rows, even in a large
-- workspace.
create index commissions_flagged on commissions (workspace_id, mode, created_at desc, id desc) where needs_review;
-- Index of the commissions of a participant that are approved and not yet paid, by
-- currency.
create index commissions_payable on commissions (workspace_id, participant_id, currency) include (amount_cents) where status = 'approved';
create index commissions_by_partner on commissions (partner_id, mode, created_at desc, id desc);
create index commissions_by_partner_status on commissions (partner_id, mode, status, created_at desc, id desc) include (currency, amount_cents);
create index commissions_by_payout on commissions (workspace_id, payout_id) where payout_id is not null;
-- Index of the commissions that the next payout batch considers.
create index commissions_unpaid on commissions (workspace_id, mode, participant_id, currency)
  include (amount_cents, approved_at, hold_until, needs_review, dispute_status, program_id) where status = 'approved' and payout_id is null;
create index commissions_by_conversion on commissions (workspace_id, conversion_id);
grant select, insert, update, delete on commissions to tributary_app;

-- Append-only. Each row is a change of a commission's status: who made the change, and
-- the statuses before and after it.
create table commission_history (
  workspace_id  uuid not null,
  commission_id uuid not null,
  seq           integer not null,               -- the commission's version after the change
  at            timestamptz not null,
  actor         text not null,                  -- user id, or system
  from_status   text,
  to_status     text not null,
  amount_cents  bigint not null,                -- after the change
  reason        text,
  -- The reason of a move as a code that programs can evaluate: the rejection code, or the
  -- code of a suspension or reinstatement. The column reason is the text for people.
  code          text,
  primary key (workspace_id, commission_id, seq),
  foreign key (workspace_id, commission_id) references commissions (workspace_id, id)
);
grant select, insert on commission_history to tributary_app;

-- Commission counters. The transactions that change commissions update them. There are
-- counters for all time, for each UTC month and for each UTC day of created_at (the
-- column grain). The total of a period is therefore a sum of a few counters plus the
-- rows of at most two incomplete days. Counters are distributed over slots in the same
-- way as balances.
create table commission_counts (
  workspace_id uuid not null,
  mode         text not null,
  grain        text not null check (grain in ('ever', 'month', 'day')),
  starts       date not null,                   -- 0001-01-01 for grain 'ever'
  program_id   uuid not null,
  status       text not null,
  needs_review boolean not null,
  currency     text not null,
  slot         smallint not null,
  n            bigint not null,
  amount_cents bigint not null,
  primary key (workspace_id, mode, grain, starts, program_id, status, needs_review, currency, slot)
) with (fillfactor = 70);
grant select, insert, update, delete on commission_counts to tributary_app;

-- Ledger
-- ------

-- The ledger: the amounts that are owed to partners. It is append-only: the service can
-- neither change nor delete an entry. A balance is the sum of one participant's entries
-- in one currency.
create table ledger_entries (
  workspace_id   uuid not null,
  id             uuid not null,
  mode           text not null check (mode in ('test', 'live')),
  program_id     uuid not null,
  participant_id uuid not null,
  partner_id     uuid not null,
  type           text not null check (type in ('commission_approved', 'commission_reversed', 'clawback', 'bonus', 'adjustment', 'payout', 'payout_returned')),
  amount_cents   bigint not null,               -- with its sign
  currency       text not null,
  commission_id  uuid,
  payout_id      uuid,
  reason         text,                          -- set for a bonus or an adjustment
  created_by     text not null,                 -- user id, or system
  created_at     timestamptz not null,
  -- When the event that caused an entry happened, as its reporter says. Null: it is not known,
  -- or it is created_at.
  occurred_at    timestamptz,
  primary key (workspace_id, id),
  foreign key (workspace_id, participant_id) references participants (workspace_id, id)
);
create index ledger_entries_by_participant on ledger_entries (workspace_id, participant_id, mode, created_at desc, id desc);
create index ledger_entries_by_partner on ledger_entries (partner_id, mode, created_at desc, id desc);
create index ledger_entries_by_commission on ledger_entries (workspace_id, commission_id) where commission_id is not null;
create index ledger_entries_by_payout on ledger_entries (workspace_id, payout_id) where payout_id is not null;
-- Index of the entries of a workspace by time, for statements of the balances and for the
-- export. Balances need no other columns.
create index ledger_entries_by_time on ledger_entries (workspace_id, mode, created_at, id)
  include (participant_id, program_id, currency, amount_cents);
grant select, insert on ledger_entries to tributary_app;

-- +goose StatementBegin
-- Returns the time up to which the books of a workspace are closed; null if no period is
-- closed. The result stays valid until the transaction ends, because the transaction that
-- closes a period waits for the lock. A volatile function reads a new snapshot after it has
-- waited for the lock.
create function hold_books(workspace uuid) returns timestamptz
language plpgsql volatile as $$
declare
  closed timestamptz;
begin
  perform pg_advisory_xact_lock_shared(hashtextextended('books:' || workspace, 0));
  select w.books_closed_until into closed from workspaces w where w.id = workspace;
  return closed;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Moves an entry that is dated into a closed period to the beginning of the open period, and
-- keeps its own date in occurred_at.
create function date_ledger_entry() returns trigger
language plpgsql as $$
declare
  closed timestamptz := hold_books(new.workspace_id);
begin
  if new.created_at < closed then
    new.occurred_at := coalesce(new.occurred_at, new.created_at);
    new.created_at := closed;
  end if;
  return new;
end $$;
-- +goose StatementEnd
create trigger date_ledger_entry before insert on ledger_entries
for each row execute function date_ledger_entry();

-- Balances. The transactions that add ledger entries update them. Each balance is
-- distributed over several rows (slots), so that these transactions rarely wait for each
-- other. The balance is the sum of its slots. The command "core check" compares balances
-- with entries.
create table ledger_balances (
  workspace_id   uuid not null,
  participant_id uuid not null,
  currency       text not null,
  slot           smallint not null,
  balance_cents  bigint not null,
  primary key (workspace_id, participant_id, currency, slot)
);
grant select, insert, update, delete on ledger_balances to tributary_app;

-- Payouts
-- -------

-- How a partner wants to be paid. The column account is encrypted, account_hint is not.
create table payout_methods (
  user_id      uuid primary key references users (id),
  method       text not null check (method in ('manual', 'paypal', 'wise', 'bank_transfer', 'stripe_connect', 'store_credit', 'external')),
  account      bytea,
  account_hint text,
  updated_at   timestamptz not null,
  -- New batches leave out the partner until this time, because the method was changed.
  held_until   timestamptz
);
grant select, insert, update, delete on payout_methods to tributary_app;

create table payout_batches (
  workspace_id         uuid not null references workspaces (id),
  id                   uuid not null,
  mode                 text not null check (mode in ('test', 'live')),
  status               text not null check (status in ('draft', 'awaiting_approval', 'confirmed', 'processing', 'completed', 'partially_failed', 'canceled')),
  program_ids          uuid[] not null,         -- empty: all programmes of the mode
  cutoff               timestamptz not null,
  created_by           uuid not null,
  confirmed_by         uuid,
  created_at           timestamptz not null,
  confirmed_at         timestamptz,
  completed_at         timestamptz,
  version              integer not null default 1, -- incremented by every change
  -- The first of two confirmations. first_confirmed_user is the member, or the member who
  -- created the service token in first_confirmed_by.
  first_confirmed_by   uuid,
  first_confirmed_user uuid,
  first_confirmed_at   timestamptz,
  primary key (workspace_id, id)
);
create index payout_batches_by_age on payout_batches (workspace_id, mode, created_at desc, id desc);
-- The batches that were confirmed in the last 24 hours count towards the limit above which
-- two members must confirm a batch.
create index payout_batches_confirmed on payout_batches (workspace_id, mode, confirmed_at) where confirmed_at is not null;
grant select, insert, update, delete on payout_batches to tributary_app;

create table payouts (
  workspace_id     uuid not null,
  id               uuid not null,
  batch_id         uuid not null,
  mode             text not null check (mode in ('test', 'live')),
  program_id       uuid not null,
  participant_id   uuid not null,
  partner_id       uuid not null,
  amount_cents     bigint not null check (amount_cents > 0),
  currency         text not null,
  commission_count bigint not null,
  adjustment_cents bigint not null,             -- part of amount_cents, with its sign
  status           text not null check (status in ('draft', 'pending', 'processing', 'paid', 'failed', 'canceled')),
  method           text not null,
  reference        text,
  failure_reason   text,
  period_start     timestamptz,
  period_end       timestamptz,
  initiated_at     timestamptz,
  paid_at          timestamptz,
  version          integer not null default 1,  -- incremented by every change
  created_at       timestamptz not null,
  updated_at       timestamptz not null,
  -- The account that a payout is paid to, copied from payout_methods by the confirmation of
  -- the batch. The account is encrypted, the hint is not.
  account          bytea,
  account_hint     text,
  -- The name of the partner, if the partner was erased and retain_payee_years keeps it.
  payee_name       text,
  primary key (workspace_id, id),
  foreign key (workspace_id, batch_id) references payout_batches (workspace_id, id),
  foreign key (workspace_id, participant_id) references participants (workspace_id, id)
);
create index payouts_by_age on payouts (workspace_id, mode, created_at desc, id desc);
create index payouts_by_status on payouts (workspace_id, mode, status, created_at desc, id desc);
create index payouts_by_program on payouts (workspace_id, mode, program_id, created_at desc, id desc);
create index payouts_by_batch on payouts (workspace_id, batch_id, status, id);
create index payouts_by_participant on payouts (workspace_id, participant_id, created_at desc, id desc);
create index payouts_by_partner on payouts (partner_id, mode, created_at desc, id desc);
-- Paid payouts whose account is still stored. Their accounts are deleted after 30 days.
create index payouts_account_kept on payouts (paid_at) where status = 'paid' and account is not null;
create index payouts_payee_name on payouts (paid_at) where payee_name is not null;
grant select, insert, update, delete on payouts to tributary_app;

-- The commissions of a payout, with the amounts that they have in the payout.
create table payout_commissions (
  workspace_id  uuid not null,
  payout_id     uuid not null,
  commission_id uuid not null,
  amount_cents  bigint not null,
  primary key (workspace_id, payout_id, commission_id),
  foreign key (workspace_id, payout_id) references payouts (workspace_id, id),
  foreign key (workspace_id, commission_id) references commissions (workspace_id, id)
);
create index payout_commissions_by_commission on payout_commissions (workspace_id, commission_id);
grant select, insert, update, delete on payout_commissions to tributary_app;

-- Analytics
-- ---------

-- The sums of the analytics. A row belongs to a UTC day, to a value of a dimension and to a
-- participant and link, or to the whole programme. Zero ids have these meanings: no link, the
-- whole programme (participant), the conversions that are not attributed (program).
create table analytics_days (
  workspace_id     uuid not null,
  mode             text not null,
  program_id       uuid not null,
  participant_id   uuid not null,
  dimension        text not null,               -- empty: the sum over all values
  day              date not null,               -- UTC
  value            text not null,               -- empty: all values that are not counted separately
  currency         text not null,               -- of the amounts; empty for the other counts
  link_id          uuid not null,
  -- The sums of the day. Null stands for 0 and takes no space. Rows without a currency have
  -- the counts before orders, rows with a currency have the others.
  clicks           bigint,                      -- clicks and unique_clicks do not include clicks of bots
  unique_clicks    bigint,
  bot_clicks       bigint,
  conversions      bigint,
  signups          bigint,
  new_customers    bigint,
  approved         bigint,
  paid             bigint,
  orders           bigint,
  revenue_cents    bigint,
  refunded_cents   bigint,
  commission_cents bigint,
  quarters         bytea not null,              -- the same numbers by quarter of an hour (affiliate/analytics, Quarters)
  primary key (workspace_id, mode, program_id, participant_id, dimension, day, value, currency, link_id)
);
-- For the breakdown of a programme by participants and links.
create index analytics_days_by_owner on analytics_days (workspace_id, mode, program_id, day)
  where dimension = '' and participant_id <> '00000000-0000-0000-0000-000000000000';
-- For values that are no longer counted separately.
create index analytics_days_by_value on analytics_days (workspace_id, mode, dimension, day, value) where dimension <> '';
grant select, insert, update, delete on analytics_days to tributary_app;

-- The values that are counted separately in a day: at most 1,000 of each dimension.
create table analytics_values (
  workspace_id uuid not null,
  mode         text not null,
  dimension    text not null,
  day          date not null,
  value        text not null,
  weight       bigint not null,                 -- decides which value is replaced (affiliate/analytics, SelectValues)
  primary key (workspace_id, mode, dimension, day, value)
);
grant select, insert, update, delete on analytics_values to tributary_app;

-- Clicks and conversions that are not yet part of the sums. Every transaction that stores
-- clicks or changes conversions inserts a row. These inserts do not wait for each other.
create table analytics_log (
  workspace_id uuid not null,
  mode         text not null,
  id           bigint generated always as identity,
  clicks       bytea,                           -- a list of clicks (affiliate/analytics, ClickLog)
  oldest_click timestamptz,                     -- the time of the oldest click in the list
  conversions  uuid[],                          -- conversions whose numbers may have changed
  erased       uuid,                            -- a participant whose clicks lose their personal values
  created_at   timestamptz not null default now(),
  primary key (workspace_id, mode, id)
);
alter table analytics_log alter column clicks set storage external; -- packed data cannot be compressed
grant select, insert, update, delete on analytics_log to tributary_app;

-- The conversions as they are contained in the sums.
create table analytics_conversions (
  workspace_id        uuid not null,
  mode                text not null,
  conversion_id       uuid not null,
  program_id          uuid not null,            -- zero: not attributed
  participant_id      uuid not null,
  link_id             uuid not null,            -- zero: no link
  occurred_at         timestamptz not null,
  event_type          text not null,
  dimension_values    text[] not null,          -- empty texts for dimensions without a value
  customer_ref        text,
  click_id            uuid,                     -- the click that attributed the conversion
  currency            text not null,            -- empty: no amounts
  amount_cents        bigint not null,
  refunded_cents      bigint not null,
  commission_status   text not null,            -- empty: no commission
  commission_cents    bigint not null,
  commission_currency text not null,
  -- The analytics count each attributed conversion without a customer as a new customer.
  -- without_customer says whether the sums contain the conversion in this way.
  without_customer    boolean not null default false,
  primary key (workspace_id, mode, conversion_id)
);
create index analytics_conversions_by_customer on analytics_conversions (workspace_id, mode, customer_ref, occurred_at, conversion_id)
  where customer_ref is not null and program_id <> '00000000-0000-0000-0000-000000000000';
create index analytics_conversions_by_participant on analytics_conversions (workspace_id, mode, participant_id, occurred_at);
create index analytics_conversions_by_time on analytics_conversions (workspace_id, mode, occurred_at);
grant select, insert, update, delete on analytics_conversions to tributary_app;

-- The customers with attributed conversions, as they are contained in the sums of cohorts.
create table analytics_customers (
  workspace_id   uuid not null,
  mode           text not null,
  customer_ref   text not null,
  conversion_id  uuid not null,                 -- the first attributed conversion
  first_at       timestamptz not null,
  program_id     uuid not null,                 -- of the first conversion, like the next two
  participant_id uuid not null,
  link_id        uuid not null,                 -- zero: no link
  activity       bytea not null,                -- the conversions by month (affiliate/analytics, Activity)
  primary key (workspace_id, mode, customer_ref)
);
grant select, insert, update, delete on analytics_customers to tributary_app;

-- The sums of cohorts, by months in UTC. A row belongs to the customers whose first conversion
-- and whose conversions have the programme, participant and link. Zero ids match all.
create table analytics_cohorts (
  workspace_id     uuid not null,
  mode             text not null,
  program_id       uuid not null,
  participant_id   uuid not null,
  link_id          uuid not null,
  cohort           date not null,               -- the month of the first conversions: its first day
  month            date not null,               -- the month of the conversions
  currency         text not null,               -- of the amounts; empty for the other counts
  customers        bigint not null,             -- customers with a conversion in the month
  conversions      bigint not null,
  revenue_cents    bigint not null,
  commission_cents bigint not null,
  primary key (workspace_id, mode, program_id, participant_id, link_id, cohort, month, currency)
);
grant select, insert, update, delete on analytics_cohorts to tributary_app;

-- A transaction that changes sums locks the row of the workspace and mode. It also changes the
-- version, so that a transaction with an older snapshot cannot delete the row.
create table analytics_locks (
  workspace_id uuid not null,
  mode         text not null,
  version      bigint not null,
  primary key (workspace_id, mode)
);
grant select, insert, update, delete on analytics_locks to tributary_app;

-- Payment processors
-- ------------------

-- Connected accounts of payment processors. A workspace has at most one connection per
-- processor and mode. A deleted connection stays until a job has deleted its endpoint at
-- the processor.
create table processor_connections (
  workspace_id          uuid not null references workspaces (id),
  id                    uuid not null,
  mode                  text not null check (mode in ('test', 'live')),
  processor             text not null,
  account_id            text not null,
  key                   bytea not null,         -- restricted key, encrypted
  endpoint_id           text not null,          -- webhook endpoint at the processor
  secret                bytea not null,         -- signs the messages, encrypted
  previous_secret       bytea,                  -- of the endpoint before the last reconnection, encrypted
  previous_secret_until timestamptz,
  create_conversions    boolean not null,
  include_out_of_band   boolean not null,
  connected_at          timestamptz not null,   -- sales before this time are only read by a resync
  failure_notified_on   date,                   -- last UTC day with a notification about failed events
  updated_at            timestamptz not null,
  deleted_at            timestamptz,
  endpoint_failing      boolean not null default false, -- the merchant is notified that the endpoint does not work
  -- A resync reads its events in parts. A later resync replaces it.
  resync_number         int not null default 0,
  resync_since          timestamptz,            -- earliest time of a sale that the resync reads; null: no resync is running
  resync_from           timestamptz,            -- begin of the part that is read
  primary key (workspace_id, id)
);
create unique index processor_connections_by_id on processor_connections (id);
create unique index processor_connections_active on processor_connections (workspace_id, mode, processor) where deleted_at is null;
grant select, insert, update, delete on processor_connections to tributary_app;

-- Messages to the endpoints of connections whose signature is not valid, per hour.
create table processor_signature_failures (
  workspace_id  uuid not null,
  connection_id uuid not null,
  hour          timestamptz not null,
  failures      bigint not null,
  primary key (workspace_id, connection_id, hour)
);
grant select, insert, update, delete on processor_signature_failures to tributary_app;

-- Events of payment processors. They are stored before the processor gets its response. A
-- job applies each of them. Rows are deleted after 90 days.
create table processor_events (
  workspace_id  uuid not null,
  connection_id uuid not null,
  id            text not null,                  -- the processor's id
  mode          text not null check (mode in ('test', 'live')),
  type          text not null,
  body          bytea,                          -- encrypted; null: the event needs no more work
  resync        boolean not null,               -- read from the list of events and not received
  since         timestamptz,                    -- of the resync: earliest time of a sale
  status        text not null check (status in ('received', 'applied', 'ignored', 'parked', 'failed')),
  reason        text,
  conversion_id uuid,
  happened_at   timestamptz not null,           -- as the processor says
  received_at   timestamptz not null,
  processed_at  timestamptz,
  -- An event is only applied with the key of the account to which it belongs.
  account_id    text not null,                  -- of the processor
  charge_id     text,                           -- of a parked event: its charge, which is stored
  -- An attempt to apply an event ends before this time; null: no attempt is running. An erasure
  -- of a buyer empties no event while an attempt is running, because the attempt has read it.
  attempt_until timestamptz,
  primary key (workspace_id, connection_id, id)
);
create index processor_events_list on processor_events (workspace_id, mode, received_at desc, id desc);
create index processor_events_waiting on processor_events (workspace_id, connection_id, received_at) where status = 'received';
create index processor_events_by_age on processor_events (received_at);
-- Events of payment processors that need more work. They are few.
create index processor_events_with_body on processor_events (workspace_id, connection_id, id) where body is not null;
grant select, insert, update, delete on processor_events to tributary_app;

-- What a processor last said about the refunds of a charge, in minor units of currency.
create table processor_charges (
  workspace_id   uuid not null,
  mode           text not null check (mode in ('test', 'live')),
  id             text not null,
  currency       text not null,
  amount_cents   bigint not null,               -- 0: unknown
  refunded_cents bigint not null,
  conversion_id  uuid,                          -- null: the sale is not recorded yet
  read_number    bigint not null,               -- of the read that saw this state
  updated_at     timestamptz not null,
  -- The read_number of the state that was last applied to the conversion.
  applied_number bigint not null default 0,
  -- The time of the latest event of the processor about the charge. Null: only the merchant
  -- has reported a dispute.
  happened_at    timestamptz,
  primary key (workspace_id, mode, id)
);
create index processor_charges_by_conversion on processor_charges (workspace_id, conversion_id) where conversion_id is not null;
grant select, insert, update, delete on processor_charges to tributary_app;

-- The ids of the sales of charges. A charge belongs to the conversion that has one of these
-- ids as an alias or as its external transaction id.
create table processor_charge_aliases (
  workspace_id uuid not null,
  mode         text not null,
  id           text not null,
  charge_id    text not null,
  primary key (workspace_id, mode, id, charge_id)
);
create index processor_charge_aliases_by_charge on processor_charge_aliases (workspace_id, mode, charge_id);
grant select, insert, update, delete on processor_charge_aliases to tributary_app;

create table processor_disputes (
  workspace_id uuid not null,
  mode         text not null check (mode in ('test', 'live')),
  id           text not null,
  charge_id    text not null,
  status       text not null check (status in ('open', 'won', 'lost')),
  amount_cents bigint,                          -- null: the whole charge
  updated_at   timestamptz not null,
  primary key (workspace_id, mode, id)
);
create index processor_disputes_by_charge on processor_disputes (workspace_id, mode, charge_id);
grant select, insert, update, delete on processor_disputes to tributary_app;

-- Numbers the reads of charges, so that an older state never replaces a newer one.
create sequence processor_reads;
grant usage on sequence processor_reads to tributary_app;

-- The promo codes that were created at a processor. Old ids stay, because a buyer may have
-- used them before.
create table processor_promo_codes (
  workspace_id      uuid not null,
  mode              text not null check (mode in ('test', 'live')),
  promotion_code_id text not null,
  coupon_id         text not null,
  account_id        text not null,              -- of the processor
  promo_code_id     uuid not null,
  code              text not null,              -- case-folded
  terms             text not null,              -- discount, expiry and limit; a change needs a new promotion code
  active            boolean not null,
  created_at        timestamptz not null,
  primary key (workspace_id, mode, promotion_code_id)
);
create index processor_promo_codes_by_code on processor_promo_codes (workspace_id, promo_code_id);
grant select, insert, update, delete on processor_promo_codes to tributary_app;

-- Events and webhooks
-- -------------------

-- Events and deliveries are in weekly partitions, by the UTC day in their ids. Old weeks are
-- removed by dropping their partitions. Rows of a week without a partition go into the
-- default partition.
create table events (
  workspace_id    uuid not null,
  id              uuid not null,
  day             date not null,                -- day in the id, UTC
  mode            text not null,
  type            text not null,
  subject_id      uuid,                         -- the participant or the conversion whose personal data the body contains
  body            bytea not null,               -- the envelope, exactly as it is sent
  created_at      timestamptz not null,
  -- The recorded span that caused an event: the trace id and the span id. Null for most events,
  -- because few requests are recorded. The attempts to deliver the event belong to this trace.
  trace_reference bytea,
  primary key (workspace_id, id, day)
) partition by range (day);
create table events_default partition of events default;
create index events_by_subject on events (workspace_id, subject_id) where subject_id is not null;
grant select, insert, delete, update (body) on events to tributary_app;
grant select on events_default to tributary_app; -- for the alarm about weeks without a partition

create table webhook_endpoints (
  workspace_id         uuid not null,
  id                   uuid not null,
  mode                 text not null,
  url                  text not null,
  description          text,
  subscriptions        text[] not null,         -- event names, patterns like commission.*, and *
  active               boolean not null,
  disabled_reason      text,                    -- null: active
  secret               bytea,                   -- encrypted; null: deleted
  previous_secret      bytea,                   -- encrypted; deliveries are also signed with it until previous_until
  previous_until       timestamptz,
  -- Incremented each time the endpoint is disabled. Deliveries of an earlier epoch are
  -- not sent any more. The transaction that disables the endpoint therefore changes no
  -- deliveries, however many are waiting.
  epoch                integer not null default 1,
  created_at           timestamptz not null,
  updated_at           timestamptz not null,
  version              integer not null,
  deleted_at           timestamptz,
  -- The health of the endpoint, according to its sender. The counters are reset when a
  -- delivery succeeds or when the endpoint is enabled.
  consecutive_failures integer not null default 0,
  failing_since        timestamptz,
  dead_letters         integer not null default 0,
  last_delivery_at     timestamptz,
  -- The process that has the lease of the endpoint. Until sender_until, no other
  -- process sends to the endpoint.
  sender               uuid,
  sender_until         timestamptz,
  -- The last UTC day on which a delivery to the endpoint became a dead letter. The first
  -- dead letter of a day causes a notification.
  last_dead_letter_day date,
  primary key (workspace_id, id)
) with (fillfactor = 60);
create index webhook_endpoints_by_mode on webhook_endpoints (workspace_id, mode) where deleted_at is null;
grant select, insert, update on webhook_endpoints to tributary_app;

create table webhook_deliveries (
  workspace_id     uuid not null,
  endpoint_id      uuid not null,
  id               uuid not null,               -- delivery_id(event, endpoint)
  day              date not null,               -- day in the id, UTC; same as that of the event
  mode             text not null,
  event_id         uuid not null,
  event_type       text not null,
  epoch            integer not null,            -- epoch of the endpoint when the delivery was created or recovered
  status           text not null default 'pending',
  due_at           timestamptz,                 -- time of the next attempt; null: no further attempt
  tier             integer not null default 0,  -- number of scheduled attempts so far
  extra            integer not null default 0,  -- number of requested attempts still to be made
  attempt_count    integer not null default 0,
  http_status_code integer,                     -- of the last attempt
  error_message    text,
  attempts         jsonb not null default '[]',
  created_at       timestamptz not null,
  completed_at     timestamptz,
  primary key (workspace_id, endpoint_id, id, day)
) partition by range (day);
create table webhook_deliveries_default partition of webhook_deliveries default;
create index webhook_deliveries_due on webhook_deliveries (workspace_id, endpoint_id, epoch, due_at) where due_at is not null;
create index webhook_deliveries_by_status on webhook_deliveries (workspace_id, endpoint_id, status, id) where status <> 'delivered';
grant select, insert, update, delete on webhook_deliveries to tributary_app;
grant select on webhook_deliveries_default to tributary_app; -- for the alarm about weeks without a partition

-- +goose StatementBegin
-- Returns the id of an event's delivery to an endpoint. The id is a UUIDv7 with the
-- event's time, so that the event and the delivery are in the same week. The same
-- arguments always give the same id.
create function delivery_id(event uuid, endpoint uuid) returns uuid
language sql immutable strict parallel safe as $$
  select encode(substring(uuid_send(event) from 1 for 8) || set_byte(digest, 0, get_byte(digest, 0) & 63 | 128), 'hex')::uuid
  from (select substring(decode(md5(event::text || endpoint::text), 'hex') from 1 for 8) as digest) as d
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Creates the missing weekly partitions of the table that the argument parent names, for
-- all days from the argument first to the argument last, both included.
create function ensure_week_partitions(parent text, first date, last date) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  made integer;
  home text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where c.relname = 'webhook_deliveries' and c.relkind = 'p' limit 1);
begin
  if parent not in ('events', 'webhook_deliveries', 'notifications') then
    raise exception 'not a table with weekly partitions: %', parent;
  end if;
  perform pg_advisory_xact_lock(7305804402567017333);
  execute format('select %I.ensure_partitions($1, $2, $3, $4, $5, $6)', home) into made using home, parent, 'day', date_trunc('week', first)::date, last, 7;
  return made;
end $$;
-- +goose StatementEnd
revoke execute on function ensure_week_partitions(text, date, date) from public;
grant execute on function ensure_week_partitions(text, date, date) to tributary_app;

-- +goose StatementBegin
-- Drops old weekly partitions of the table that the argument parent names. A partition is
-- old if its week ended before the first day that is kept: the API returns notifications
-- for 180 days, and events and deliveries for 30 days. A delivery that is recovered on the
-- last of these days can take four more days. From the default partition the function
-- deletes rows that are equally old; the argument most limits their number. The
-- database's clock decides what is old enough, not the caller. The function returns the
-- number of dropped partitions and deleted rows. Dropping a partition needs an exclusive
-- lock on the table for a moment. If the lock is not available within one second, the
-- function fails with lock_not_available.
create function drop_old_weeks(parent text, most integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  kept    date := (now() at time zone 'UTC')::date - case parent when 'notifications' then 180 else 34 end;
  home    text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                   where c.relname = 'webhook_deliveries' and c.relkind = 'p' limit 1);
  week    text;
  dropped bigint := 0;
  strays  bigint;
begin
  if parent not in ('events', 'webhook_deliveries', 'notifications') then
    raise exception 'not a table with weekly partitions: %', parent;
  end if;
  if not pg_try_advisory_xact_lock(7305804402567017334) then
    return 0;
  end if;
  for week in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = format('%I.%I', home, parent)::regclass and c.relname ~ ('^' || parent || '_[0-9]{8}$')
      and to_date(right(c.relname, 8), 'YYYYMMDD') + 7 <= kept
    order by c.relname
  loop
    execute format('drop table %I.%I', home, week);
    dropped := dropped + 1;
  end loop;
  execute format('delete from %1$I.%2$I where ctid = any (array(select ctid from %1$I.%2$I where day < $1 limit $2))', home, parent || '_default')
    using kept, most;
  get diagnostics strays = row_count;
  return dropped + strays;
end $$;
-- +goose StatementEnd
revoke execute on function drop_old_weeks(text, integer) from public;
grant execute on function drop_old_weeks(text, integer) to tributary_app;

-- Notifications
-- -------------

-- Notifications, in weekly partitions by the UTC day in their ids. Old weeks are removed
-- by dropping their partitions. A feed is the list of a workspace or of a partner: its id
-- is the id of the workspace or of the partner's user. The primary key is also the index
-- of every list: a list reads one range of it for each category that the user sees. With
-- the included columns, which are null in most rows, counts read only the index.
create table notifications (
  feed_id        uuid not null,
  mode           text not null,                 -- test, live, or both
  category       text not null,
  day            date not null,                 -- day in the id, UTC
  id             uuid not null,                 -- UUIDv7; contains the time
  type           text not null,
  workspace_id   uuid,                          -- where the cause happened, also in a partner's feed; null: in the partner's account
  user_id        uuid,                          -- the user whom it is about; null: none
  program_id     uuid,
  participant_id uuid,
  resource_id    uuid,
  facts          json not null,                 -- values of the placeholders in the text, except names
  dismissed_at   timestamptz,
  primary key (feed_id, mode, category, day, id) include (user_id, dismissed_at)
) partition by range (day);
create table notifications_default partition of notifications default;
create index notifications_dismissed on notifications (dismissed_at) where dismissed_at is not null;
grant select, insert, delete, update (dismissed_at, facts) on notifications to tributary_app;
grant select on notifications_default to tributary_app; -- for the alarm about weeks without a partition

-- The notifications of one transaction that were not distributed yet to streams and
-- mails. The arrays are parallel: they have one element for each notification. A process
-- deletes the row when it distributes them.
create table notification_arrivals (
  id            uuid primary key,               -- UUIDv7
  feed_ids      uuid[] not null,
  modes         text[] not null,
  types         text[] not null,
  ids           uuid[] not null,
  workspace_ids uuid[] not null,
  user_ids      uuid[] not null
);
grant select, insert, delete, update (id) on notification_arrivals to tributary_app; -- FOR UPDATE requires the right to update

-- The notifications that a user has read one by one.
create table notification_reads (
  user_id         uuid not null,
  mode            text not null,
  category        text not null,
  day             date not null,                -- mode, category and day of the notification
  notification_id uuid not null,
  read_at         timestamptz not null,
  primary key (user_id, mode, category, day, notification_id)
);
create index notification_reads_by_day on notification_reads (day);
grant select, insert, update, delete on notification_reads to tributary_app;

-- The last time that a user has marked all notifications of a category as read. All
-- notifications with an id below read_before are read, so the call changes one row and
-- not every notification.
create table notification_watermarks (
  user_id     uuid not null,
  mode        text not null,
  category    text not null,
  read_day    date not null,                    -- day in read_before
  read_before uuid not null,
  read_at     timestamptz not null,
  primary key (user_id, mode, category)
);
grant select, insert, update, delete on notification_watermarks to tributary_app;

-- All notifications of a feed and category with an id below dismissed_before are
-- dismissed. Those with an id below purge_before are deleted at purge_at. After that, the
-- two columns are set again, to the current dismissed_before and a later time. Therefore a
-- notification is deleted even if dismissed_before is raised every day.
create table notification_dismissals (
  feed_id          uuid not null,
  mode             text not null,
  category         text not null,
  dismissed_day    date not null,               -- day in dismissed_before
  dismissed_before uuid not null,
  dismissed_at     timestamptz not null,
  purge_day        date,                        -- day in purge_before
  purge_before     uuid,
  purge_at         timestamptz,                 -- null, like the two columns above: all dismissed notifications are deleted
  primary key (feed_id, mode, category)
);
create index notification_dismissals_by_purge on notification_dismissals (purge_at) where purge_at is not null;
grant select, insert, update, delete on notification_dismissals to tributary_app;

-- What users have chosen. A column is null if the user has not chosen anything.
create table notification_preferences (
  user_id  uuid not null,
  category text not null,
  email    boolean,
  in_app   boolean,
  primary key (user_id, category)
);
grant select, insert, update, delete on notification_preferences to tributary_app;

-- While such a row exists, the notifications of a category to a user are gathered. They
-- are sent as one mail at due_at. The notifications since window_start are sent, except
-- those in mailed, which were already sent.
create table notification_digests (
  user_id      uuid not null,
  mode         text not null,
  category     text not null,
  workspace_id uuid not null,                   -- all zeros: any workspace
  window_start timestamptz not null,
  mailed       uuid[] not null,
  due_at       timestamptz not null,
  primary key (user_id, mode, category, workspace_id)
);
create index notification_digests_due on notification_digests (due_at);
grant select, insert, update, delete on notification_digests to tributary_app;

-- The feeds that were streamed recently. Only the notifications of these feeds get
-- sequence numbers.
create table notification_feeds (
  feed_id        uuid primary key,
  last_seq       bigint not null,               -- number of the newest notification
  replay_after   bigint not null,               -- notifications with higher numbers can be replayed
  version        bigint not null,               -- incremented when a read state or preference changes
  streamed_until timestamptz not null           -- notifications get numbers until this time
) with (fillfactor = 60);
create index notification_feeds_by_age on notification_feeds (streamed_until);
grant select, insert, update, delete on notification_feeds to tributary_app;

-- The newest notifications of these feeds in the order of their numbers.
create table notification_positions (
  feed_id         uuid not null,
  seq             bigint not null,
  mode            text not null,                -- like category and day a copy of the value in notifications
  category        text not null,
  day             date not null,
  notification_id uuid not null,
  created_at      timestamptz not null,
  primary key (feed_id, seq)
);
create index notification_positions_by_age on notification_positions (created_at); -- old positions are deleted
grant select, insert, update, delete on notification_positions to tributary_app;

-- Open streams. A stream whose process has crashed is not seen any more.
create table notification_streams (
  id      uuid primary key,
  user_id uuid not null,
  ticket  bytea,                                -- digest of the ticket that has opened the stream; null: an access token
  seen_at timestamptz not null
);
create index notification_streams_by_user on notification_streams (user_id);
create index notification_streams_by_age on notification_streams (seen_at);
grant select, insert, update, delete on notification_streams to tributary_app;

create table notification_stream_tickets (
  digest     bytea primary key,                 -- SHA-256 of the ticket
  session_id uuid not null,
  kind       text not null,
  mode       text not null,
  created_at timestamptz not null,
  opened_at  timestamptz,                       -- null: not used yet
  expires_at timestamptz not null
);
create index notification_stream_tickets_by_age on notification_stream_tickets (expires_at);
grant select, insert, update, delete on notification_stream_tickets to tributary_app;

-- The last period for which a feed has got a notification that is repeated every week or
-- month, so that it gets at most one for each period.
create table notification_periods (
  feed_id uuid not null,
  mode    text not null,                        -- test, live, or both
  type    text not null,
  period  date not null,                        -- first day of the week or month
  primary key (feed_id, mode, type)
);
grant select, insert, update, delete on notification_periods to tributary_app;

-- Texts that were announced to the approved participants of a programme, or by the
-- operator to all workspaces.
create table announcements (
  id           uuid primary key,
  workspace_id uuid,                            -- null, like program_id and mode: by the operator
  program_id   uuid,
  mode         text,
  title        text not null,
  body         text not null,
  created_by   uuid,                            -- user; null: the operator
  created_at   timestamptz not null
);
create index announcements_by_program on announcements (workspace_id, program_id, created_at) where program_id is not null;
grant select, insert, delete on announcements to tributary_app;

-- Mail
-- ----

-- Mails to one recipient each. A mail is inserted with the change that causes it, and a
-- job sends it. Mails of test mode and account mails are also the notification log. The
-- log shows them when their status is no longer pending. Rows are deleted after 30 days.
create table mails (
  id             uuid primary key,              -- UUIDv7; also the Message-ID, in every repetition
  kind           text not null,                 -- selects the text
  type           text not null,                 -- as the log shows it
  category       text not null,                 -- of the notifications; empty for account mail
  workspace_id   uuid,                          -- null: the recipient belongs to no workspace
  logged         boolean not null,              -- the notification log of the workspace shows the mail
  mode           text check (mode in ('test', 'live')), -- null: both modes
  user_id        uuid,                          -- null: the recipient has no account
  account_kind   text not null check (account_kind in ('merchant', 'partner')),
  recipient_name text not null,
  recipient      text not null,                 -- e-mail address, lower case
  facts          jsonb not null,                -- what the text contains; no tokens
  secret         bytea,                         -- the token of the link, encrypted; null: none, or the mail was sent
  status         text not null check (status in ('pending', 'delivered', 'redirected', 'suppressed')),
  reason         text,                          -- why the mail is suppressed; null: it is not
  redirected_to  text,
  sender         text,                          -- the header From; like subject, html and text only set if the log shows them
  subject        text,
  html           text,
  text           text,
  created_at     timestamptz not null,
  completed_at   timestamptz                    -- null: pending
);
create index mails_by_age on mails (created_at);
create index mails_log on mails (workspace_id, created_at desc, id desc) include (status, type, recipient)
  where logged and status <> 'pending';
create index mails_pending on mails (created_at) where status = 'pending';
create index mails_by_user on mails (user_id) where user_id is not null;
-- Index of the mails of test mode, which are few.
create index mails_test on mails (workspace_id) where mode = 'test';
grant select, insert, update, delete on mails to tributary_app;

-- Addresses that get no mail except security mail and mail that their owner has
-- requested, because a mail to them bounced or because they complained.
create table mail_suppressions (
  digest     bytea primary key,                 -- keyed hash of the address in lower case
  reason     text not null check (reason in ('bounced', 'complained', 'suppressed', 'refused')),
  created_at timestamptz not null
);
grant select, insert, update, delete on mail_suppressions to tributary_app;

-- The ids of the messages that the mail provider's webhook has delivered. They are kept
-- for 7 days, so that a repeated message has no further effect.
create table mail_provider_messages (
  id          text primary key,
  received_at timestamptz not null
);
create index mail_provider_messages_by_age on mail_provider_messages (received_at);
grant select, insert, delete on mail_provider_messages to tributary_app;

-- Erasures
-- --------

-- Erasures of a participant, of a partner's account or of a workspace. The transaction that
-- inserts the row ends every access and replaces what members and partners see. A job
-- replaces the rest in steps.
create table erasures (
  id           uuid primary key,
  subject      text not null check (subject in ('participant', 'partner', 'workspace')),
  subject_id   uuid not null,                   -- participant, user or workspace
  workspace_id uuid,                            -- null: the account of a partner
  mode         text check (mode in ('test', 'live')), -- of a participant; null: both
  erased_at    timestamptz not null,
  logged_at    timestamptz,                     -- null: not in the erasure log yet
  texts        text[] not null,                 -- names, addresses and codes that are searched for; empty when the erasure has finished
  step         integer not null,                -- number of the step that is done next, see storage/postgres/privacy
  cursor       uuid not null,                   -- the step has processed the rows up to this id
  finished_at  timestamptz
);
create unique index erasures_of_subject on erasures (subject_id, subject);
create index erasures_unfinished on erasures (erased_at) where finished_at is null;
grant select, insert, update on erasures to tributary_app;

-- The participants that are erased together. The erasure of a partner's account has one
-- row for each participation.
create table erasure_participants (
  erasure_id     uuid not null references erasures (id),
  workspace_id   uuid not null,
  participant_id uuid not null,
  primary key (erasure_id, workspace_id, participant_id)
);
grant select, insert, delete on erasure_participants to tributary_app;

-- Keyed digests of values that were erased, see affiliate.ErasedKind. A code whose digest is
-- here stays taken. The digest of an external transaction id or of a processor's id finds
-- the conversion, so that duplicates and later refunds are recognised.
create table erased_values (
  workspace_id uuid not null,
  mode         text not null check (mode in ('test', 'live')),
  kind         text not null,
  digest       bytea not null,                  -- affiliate.ErasureKey
  subject_id   uuid not null,                   -- the participant or the conversion whose value was erased
  primary key (workspace_id, mode, kind, digest)
);
grant select, insert, delete on erased_values to tributary_app;

-- +goose StatementBegin
-- Removes texts from the append-only tables of a workspace. The argument kind selects the
-- table, and ids are the rows' ids (for commission_history: the ids of the commissions; for
-- attribution_decisions: the ids of the conversions). The function can only remove:
--
--   audit_log              the values before and after, and the network
--   commission_history     the reason
--   ledger_entries         the reason
--   attribution_decisions  promo codes, which become the pseudonym
--   explanations           the explanation of decisions as well
create function erase_texts(kind text, workspace uuid, ids uuid[], pseudonym text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  home    text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                   where c.relname = 'erasures' and c.relkind = 'r' and pg_get_userbyid(c.relowner) = current_user limit 1);
  changed bigint;
begin
  if pseudonym !~ '^erased-[0-9a-f]{8}$' then
    raise exception 'not a pseudonym: %', pseudonym;
  end if;
  case kind
  when 'audit_log' then
    execute format('update %I.audit_log set before = null, after = null, ip_prefix = null
      where workspace_id = $1 and id = any($2) and (before is not null or after is not null or ip_prefix is not null)', home)
      using workspace, ids;
  when 'commission_history' then
    execute format('update %I.commission_history set reason = null
      where workspace_id = $1 and commission_id = any($2) and reason is not null', home)
      using workspace, ids;
  when 'ledger_entries' then
    execute format('update %I.ledger_entries set reason = null where workspace_id = $1 and id = any($2) and reason is not null', home)
      using workspace, ids;
  when 'attribution_decisions', 'explanations' then
    execute format($update$
      update %I.attribution_decisions d set
        explanation = case when $4 then 'The data that this decision is about has been erased.'
          else regexp_replace(d.explanation, 'promo code "[^"]*"', 'promo code "' || $3 || '"', 'g') end,
        trace = d.trace
          || case when d.trace #>> '{inputs,promo_code}' is null then '{}'
            else jsonb_build_object('inputs', jsonb_set(d.trace -> 'inputs', '{promo_code}', to_jsonb($3))) end
          || case when jsonb_typeof(d.trace -> 'candidates') = 'array' then jsonb_build_object('candidates', (
            select coalesce(jsonb_agg(
              case when c.value ? 'promo_code' then jsonb_set(c.value, '{promo_code}', to_jsonb($3)) else c.value end order by c.ordinality), '[]')
            from jsonb_array_elements(d.trace -> 'candidates') with ordinality as c (value, ordinality))) else '{}' end
          || case when jsonb_typeof(d.trace -> 'steps') = 'array' then jsonb_build_object('steps', (
            select coalesce(jsonb_agg(
              case when s.value ->> 'check' = 'promo_code.known' then jsonb_set(s.value, '{detail}', to_jsonb('promo code ' || $3)) else s.value end
              order by s.ordinality), '[]')
            from jsonb_array_elements(d.trace -> 'steps') with ordinality as s (value, ordinality))) else '{}' end
      where d.workspace_id = $1 and d.conversion_id = any($2)
    $update$, home) using workspace, ids, pseudonym, kind = 'explanations';
  else
    raise exception 'not a kind of text: %', kind;
  end case;
  get diagnostics changed = row_count;
  return changed;
end $$;
-- +goose StatementEnd
revoke execute on function erase_texts(text, uuid, uuid[], text) from public;
grant execute on function erase_texts(text, uuid, uuid[], text) to tributary_app;

-- +goose StatementBegin
-- Removes the values and the network from all entries of the audit log of an erased account.
create function erase_account_audit(account uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  home text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where c.relname = 'erasures' and c.relkind = 'r' and pg_get_userbyid(c.relowner) = current_user limit 1);
begin
  execute format('update %1$I.account_audit_log l set before = null, after = null, ip_prefix = null
    from %1$I.users u where u.id = l.user_id and u.id = $1 and u.erased_at is not null', home) using account;
end $$;
-- +goose StatementEnd
revoke execute on function erase_account_audit(uuid) from public;
grant execute on function erase_account_audit(uuid) to tributary_app;

-- Erasures of buyers. No row contains a value that the caller has sent: identity is a keyed
-- hash, which is removed at the end of the erasure. Rows are deleted 30 days after the end.
create table buyer_erasures (
  workspace_id uuid not null references workspaces (id),
  id           uuid not null,
  kind         text not null check (kind in ('email', 'customer_id', 'external_transaction_id', 'processor_customer_id')),
  identity     bytea,                           -- see affiliate.BuyerIdentity
  status       text not null check (status in ('processing', 'done', 'failed')),
  step         text not null,                   -- see affiliate.BuyerErasureStep
  position     text not null default '',        -- the step continues after this row
  failures     integer not null default 0,      -- attempts that have failed
  lease_owner  uuid,                            -- the worker that owns the erasure until lease_until
  lease_until  timestamptz,
  recovering   boolean not null default false,  -- the owner has taken the erasure over from a worker whose lease had expired
  created_at   timestamptz not null,
  finished_at  timestamptz,
  -- When the last request for the erasure arrived.
  requested_at timestamptz not null,
  primary key (workspace_id, id),
  check ((lease_owner is null) = (lease_until is null)),
  check ((identity is not null) = (status = 'processing')),
  check ((finished_at is null) = (status = 'processing'))
);
create unique index buyer_erasures_active on buyer_erasures (workspace_id, kind, identity) where status = 'processing';
create index buyer_erasures_by_end on buyer_erasures (finished_at) where finished_at is not null;
grant select, insert, update, delete on buyer_erasures to tributary_app;

-- The Idempotency-Keys of requests for erasures, kept for 30 days. fingerprint is a hash of the
-- identity in the request under the key of erased values, so that it is not a hash that
-- conversions have.
create table buyer_erasure_keys (
  workspace_id uuid not null,
  key          text not null,
  operation_id uuid not null,
  fingerprint  bytea not null,
  expires_at   timestamptz not null,
  primary key (workspace_id, key)
);
create index buyer_erasure_keys_by_expiry on buyer_erasure_keys (expires_at);
grant select, insert, update, delete on buyer_erasure_keys to tributary_app;

-- The conversions of a buyer, while the erasure is processed. followed means that further
-- conversions of the same customer were searched.
create table buyer_erasure_sales (
  workspace_id  uuid not null,
  operation_id  uuid not null,
  conversion_id uuid not null,
  mode          text not null,
  followed      boolean not null default false,
  erased        boolean not null default false,
  primary key (workspace_id, operation_id, conversion_id)
);
create index buyer_erasure_sales_unfollowed on buyer_erasure_sales (workspace_id, operation_id, conversion_id) where not followed;
create index buyer_erasure_sales_unerased on buyer_erasure_sales (workspace_id, operation_id, conversion_id) where not erased;
grant select, insert, update, delete on buyer_erasure_sales to tributary_app;

-- The references of a buyer (conversions.customer_ref), while the erasure is processed.
create table buyer_erasure_customers (
  workspace_id uuid not null,
  operation_id uuid not null,
  ref          text not null,
  followed     boolean not null default false,
  primary key (workspace_id, operation_id, ref)
);
grant select, insert, update, delete on buyer_erasure_customers to tributary_app;

-- Exports of personal data
-- ------------------------

-- Exports of personal data. A row is a bundle that is being made or can be downloaded. It is
-- deleted at expires_at, or when its subject is erased. See package server/privacy/export.
create table exports (
  id           uuid primary key,
  kind         text not null check (kind in ('partner', 'participant', 'merchant')),
  subject_id   uuid not null,                   -- the partner's user, the participant or the workspace
  workspace_id uuid,                            -- null: a partner's account
  program_id   uuid,                            -- of a participant
  partner_id   uuid,                            -- the partner's user; null: a workspace
  mode         text check (mode in ('test', 'live')), -- of a participant; null: both modes
  request_mode text not null check (request_mode in ('test', 'live')), -- of the first request
  queued       boolean not null,                -- a job makes the bundle, and the link is mailed
  lease_until  timestamptz not null,            -- until then, one process makes the bundle
  lease        uuid not null,                   -- names this process
  progress     jsonb not null,                  -- what was written so far, see affiliate.ExportProgress
  created_at   timestamptz not null,
  ready_at     timestamptz,                     -- null: not complete
  expires_at   timestamptz,                     -- null: not complete
  check ((ready_at is null) = (expires_at is null))
);
create unique index exports_running on exports (subject_id) where ready_at is null;
create index exports_by_subject on exports (subject_id, created_at);
create index exports_by_workspace on exports (workspace_id) where workspace_id is not null;
create index exports_by_partner on exports (partner_id) where partner_id is not null;
create index exports_by_expiry on exports (expires_at) where expires_at is not null;
create index exports_running_by_age on exports (created_at) where ready_at is null;
grant select, insert, update, delete on exports to tributary_app;

-- The content of a bundle in pieces, compressed and encrypted.
create table export_chunks (
  export_id uuid not null references exports (id),
  number    integer not null,                   -- counted from 0
  data      bytea not null,
  primary key (export_id, number)
);
alter table export_chunks alter column data set storage external; -- encrypted data cannot be compressed
grant select, insert, delete on export_chunks to tributary_app;

-- The tokens in links to bundles.
create table export_tokens (
  digest     bytea primary key,                 -- SHA-256 of 256 random bits
  export_id  uuid not null references exports (id),
  created_at timestamptz not null,
  expires_at timestamptz not null
);
create index export_tokens_by_export on export_tokens (export_id);
grant select, insert, delete on export_tokens to tributary_app;

-- The members to whom the link to a bundle is mailed when it is complete.
create table export_recipients (
  export_id    uuid not null references exports (id),
  user_id      uuid not null,
  requested_at timestamptz not null,
  primary key (export_id, user_id)
);
grant select, insert, delete on export_recipients to tributary_app;

-- Test data
-- ---------

-- Deletions of a workspace's test data. A request deletes little data itself, and a job
-- deletes more. The progress is stored, so that a job continues after a crash.
create table test_data_resets (
  workspace_id uuid not null references workspaces (id),
  id           uuid not null,
  started_at   timestamptz not null,
  user_id      uuid not null,                   -- the member who requested it
  ip_prefix    text not null,                   -- like request_id for the audit log
  request_id   text not null,
  clicks_after uuid not null default '00000000-0000-0000-0000-000000000000', -- clicks with this id and lower ids are deleted
  events_after uuid not null default '00000000-0000-0000-0000-000000000000', -- the same for events
  deleted      jsonb not null default '{}',     -- number of deleted rows by table
  finished_at  timestamptz,                     -- null: running
  primary key (workspace_id, id)
);
create unique index test_data_resets_running on test_data_resets (workspace_id) where finished_at is null;
grant select, insert, update on test_data_resets to tributary_app;

-- +goose StatementBegin
-- Deletes rows of a workspace's test data from a table that is append-only for the service.
-- The argument target names the table, and rows contains the positions of the rows. Rows of
-- live mode and of other workspaces are never deleted, whatever positions the caller names.
-- The function returns the number of deleted rows.
create function delete_test_rows(target text, workspace uuid, rows tid[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- The schema that contains the tables. It is read from the catalogue, because
  -- search_path is fixed and does not contain this schema.
  home    text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                   where c.relname = 'ledger_entries' and c.relkind = 'r' and pg_get_userbyid(c.relowner) = current_user limit 1);
  is_test text;
  deleted bigint;
begin
  is_test := case target
    when 'ledger_entries' then 't.mode = ''test'''
    when 'attribution_decisions' then 't.mode = ''test'''
    when 'click_days' then 't.mode = ''test'''
    when 'program_rules' then format(
      'exists (select from %I.programs p where p.workspace_id = t.workspace_id and p.id = t.program_id and p.mode = ''test'')', home)
    when 'commission_history' then format(
      'exists (select from %I.commissions c where c.workspace_id = t.workspace_id and c.id = t.commission_id and c.mode = ''test'')', home)
  end;
  if is_test is null then
    raise exception 'not a table of test data: %', target;
  end if;
  execute format('delete from %I.%I t where t.ctid = any ($1) and t.workspace_id = $2 and %s', home, target, is_test) using rows, workspace;
  get diagnostics deleted = row_count;
  return deleted;
end $$;
-- +goose StatementEnd
revoke execute on function delete_test_rows(text, uuid, tid[]) from public;
grant execute on function delete_test_rows(text, uuid, tid[]) to tributary_app;

-- The installation
-- ----------------

-- The latest result of each consistency check.
create table check_results (
  name       text primary key,
  compared   bigint not null,
  violated   bigint not null,
  checked_at timestamptz not null
);
grant select, insert, update on check_results to tributary_app;

-- The secret keys with which cores have worked on this database. A core with other keys
-- does not start.
create table key_fingerprints (
  setting     text not null,
  key_id      text not null,
  fingerprint bytea not null,
  is_first    boolean not null,                 -- the key was the first one of the setting at the latest start of a core
  created_at  timestamptz not null default now(),
  primary key (setting, key_id)
);
grant select, insert, update, delete on key_fingerprints to tributary_app;
