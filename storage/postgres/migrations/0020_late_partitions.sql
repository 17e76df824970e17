-- +goose Up

-- +goose StatementBegin
-- Creates the missing partitions of the table that the argument parent names, in the
-- schema home. Each has the given number of days. The first begins at the argument first,
-- and the last contains the argument last. The argument key names the column by which the
-- table is partitioned, a date or a time in UTC. Rows in the default partition move into
-- the new partitions, also those of transactions that commit while the function waits for
-- the default partition. The function returns the number of new partitions. If another
-- transaction locks the table for more than a second, as a dump does, the function fails
-- with lock_not_available. If it waited instead, all later transactions would have to
-- wait too.
--
-- If rows move, the function locks the table. Otherwise a query that waits for the default
-- partition would not return them: it would look for them in the partitions that existed
-- before it waited. Usually no rows move, and only the default partition is locked. Queries
-- lock the table first, so the function must do so too.
create function ensure_partitions(home text, parent text, key text, first date, last date, days integer) returns integer
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  midnight  text := 'YYYY-MM-DD 00:00:00+00'; -- as a date it is the day, as a time the beginning of the day in UTC
  day       date := first;
  stop      date := first + ((last - first) / days + 1) * days; -- the end of the last partition
  name      text;
  rows_move boolean;
  moved     bigint;
  made      integer := 0;
begin
  execute format('select exists (select from %I.%I where %I >= %L and %I < %L)', home, parent || '_default',
    key, to_char(day, midnight), key, to_char(stop, midnight)) into rows_move;
  if rows_move then
    execute format('lock table only %I.%I in access exclusive mode', home, parent);
  end if;
  while day < stop loop
    name := parent || '_' || to_char(day, 'YYYYMMDD');
    if to_regclass(format('%I.%I', home, name)) is null then
      execute format('create table %I.%I (like %I.%I including defaults including constraints)', home, name, home, parent);
      execute format('lock table %I.%I in access exclusive mode', home, parent || '_default');
      execute format('with moved as (delete from %I.%I where %I >= %L and %I < %L returning *) insert into %I.%I select * from moved',
        home, parent || '_default', key, to_char(day, midnight), key, to_char(day + days, midnight), home, name);
      get diagnostics moved = row_count;
      if moved > 0 and not rows_move then
        -- The next call finds these rows and locks the table.
        raise exception 'rows were inserted into the default partition of % in the meantime', parent using errcode = 'lock_not_available';
      end if;
      execute format('alter table %I.%I attach partition %I.%I for values from (%L) to (%L)',
        home, parent, home, name, to_char(day, midnight), to_char(day + days, midnight));
      made := made + 1;
    end if;
    day := day + days;
  end loop;
  return made;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Creates the missing daily partitions of clicks for all days from the argument first to
-- the argument last, both included.
create or replace function ensure_click_partitions(first date, last date) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  made integer;
  -- The schema that contains the tables. It is read from the catalogue, because
  -- search_path is fixed and does not contain this schema.
  home text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where c.relname = 'clicks' and c.relkind = 'p' limit 1);
begin
  -- Only one database session at a time creates partitions. Other sessions wait for a
  -- second at most.
  perform pg_advisory_xact_lock(7305804402567017331);
  execute format('select %I.ensure_partitions($1, $2, $3, $4, $5, $6)', home) into made using home, 'clicks', 'clicked_at', first, last, 1;
  return made;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Creates the missing weekly partitions of the table that the argument parent names, for
-- all days from the argument first to the argument last, both included.
create or replace function ensure_week_partitions(parent text, first date, last date) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  made integer;
  home text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where c.relname = 'webhook_deliveries' and c.relkind = 'p' limit 1);
begin
  if parent not in ('events', 'webhook_deliveries', 'notifications') then
    raise exception 'not a table with weekly partitions: %', parent;
  end if;
  perform pg_advisory_xact_lock(7305804402567017333);
  execute format('select %I.ensure_partitions($1, $2, $3, $4, $5, $6)', home) into made using home, parent, 'day', date_trunc('week', first)::date, last, 7;
  return made;
end $$;
-- +goose StatementEnd

revoke execute on function ensure_partitions(text, text, text, date, date, integer) from public;

-- No binary calls these functions any more. ensure_week_partitions and drop_old_weeks
-- have replaced them.
drop function ensure_event_partitions(date, date), drop_old_events(text, integer);
