-- +goose Up

-- What the edge says of a click since it knows agents and places, and which
-- clicks count as unique.
--
-- The release before goes on working meanwhile and afterwards. Nothing is
-- rewritten or read through, and the tables are locked in the order in which
-- clicks are stored and folded. Whoever reads one of them for long is not waited
-- for, because everybody else would wait behind this: run it again then. While
-- cores of the release before are running, they fold unique clicks into nothing.
set local lock_timeout = '5s';

-- Nulls are kept out of is_unique by a check, and not by the column: the release
-- before merges repeated clicks through a table made like this one, which takes
-- over not null but no default.
alter table clicks
  add column country       text,                -- ISO 3166-1 alpha-2
  add column region        text,                -- of ISO 3166-2, behind the dash
  add column device        text,                -- desktop, mobile or tablet
  add column browser       text,
  add column os            text,
  add column paid_platform text,                -- whose click id the landing URL carried
  add column is_unique     boolean default false,
  add constraint clicks_is_unique_known check (is_unique is not null) not valid;

-- Analytics read hours; the totals since ever do not tell them apart.
alter table stats_deltas add column unique_clicks bigint not null default 0;
alter table stats_hours add column unique_clicks bigint not null default 0;
