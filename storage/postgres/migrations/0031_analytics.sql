-- +goose Up

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
alter table analytics_log alter column clicks set storage external;

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
  primary key (workspace_id, mode, conversion_id)
);
create index analytics_conversions_by_customer on analytics_conversions (workspace_id, mode, customer_ref, occurred_at, conversion_id)
  where customer_ref is not null and program_id <> '00000000-0000-0000-0000-000000000000';
create index analytics_conversions_by_participant on analytics_conversions (workspace_id, mode, participant_id, occurred_at);
create index analytics_conversions_by_time on analytics_conversions (workspace_id, mode, occurred_at);

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

-- A transaction that changes sums locks the row of the workspace and mode. It also changes the
-- version, so that a transaction with an older snapshot cannot delete the row.
create table analytics_locks (
  workspace_id uuid not null,
  mode         text not null,
  version      bigint not null,
  primary key (workspace_id, mode)
);

grant select, insert, update, delete on
  analytics_locks, analytics_days, analytics_values, analytics_log, analytics_conversions, analytics_customers, analytics_cohorts
  to tributary_app;

-- The conversions that exist already are counted by the job that adds the log to the sums.
insert into analytics_log (workspace_id, mode, conversions)
select workspace_id, mode, array_agg(id)
from (select workspace_id, mode, id, row_number() over (partition by workspace_id, mode order by occurred_at) / 1000 as piece from conversions) c
group by workspace_id, mode, piece;
