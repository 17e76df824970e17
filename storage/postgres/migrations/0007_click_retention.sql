-- +goose Up

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

-- The progress of a day that is summed up in pieces. The clicks in all blocks before the
-- given block of the day's partition have been replaced by sums and deleted. A click that
-- was updated after that is an exception, because the update can move it into one of
-- these blocks. The function roll_clicks continues at the given block.
create table click_rolls (
  day_table text primary key,
  block     bigint not null
);

create index click_dead_letters_by_age on click_dead_letters (created_at);

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

grant select on click_days to tributary_app;
grant update (ip_hash, ip_prefix, ua_hash) on clicks_default to tributary_app; -- for the purge after 90 days
revoke execute on function roll_clicks(integer, integer) from public;
grant execute on function roll_clicks(integer, integer) to tributary_app;
