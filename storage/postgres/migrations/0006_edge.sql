-- +goose Up

-- Adds columns for data that the edge sends with a click: the user agent's device,
-- browser and system, the place, and the ad platform. Adds a flag for unique clicks.
--
-- The previous release keeps working during and after this migration. No table is
-- rewritten or scanned. The tables are locked in the order in which the service writes to
-- them when it stores clicks and adds deltas to the totals. A transaction that reads one
-- of the tables for a long time would make the migration wait, and all later transactions
-- would wait for the migration. core migrate limits this wait.

-- is_unique gets a check constraint instead of NOT NULL. The previous release stores
-- repeated clicks through a temporary table that copies the columns of the table clicks.
-- The temporary table would copy NOT NULL but not the default, and its inserts would
-- fail.
alter table clicks
  add column country       text,                -- ISO 3166-1 alpha-2
  add column region        text,                -- part of ISO 3166-2 after the hyphen
  add column device        text,                -- desktop, mobile or tablet
  add column browser       text,
  add column os            text,
  add column paid_platform text,                -- platform whose click id was in the landing URL
  add column is_unique     boolean default false,
  add constraint clicks_is_unique_known check (is_unique is not null) not valid;
