-- +goose Up

-- The tables with which merchants and partners manage a programme: settings,
-- invitations, groups, links, promo codes, customers, and counters.

alter table workspaces
  add column allowed_origins    text[] not null default '{}',
  add column origin_policy      text not null default 'observe' check (origin_policy in ('observe', 'enforce')),
  add column test_mail_redirect text,
  add column version            integer not null default 1, -- incremented by every change
  add column updated_at         timestamptz;
update workspaces set updated_at = created_at;
alter table workspaces alter column updated_at set not null;

-- A key can be rolled once. After that, the old key works until expires_at.
alter table api_keys add column rolled_at timestamptz;

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
  primary key (workspace_id, id)
);
create index member_invites_open on member_invites (workspace_id, created_at desc, id desc) where ended_at is null;

-- Indexes for the filters of the audit log.
create index audit_log_by_actor on audit_log (workspace_id, actor, at desc, id desc);
create index audit_log_by_resource on audit_log (workspace_id, resource_id, at desc, id desc);

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

alter table users
  add column company_name text,
  add column website_url  text,
  add column version      integer not null default 1; -- incremented by every change

-- How a partner wants to be paid. The column account is encrypted, account_hint is not.
create table payout_methods (
  user_id      uuid primary key references users (id),
  method       text not null check (method in ('manual', 'paypal', 'wise', 'bank_transfer', 'stripe_connect', 'store_credit', 'external')),
  account      bytea,
  account_hint text,
  updated_at   timestamptz not null
);

alter table programs
  add column signal_precedence text not null default 'click_first' check (signal_precedence in ('click_first', 'promo_code_first')),
  add column min_payout_cents  bigint not null default 0 check (min_payout_cents >= 0),
  add column payout_term_days  integer not null default 0 check (payout_term_days between 0 and 365),
  add column fraud_policy      text not null default 'flag' check (fraud_policy in ('off', 'observe', 'flag', 'block'));
-- Indexes of the public programmes, which every partner can find. They cover all
-- workspaces.
create index programs_public on programs (mode, created_at desc, id desc) where status = 'active' and is_public;
create index programs_public_by_name on programs (mode, lower(name) text_pattern_ops) where status = 'active' and is_public;

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

-- A participant has copies of the partner's name and email address, so that a list can
-- sort and search them with one index of one workspace. A change of the account updates
-- the copies in the same transaction.
alter table participants
  add column partner_name    text,
  add column partner_email   text,
  add column group_id        uuid,
  add column override_rate_bps          bigint,
  add column override_flat_amount_cents bigint,
  add column tags            text[] not null default '{}',
  add column note            text,
  add check (override_rate_bps is null or override_flat_amount_cents is null),
  add foreign key (workspace_id, group_id) references groups (workspace_id, id);
update participants t set partner_name = u.name, partner_email = u.email from users u where u.id = t.partner_id;
alter table participants alter column partner_name set not null, alter column partner_email set not null;
create index participants_by_group on participants (workspace_id, group_id, created_at desc, id desc) where group_id is not null;
create index participants_by_name on participants (workspace_id, program_id, lower(partner_name) text_pattern_ops, created_at desc, id desc);
create index participants_by_email on participants (workspace_id, program_id, lower(partner_email) text_pattern_ops);

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
  primary key (workspace_id, id),
  foreign key (workspace_id, program_id) references programs (workspace_id, id),
  foreign key (workspace_id, group_id) references groups (workspace_id, id)
);
create unique index participant_invites_email on participant_invites (workspace_id, program_id, email) where ended_at is null;
create index participant_invites_open on participant_invites (workspace_id, program_id, created_at desc, id desc) where ended_at is null;
create index participant_invites_by_group on participant_invites (workspace_id, group_id) where group_id is not null;

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
create index links_by_participant on links (workspace_id, participant_id, created_at desc, id desc) where deleted_at is null;
create index links_by_code on links (workspace_id, program_id, code text_pattern_ops) where deleted_at is null;

insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, is_default, created_at, updated_at)
select t.workspace_id, gen_random_uuid(), t.program_id, t.id, t.mode, t.referral_code,
  substr(translate(encode(sha256(uuid_send(gen_random_uuid())), 'base64'), '+/=', 'xyz'), 1, 10), true, t.created_at, t.created_at
from participants t;
update referral_codes r set link_id = l.id
from links l
where l.workspace_id = r.workspace_id and l.participant_id = r.participant_id and l.is_default and r.link_id is null;
alter table referral_codes alter column link_id set not null;
-- Index for searching codes by prefix.
drop index referral_codes_by_program;
create index referral_codes_by_program on referral_codes (workspace_id, program_id, code text_pattern_ops);

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
  primary key (workspace_id, mode, ref),
  check ((program_id is null) = (participant_id is null) and (program_id is null) = (bound_at is null) and (program_id is null) = (signal_at is null))
);

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
insert into participant_totals (workspace_id, participant_id, program_id, clicks, signups, conversions, revenue_cents, commission_cents)
select t.workspace_id, t.id, t.program_id,
  (select count(*) from clicks c where c.workspace_id = t.workspace_id and c.participant_id = t.id and not c.is_bot),
  (select count(*) from conversions c where c.workspace_id = t.workspace_id and c.participant_id = t.id and c.event_type = 'signup'),
  (select count(*) from conversions c where c.workspace_id = t.workspace_id and c.participant_id = t.id),
  (select coalesce(sum(c.amount_cents), 0) from conversions c
   where c.workspace_id = t.workspace_id and c.participant_id = t.id and c.event_type in ('purchase', 'renewal') and c.currency = p.currency),
  (select coalesce(sum(c.amount_cents), 0) from commissions c
   where c.workspace_id = t.workspace_id and c.participant_id = t.id and c.status <> 'rejected' and c.currency = p.currency)
from participants t join programs p on p.workspace_id = t.workspace_id and p.id = t.program_id;

create table link_totals (
  workspace_id uuid not null,
  link_id      uuid not null,
  clicks       bigint not null default 0,
  conversions  bigint not null default 0,
  primary key (workspace_id, link_id),
  foreign key (workspace_id, link_id) references links (workspace_id, id)
);
insert into link_totals (workspace_id, link_id) select workspace_id, id from links;

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
insert into list_counts (workspace_id, program_id, what, slot, n)
select workspace_id, program_id, 'participants.' || status, 0, count(*) from participants group by 1, 2, 3
union all
select workspace_id, program_id, 'links', 0, count(*) from links group by 1, 2;

alter table clicks add column foreign_origin boolean not null default false;

-- Index of the commissions of a participant that are approved and not yet paid, by
-- currency.
create index commissions_payable on commissions (workspace_id, participant_id, currency) include (amount_cents) where status = 'approved';
create index commissions_by_partner on commissions (partner_id, mode, created_at desc, id desc);
create index commissions_by_partner_status on commissions (partner_id, mode, status, created_at desc, id desc) include (currency, amount_cents);

alter table conversions add column link_id uuid, add column recurring_index integer;
create index conversions_by_customer on conversions (workspace_id, mode, customer_ref) where customer_ref is not null;

-- decided_by is the member who made a decision, if a member made it.
alter table attribution_decisions add column decided_by uuid;

grant select, insert, update, delete on
  member_invites, payout_methods, groups, participant_invites, links, promo_codes, customers, customer_payments,
  stats_deltas, participant_totals, link_totals, list_counts
  to tributary_app;
grant select, insert on account_audit_log to tributary_app;
