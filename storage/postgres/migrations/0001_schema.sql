-- +goose Up

-- In all tables whose rows belong to workspaces, the primary key starts with
-- workspace_id, so that the tables can be distributed by workspace later. No foreign key
-- cascades: a cascade ignores grants, and the append-only tables rely on grants. Times
-- are UTC with milliseconds. They are set by the service's clock, never by now().

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
  unique (kind, email)
);

create table workspaces (
  id         uuid primary key,
  name       text not null,
  currency   text not null,                     -- ISO 4217
  timezone   text not null,                     -- IANA
  created_at timestamptz not null
);

-- A user is a member of at most one workspace.
create table members (
  workspace_id uuid not null references workspaces (id),
  user_id      uuid not null unique references users (id),
  role         text not null check (role in ('owner', 'admin', 'manager', 'finance', 'developer', 'viewer')),
  created_at   timestamptz not null,
  primary key (workspace_id, user_id)
);

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

create table refresh_tokens (
  digest     bytea primary key,                 -- SHA-256 of 256 random bits
  session_id uuid not null references sessions (id),
  created_at timestamptz not null,
  used_at    timestamptz
);
create index refresh_tokens_by_session on refresh_tokens (session_id);

-- Failed logins for an email address. An address is included even if no account has it.
-- They are kept for 15 minutes.
create table login_failures (
  id        uuid primary key,
  subject   bytea not null,                     -- HMAC of kind and address
  failed_at timestamptz not null
);
create index login_failures_by_subject on login_failures (subject, failed_at);
create index login_failures_by_time on login_failures (failed_at);

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
  primary key (workspace_id, id),
  check ((kind = 'public') = (public_text is not null))
);
create index api_keys_by_mode on api_keys (workspace_id, mode, kind, created_at desc);

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
  primary key (workspace_id, id)
);
create unique index programs_slug on programs (workspace_id, mode, slug);
create index programs_by_age on programs (workspace_id, mode, created_at desc, id desc);

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

create table participants (
  workspace_id        uuid not null,
  id                  uuid not null,
  program_id          uuid not null,
  mode                text not null check (mode in ('test', 'live')),
  partner_id          uuid not null references users (id),
  status              text not null check (status in ('pending', 'approved', 'rejected', 'suspended')),
  referral_code       text not null,            -- the current code; see referral_codes
  application_answers jsonb not null,
  terms_accepted_at   timestamptz,
  applied_at          timestamptz not null,
  approved_at         timestamptz,
  rejected_at         timestamptz,
  rejection_reason    text,
  suspended_at        timestamptz,
  suspension_reason   text,
  erased_at           timestamptz,
  version             integer not null default 1, -- incremented by every change
  created_at          timestamptz not null,
  updated_at          timestamptz not null,
  primary key (workspace_id, id),
  foreign key (workspace_id, program_id) references programs (workspace_id, id)
);
create unique index participants_once on participants (workspace_id, program_id, partner_id);
create index participants_by_age on participants (workspace_id, program_id, created_at desc, id desc);
create index participants_by_status on participants (workspace_id, program_id, status, created_at desc, id desc);
create index participants_by_partner on participants (partner_id, mode);

-- A code is unique within a workspace and mode. A code that was replaced stays
-- reserved.
create table referral_codes (
  workspace_id   uuid not null,
  mode           text not null check (mode in ('test', 'live')),
  code           text not null,                 -- case-folded
  program_id     uuid not null,
  participant_id uuid not null,
  link_id        uuid,                          -- null: the participant's default link
  created_at     timestamptz not null,
  primary key (workspace_id, mode, code),
  foreign key (workspace_id, participant_id) references participants (workspace_id, id)
);
create index referral_codes_by_participant on referral_codes (workspace_id, participant_id);
create index referral_codes_by_program on referral_codes (workspace_id, program_id);

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
  link_id         uuid,
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
  converted_at    timestamptz,
  unique (workspace_id, id, clicked_at)
) partition by range (clicked_at);
create table clicks_default partition of clicks default;
create index clicks_by_time on clicks using brin (clicked_at);

