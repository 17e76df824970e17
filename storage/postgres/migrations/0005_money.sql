-- +goose Up

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
  primary key (workspace_id, id),
  foreign key (workspace_id, participant_id) references participants (workspace_id, id)
);
create index ledger_entries_by_participant on ledger_entries (workspace_id, participant_id, mode, created_at desc, id desc);
create index ledger_entries_by_partner on ledger_entries (partner_id, mode, created_at desc, id desc);
create index ledger_entries_by_commission on ledger_entries (workspace_id, commission_id) where commission_id is not null;
create index ledger_entries_by_payout on ledger_entries (workspace_id, payout_id) where payout_id is not null;

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

create table payout_batches (
  workspace_id uuid not null references workspaces (id),
  id           uuid not null,
  mode         text not null check (mode in ('test', 'live')),
  status       text not null check (status in ('draft', 'confirmed', 'processing', 'completed', 'partially_failed', 'canceled')),
  program_ids  uuid[] not null,                 -- empty: all programmes of the mode
  cutoff       timestamptz not null,
  created_by   uuid not null,
  confirmed_by uuid,
  created_at   timestamptz not null,
  confirmed_at timestamptz,
  completed_at timestamptz,
  version      integer not null default 1,      -- incremented by every change
  primary key (workspace_id, id)
);
create index payout_batches_by_age on payout_batches (workspace_id, mode, created_at desc, id desc);

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
create index commissions_by_payout on commissions (workspace_id, payout_id) where payout_id is not null;
-- Index of the commissions that the next payout batch considers.
create index commissions_unpaid on commissions (workspace_id, mode, participant_id, currency)
  include (amount_cents, approved_at, hold_until, needs_review, dispute_status, program_id) where status = 'approved' and payout_id is null;

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

-- The settings of a programme's fraud rules. The policy itself is in the column
-- fraud_policy.
alter table programs
  add column fraud_settings   jsonb not null default '{}',
  add column fraud_updated_at timestamptz;

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

-- Indexes for the numbers that fraud rules count, and for lists.
create index conversions_by_participant_time on conversions (workspace_id, mode, participant_id, created_at desc, id desc) include (amount_cents, refunded_amount_cents);
drop index conversions_by_participant;
create index conversions_refunded on conversions (workspace_id, mode, participant_id) where status = 'refunded';
create index conversions_by_program on conversions (workspace_id, mode, program_id, created_at desc, id desc) where program_id is not null;
create index conversions_by_attributed on conversions (workspace_id, mode, attributed, created_at desc, id desc);
create index conversions_by_event_type on conversions (workspace_id, mode, event_type, created_at desc, id desc);
create index conversions_by_click on conversions (workspace_id, click_id) where click_id is not null;
-- The new index by customer also contains the programme. Otherwise Postgres could look
-- for a customer's payments by reading all payments of a programme.
drop index conversions_by_customer;
create index conversions_by_customer on conversions (workspace_id, mode, customer_ref, program_id) where customer_ref is not null;
create index clicks_by_address on clicks (workspace_id, ip_hash, clicked_at) where ip_hash is not null;
create index conversions_by_email on conversions (workspace_id, mode, customer_email_hash) where customer_email_hash is not null;
create index attribution_decisions_by_age on attribution_decisions (workspace_id, mode, decided_at desc, id desc);
create index attribution_decisions_by_reason on attribution_decisions (workspace_id, mode, reason_code, decided_at desc, id desc);
create index attribution_decisions_by_refusal on attribution_decisions (workspace_id, mode, decided_at desc, id desc) where not attributed;
create index attribution_decisions_by_program on attribution_decisions (workspace_id, mode, (trace #>> '{program,id}'), decided_at desc, id desc);
create index attribution_decisions_superseding on attribution_decisions (workspace_id, supersedes) where supersedes is not null;
create index commissions_by_conversion on commissions (workspace_id, conversion_id);

-- Commissions that have ended (rejected or refunded) need no review.
update commissions set needs_review = false where needs_review and status in ('rejected', 'refunded');

-- The first entries of the ledger: one for each commission that is approved or paid
-- when this migration runs.
insert into ledger_entries (workspace_id, id, mode, program_id, participant_id, partner_id, type, amount_cents, currency, commission_id, created_by, created_at)
select workspace_id, gen_random_uuid(), mode, program_id, participant_id, partner_id, 'commission_approved', amount_cents, currency, id, 'system', coalesce(approved_at, created_at)
from commissions where status in ('approved', 'paid') and amount_cents > 0;
insert into ledger_balances (workspace_id, participant_id, currency, slot, balance_cents)
select workspace_id, participant_id, currency, 0, sum(amount_cents) from ledger_entries group by 1, 2, 3;
insert into commission_counts (workspace_id, mode, grain, starts, program_id, status, needs_review, currency, slot, n, amount_cents)
select workspace_id, mode, grain, starts, program_id, status, needs_review, currency, 0, count(*), sum(amount_cents)
from commissions c
cross join lateral (values
  ('ever', date '0001-01-01'),
  ('month', date_trunc('month', c.created_at at time zone 'UTC')::date),
  ('day', (c.created_at at time zone 'UTC')::date)) as g (grain, starts)
group by 1, 2, 3, 4, 5, 6, 7, 8;

grant select, insert on ledger_entries to tributary_app;
grant select, insert, update, delete on
  ledger_balances, commission_counts, payout_batches, payouts, payout_commissions, refunds, idempotency_keys,
  fx_rates, fraud_events, user_origins
  to tributary_app;
