-- +goose Up

-- Connected accounts of payment processors. A workspace has at most one connection per
-- processor and mode. A deleted connection stays until a job has deleted its endpoint at
-- the processor.
create table processor_connections (
  workspace_id          uuid not null references workspaces (id),
  id                    uuid not null,
  mode                  text not null check (mode in ('test', 'live')),
  processor             text not null,
  account_id            text not null,
  key                   bytea not null,                -- restricted key, encrypted
  endpoint_id           text not null,                 -- webhook endpoint at the processor
  secret                bytea not null,                -- signs the messages, encrypted
  previous_secret       bytea,                         -- of the endpoint before the last reconnection, encrypted
  previous_secret_until timestamptz,
  create_conversions    boolean not null,
  include_out_of_band   boolean not null,
  connected_at          timestamptz not null,          -- sales before this time are only read by a resync
  failure_notified_on   date,                          -- last UTC day with a notification about failed events
  updated_at            timestamptz not null,
  deleted_at            timestamptz,
  primary key (workspace_id, id)
);
create unique index processor_connections_by_id on processor_connections (id);
create unique index processor_connections_active on processor_connections (workspace_id, mode, processor) where deleted_at is null;

-- Messages to the endpoints of connections whose signature is not valid, per hour.
create table processor_signature_failures (
  workspace_id  uuid not null,
  connection_id uuid not null,
  hour          timestamptz not null,
  failures      bigint not null,
  primary key (workspace_id, connection_id, hour)
);

-- Events of payment processors. They are stored before the processor gets its response. A
-- job applies each of them. Rows are deleted after 90 days.
create table processor_events (
  workspace_id  uuid not null,
  connection_id uuid not null,
  id            text not null,                         -- the processor's id
  mode          text not null check (mode in ('test', 'live')),
  type          text not null,
  body          bytea,                                 -- encrypted; null: the event needs no more work
  resync        boolean not null,                      -- read from the list of events and not received
  since         timestamptz,                           -- of the resync: earliest time of a sale
  status        text not null check (status in ('received', 'applied', 'ignored', 'parked', 'failed')),
  reason        text,
  conversion_id uuid,
  happened_at   timestamptz not null,                  -- as the processor says
  received_at   timestamptz not null,
  processed_at  timestamptz,
  primary key (workspace_id, connection_id, id)
);
create index processor_events_list on processor_events (workspace_id, mode, received_at desc, id desc);
create index processor_events_waiting on processor_events (workspace_id, connection_id, received_at) where status = 'received';
create index processor_events_by_age on processor_events (received_at);

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

-- What a processor last said about the refunds of a charge, in minor units of currency.
create table processor_charges (
  workspace_id   uuid not null,
  mode           text not null check (mode in ('test', 'live')),
  id             text not null,
  currency       text not null,
  amount_cents   bigint not null,                      -- 0: unknown
  refunded_cents bigint not null,
  conversion_id  uuid,                                 -- null: the sale is not recorded yet
  read_number    bigint not null,                      -- of the read that saw this state
  updated_at     timestamptz not null,
  primary key (workspace_id, mode, id)
);
create index processor_charges_by_conversion on processor_charges (workspace_id, conversion_id) where conversion_id is not null;

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

create table processor_disputes (
  workspace_id uuid not null,
  mode         text not null check (mode in ('test', 'live')),
  id           text not null,
  charge_id    text not null,
  status       text not null check (status in ('open', 'won', 'lost')),
  amount_cents bigint,                                 -- null: the whole charge
  updated_at   timestamptz not null,
  primary key (workspace_id, mode, id)
);
create index processor_disputes_by_charge on processor_disputes (workspace_id, mode, charge_id);

-- Numbers the reads of charges, so that an older state never replaces a newer one.
create sequence processor_reads;

-- The promo codes that were created at a processor. Old ids stay, because a buyer may have
-- used them before.
create table processor_promo_codes (
  workspace_id      uuid not null,
  mode              text not null check (mode in ('test', 'live')),
  promotion_code_id text not null,
  coupon_id         text not null,
  account_id        text not null,                     -- of the processor
  promo_code_id     uuid not null,
  code              text not null,                     -- case-folded
  terms             text not null,                     -- discount, expiry and limit; a change needs a new promotion code
  active            boolean not null,
  created_at        timestamptz not null,
  primary key (workspace_id, mode, promotion_code_id)
);
create index processor_promo_codes_by_code on processor_promo_codes (workspace_id, promo_code_id);

-- The processor's ids of the sale, see affiliate.ProcessorIDs. Null: reported by the
-- merchant alone.
alter table conversions add column processor jsonb;

grant select, insert, update, delete on processor_connections, processor_signature_failures, processor_events, conversion_aliases,
  processor_charges, processor_charge_aliases, processor_disputes, processor_promo_codes to tributary_app;
grant usage on sequence processor_reads to tributary_app;
