-- +goose Up

-- What stays of clicks after 13 months. A link has at most 200 rows of a day, or of
-- each piece of a day that is summed up in pieces: its most frequent combinations,
-- and one for all others, whose values are null. What nearly every click has its
-- own value of (landing page, sub id) is left out. The clicks of one combination
-- may be in several rows: add them up.
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
  clicks          bigint not null,              -- without those of bots, as unique_clicks
  unique_clicks   bigint not null,
  bot_clicks      bigint not null
);
create index click_days_by_day on click_days (workspace_id, mode, day);

-- How far a day that is summed up in pieces is: before this block of its table no
-- clicks are left, but for any that were changed since. Only a hint where to go on.
create table click_rolls (
  day_table text primary key,
  block     bigint not null
);

create index click_dead_letters_by_age on click_dead_letters (created_at);

-- +goose StatementBegin
-- Sums the oldest day of clicks up in click_days and drops its partition, or, when
-- no partition is old enough, up to most clicks of the default one. Of a day of
-- more than so many blocks it takes that many at a time, deletes their clicks, and
-- drops the partition with the last ones. Returns how many clicks that were; null:
-- there is nothing to do, or somebody else is at it.
--
-- What is old enough is not the caller's to say: a day that ended 13 months ago by
-- the clock of the database. A click goes in the transaction that sums it up, so
-- it is counted in one of the two tables whatever happens.
--
-- While the sums are made, the day can be read and nothing else waits. Dropping
-- needs the whole table for an instant; everybody waits behind a transaction that
-- keeps it from that, so it gives up after a second, with lock_not_available.
create function roll_clicks(most integer, blocks integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  kept   timestamptz := date_trunc('day', now() at time zone 'UTC' - interval '13 months') at time zone 'UTC';
  -- This function's own schema: search_path is fixed and does not name it.
  home   text := (select n.nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                  where c.relname = 'clicks' and c.relkind = 'p' and pg_get_userbyid(c.relowner) = current_user limit 1);
  oldest text;
  source text;
  first  bigint;
  whole  boolean := true;                       -- the partition goes with these clicks
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
    -- No row comes or changes between the sums and the drop. All that is left: a
    -- changed click may lie anywhere.
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
grant update (ip_hash, ip_prefix, ua_hash) on clicks_default to tributary_app; -- the purge after 90 days
revoke execute on function roll_clicks(integer, integer) from public;
grant execute on function roll_clicks(integer, integer) to tributary_app;