-- Clicks that ingestion could not store, with the reason. Every acknowledged click is
-- stored here or in clicks.
create table click_dead_letters (
  id         uuid primary key,                  -- id of the click, or a new id if it has none
  reason     text not null,
  record     bytea not null,                    -- edge.v1.Click, or the raw stream entry
  created_at timestamptz not null
);

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
  primary key (workspace_id, id)
);
create unique index conversions_external on conversions (workspace_id, mode, external_transaction_id);
create index conversions_by_age on conversions (workspace_id, mode, created_at desc, id desc);
create index conversions_by_participant on conversions (workspace_id, participant_id, created_at desc);

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
  primary key (workspace_id, id),
  foreign key (workspace_id, conversion_id) references conversions (workspace_id, id)
);
create index attribution_decisions_by_conversion on attribution_decisions (workspace_id, conversion_id, decided_at);

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
  primary key (workspace_id, commission_id, seq),
  foreign key (workspace_id, commission_id) references commissions (workspace_id, id)
);

-- The outbox. The body of an event is serialised once, in the transaction of the change
-- that causes the event.
create table events (
  workspace_id  uuid not null,
  id            uuid not null,
  mode          text not null,
  type          text not null,
  body          bytea not null,
  created_at    timestamptz not null,
  dispatched_at timestamptz,
  primary key (workspace_id, id)
);
create index events_undispatched on events (created_at) where dispatched_at is null;

-- Append-only. The audit log: changes that users made.
create table audit_log (
  workspace_id  uuid not null,
  id            uuid not null,
  mode          text,                           -- null: concerns both modes
  at            timestamptz not null,
  actor         text not null,                  -- user id, key id or system
  action        text not null,                  -- noun.verb, for example commission.approve
  resource_type text not null,
  resource_id   uuid not null,
  before        jsonb,
  after         jsonb,
  ip_prefix     text,
  request_id    text,
  primary key (workspace_id, id)
);
create index audit_log_by_age on audit_log (workspace_id, at desc, id desc);

-- This sequence orders the writes to the edge directory. A writer first takes a number
-- and then reads the data that it writes. Data with a higher number is therefore never
-- older.
create sequence directory_version;

-- +goose StatementBegin
-- Creates the missing daily partitions of clicks for all days from the argument first to
-- the argument last, both included. Rows of these days that are in the default partition
-- move into the new partitions.
create function ensure_click_partitions(first date, last date) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  day  date := first;
  name text;
  made integer := 0;
  -- The schema that contains the tables. It is read from the catalogue, because
  -- search_path is fixed and does not contain this schema.
  home text := (select n.nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                where c.relname = 'clicks' and c.relkind = 'p' limit 1);
begin
  -- Only one database session at a time creates partitions. Other sessions wait and
  -- then find the partitions.
  perform pg_catalog.pg_advisory_xact_lock(7305804402567017331);
  while day <= last loop
    name := 'clicks_' || to_char(day, 'YYYYMMDD');
    if to_regclass(format('%I.%I', home, name)) is null then
      execute format('create table %I.%I (like %I.clicks including defaults including constraints)', home, name, home);
      execute format(
        'with moved as (delete from %I.clicks_default where clicked_at >= %L and clicked_at < %L returning *) insert into %I.%I select * from moved',
        home, day::timestamp at time zone 'UTC', (day + 1)::timestamp at time zone 'UTC', home, name);
      execute format('alter table %I.clicks attach partition %I.%I for values from (%L) to (%L)',
        home, home, name, day::timestamp at time zone 'UTC', (day + 1)::timestamp at time zone 'UTC');
      made := made + 1;
    end if;
    day := day + 1;
  end loop;
  return made;
end $$;
-- +goose StatementEnd
