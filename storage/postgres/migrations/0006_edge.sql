-- +goose Up

-- Adds columns for the data about agent and place that the edge sends with a click, and
-- a flag for unique clicks.
--
-- The previous release keeps working during and after this migration. No table is
-- rewritten or scanned. The tables are locked in the order in which clicks are stored
-- and folded. The lock_timeout limits the wait for a transaction that reads one of the
-- tables for long, because all other transactions would wait too. If the migration
-- fails for this reason, run it again. As long as cores of the previous release run,
-- they drop the unique clicks of the deltas that they fold.
set local lock_timeout = '5s';

-- A check constraint keeps nulls out of is_unique, not the column definition. The
-- previous release merges repeated clicks through a temporary table that is created
-- like this one. The temporary table takes over NOT NULL but no defaults.
alter table clicks
  add column country       text,                -- ISO 3166-1 alpha-2
  add column region        text,                -- part of ISO 3166-2 after the hyphen
  add column device        text,                -- desktop, mobile or tablet
  add column browser       text,
  add column os            text,
  add column paid_platform text,                -- platform whose click id was in the landing URL
  add column is_unique     boolean default false,
  add constraint clicks_is_unique_known check (is_unique is not null) not valid;

-- Analytics use the hours only, so the totals over all time do not have unique clicks.
alter table stats_deltas add column unique_clicks bigint not null default 0;
alter table stats_hours add column unique_clicks bigint not null default 0;
