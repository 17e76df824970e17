-- +goose Up

-- +goose StatementBegin
-- Locks the table parent if rows whose column key is at least low and less than high are
-- in its default partition, and reports whether it has locked the table. If such rows move
-- to a new partition without this lock, a query that waits for the default partition does
-- not return them: it looks for them in the partitions that existed before it waited. The
-- caller must hold no lock on the default partition yet, because queries lock the table
-- first.
create function lock_if_rows_move(home text, parent text, key text, low text, high text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  rows_move boolean;
begin
  execute format('select exists (select from %I.%I where %I >= %L and %I < %L)', home, parent || '_default', key, low, key, high)
    into rows_move;
  if rows_move then
    execute format('lock table only %I.%I in access exclusive mode', home, parent);
  end if;
  return rows_move;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Creates the partition with the name in the argument name, for the rows of the table
-- parent whose column key is at least low and less than high. If such rows are in the
-- default partition, they move into the new partition, also those of transactions that
-- commit while the function waits for the default partition. If the caller has not locked
-- the table, rows must not move, and the function fails with lock_not_available. The next
-- call finds these rows and locks the table.
create function create_partition(home text, parent text, name text, key text, low text, high text, table_locked boolean) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  moved bigint;
begin
  execute format('create table %I.%I (like %I.%I including defaults including constraints)', home, name, home, parent);
  execute format('lock table %I.%I in access exclusive mode', home, parent || '_default');
  execute format('with moved as (delete from %I.%I where %I >= %L and %I < %L returning *) insert into %I.%I select * from moved',
    home, parent || '_default', key, low, key, high, home, name);
  get diagnostics moved = row_count;
  if moved > 0 and not table_locked then
    raise exception 'rows were inserted into the default partition of % in the meantime', parent using errcode = 'lock_not_available';
  end if;
  execute format('alter table %I.%I attach partition %I.%I for values from (%L) to (%L)', home, parent, home, name, low, high);
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Creates the missing daily partitions of clicks for all days from the argument first to
-- the argument last, both included. If another transaction locks clicks for more than a
-- second, as a dump does, the function fails with lock_not_available. If it waited
-- instead, all later transactions would have to wait too.
create or replace function ensure_click_partitions(first date, last date) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  day    date := first;
  name   text;
  locked boolean;
  made   integer := 0;
  -- The schema that contains the tables. It is read from the catalogue, because
  -- search_path is fixed and does not contain this schema.
  home   text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                  where c.relname = 'clicks' and c.relkind = 'p' limit 1);
begin
  -- Only one database session at a time creates partitions. Other sessions wait for a
  -- second at most.
  perform pg_advisory_xact_lock(7305804402567017331);
  execute format('select %I.lock_if_rows_move($1, $2, $3, $4, $5)', home) into locked
    using home, 'clicks', 'clicked_at', (first::timestamp at time zone 'UTC')::text, ((last + 1)::timestamp at time zone 'UTC')::text;
  while day <= last loop
    name := 'clicks_' || to_char(day, 'YYYYMMDD');
    if to_regclass(format('%I.%I', home, name)) is null then
      execute format('select %I.create_partition($1, $2, $3, $4, $5, $6, $7)', home)
        using home, 'clicks', name, 'clicked_at', (day::timestamp at time zone 'UTC')::text, ((day + 1)::timestamp at time zone 'UTC')::text, locked;
      made := made + 1;
    end if;
    day := day + 1;
  end loop;
  return made;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Creates the missing weekly partitions of the table that the argument parent names, for
-- all days from the argument first to the argument last, both included. Like
-- ensure_click_partitions, it fails with lock_not_available instead of waiting.
create or replace function ensure_week_partitions(parent text, first date, last date) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  week   date := date_trunc('week', first)::date;
  name   text;
  locked boolean;
  made   integer := 0;
  home   text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                  where c.relname = 'webhook_deliveries' and c.relkind = 'p' limit 1);
begin
  if parent not in ('events', 'webhook_deliveries', 'notifications') then
    raise exception 'not a table with weekly partitions: %', parent;
  end if;
  perform pg_advisory_xact_lock(7305804402567017333);
  execute format('select %I.lock_if_rows_move($1, $2, $3, $4, $5)', home) into locked
    using home, parent, 'day', week::text, (date_trunc('week', last)::date + 7)::text;
  while week <= last loop
    name := parent || '_' || to_char(week, 'YYYYMMDD');
    if to_regclass(format('%I.%I', home, name)) is null then
      execute format('select %I.create_partition($1, $2, $3, $4, $5, $6, $7)', home)
        using home, parent, name, 'day', week::text, (week + 7)::text, locked;
      made := made + 1;
    end if;
    week := week + 7;
  end loop;
  return made;
end $$;
-- +goose StatementEnd

revoke execute on function lock_if_rows_move(text, text, text, text, text), create_partition(text, text, text, text, text, text, boolean) from public;

-- No binary calls these functions any more. ensure_week_partitions and drop_old_weeks
-- have replaced them.
drop function ensure_event_partitions(date, date), drop_old_events(text, integer);
