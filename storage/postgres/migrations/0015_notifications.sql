-- +goose Up

-- Notifications, in weekly partitions by the UTC day in their ids. Old weeks are removed
-- by dropping their partitions. A feed is the list of a workspace or of a partner: its id
-- is the id of the workspace or of the partner's user. The primary key is also the index
-- of every list: a list reads one range of it for each category that the user sees. With
-- the included columns, which are null in most rows, counts read only the index.
create table notifications (
  feed_id        uuid not null,
  mode           text not null,                 -- test, live, or both
  category       text not null,
  day            date not null,                 -- day in the id, UTC
  id             uuid not null,                 -- UUIDv7; contains the time
  type           text not null,
  workspace_id   uuid,                          -- where the cause happened, also in a partner's feed; null: in the partner's account
  user_id        uuid,                          -- the user whom it is about; null: none
  program_id     uuid,
  participant_id uuid,
  resource_id    uuid,
  facts          json not null,                -- values of the placeholders in the text, except names
  dismissed_at   timestamptz,
  primary key (feed_id, mode, category, day, id) include (user_id, dismissed_at)
) partition by range (day);
create table notifications_default partition of notifications default;
create index notifications_dismissed on notifications (dismissed_at) where dismissed_at is not null;

-- The notifications of one transaction that were not distributed yet to streams and
-- mails. The arrays are parallel: they have one element for each notification. A process
-- deletes the row when it distributes them.
create table notification_arrivals (
  id            uuid primary key,               -- UUIDv7
  feed_ids      uuid[] not null,
  modes         text[] not null,
  types         text[] not null,
  ids           uuid[] not null,
  workspace_ids uuid[] not null,
  user_ids      uuid[] not null
);

-- The notifications that a user has read one by one.
create table notification_reads (
  user_id         uuid not null,
  mode            text not null,
  category        text not null,
  day             date not null,                -- mode, category and day of the notification
  notification_id uuid not null,
  read_at         timestamptz not null,
  primary key (user_id, mode, category, day, notification_id)
);
create index notification_reads_by_day on notification_reads (day);

-- The last time that a user has marked all notifications of a category as read. All
-- notifications with an id below read_before are read, so the call changes one row and
-- not every notification.
create table notification_watermarks (
  user_id     uuid not null,
  mode        text not null,
  category    text not null,
  read_day    date not null,                    -- day in read_before
  read_before uuid not null,
  read_at     timestamptz not null,
  primary key (user_id, mode, category)
);

-- All notifications of a feed and category with an id below dismissed_before are
-- dismissed. Those with an id below purge_before are deleted at purge_at. After that, the
-- two columns are set again, to the current dismissed_before and a later time. Therefore a
-- notification is deleted even if dismissed_before is raised every day.
create table notification_dismissals (
  feed_id          uuid not null,
  mode             text not null,
  category         text not null,
  dismissed_day    date not null,               -- day in dismissed_before
  dismissed_before uuid not null,
  dismissed_at     timestamptz not null,
  purge_day        date,                        -- day in purge_before
  purge_before     uuid,
  purge_at         timestamptz,                 -- null, like the two columns above: all dismissed notifications are deleted
  primary key (feed_id, mode, category)
);
create index notification_dismissals_by_purge on notification_dismissals (purge_at) where purge_at is not null;

-- Texts that were announced to the approved participants of a programme, or by the
-- operator to all workspaces.
create table announcements (
  id           uuid primary key,
  workspace_id uuid,                            -- null, like program_id and mode: by the operator
  program_id   uuid,
  mode         text,
  title        text not null,
  body         text not null,
  created_by   uuid,                            -- user; null: the operator
  created_at   timestamptz not null
);
create index announcements_by_program on announcements (workspace_id, program_id, created_at) where program_id is not null;

-- What users have chosen. A column is null if the user has not chosen anything.
create table notification_preferences (
  user_id  uuid not null,
  category text not null,
  email    boolean,
  in_app   boolean,
  primary key (user_id, category)
);

-- +goose StatementBegin
-- Creates the missing weekly partitions of the table that the argument parent names, for
-- all days from the argument first to the argument last, both included. Rows of these
-- weeks that are in the default partition move into the new partitions. If another
-- transaction locks the default partition for a long time, as a dump does, the function
-- fails with lock_not_available. If it waited instead, all later transactions would have
-- to wait too. It replaces ensure_event_partitions, which older binaries still call.
create function ensure_week_partitions(parent text, first date, last date) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  week date := date_trunc('week', first)::date;
  name text;
  made integer := 0;
  -- The schema that contains the tables. It is read from the catalogue, because
  -- search_path is fixed and does not contain this schema.
  home text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where c.relname = 'webhook_deliveries' and c.relkind = 'p' limit 1);
begin
  if parent not in ('events', 'webhook_deliveries', 'notifications') then
    raise exception 'not a table with weekly partitions: %', parent;
  end if;
  -- Only one database session at a time creates partitions, also with
  -- ensure_event_partitions. Other sessions wait and then find the partitions.
  perform pg_advisory_xact_lock(7305804402567017333);
  while week <= last loop
    name := parent || '_' || to_char(week, 'YYYYMMDD');
    if to_regclass(format('%I.%I', home, name)) is null then
      execute format('create table %I.%I (like %I.%I including defaults including constraints)', home, name, home, parent);
      -- The lock waits for transactions that are inserting into the default partition.
      -- Their rows move too.
      execute format('lock table %I.%I in access exclusive mode', home, parent || '_default');
      execute format('with moved as (delete from %I.%I where day >= %L and day < %L returning *) insert into %I.%I select * from moved',
        home, parent || '_default', week, week + 7, home, name);
      execute format('alter table %I.%I attach partition %I.%I for values from (%L) to (%L)', home, parent, home, name, week, week + 7);
      made := made + 1;
    end if;
    week := week + 7;
  end loop;
  return made;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Drops old weekly partitions of the table that the argument parent names. A partition is
-- old if its week ended before the first day that is kept: the API returns notifications
-- for 180 days, and events and deliveries for 30 days. A delivery that is recovered on the
-- last of these days can take four more days. From the default partition the function
-- deletes rows that are equally old; the argument most limits their number. The
-- database's clock decides what is old enough, not the caller. The function returns the
-- number of dropped partitions and deleted rows. Dropping a partition needs an exclusive
-- lock on the table for a moment. If the lock is not available within one second, the
-- function fails with lock_not_available. It replaces drop_old_events, which older
-- binaries still call.
create function drop_old_weeks(parent text, most integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  kept    date := (now() at time zone 'UTC')::date - case parent when 'notifications' then 180 else 34 end;
  home    text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                   where c.relname = 'webhook_deliveries' and c.relkind = 'p' limit 1);
  week    text;
  dropped bigint := 0;
  strays  bigint;
begin
  if parent not in ('events', 'webhook_deliveries', 'notifications') then
    raise exception 'not a table with weekly partitions: %', parent;
  end if;
  if not pg_try_advisory_xact_lock(7305804402567017334) then
    return 0;
  end if;
  for week in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = format('%I.%I', home, parent)::regclass and c.relname ~ ('^' || parent || '_[0-9]{8}$')
      and to_date(right(c.relname, 8), 'YYYYMMDD') + 7 <= kept
    order by c.relname
  loop
    execute format('drop table %I.%I', home, week);
    dropped := dropped + 1;
  end loop;
  execute format('delete from %1$I.%2$I where ctid = any (array(select ctid from %1$I.%2$I where day < $1 limit $2))', home, parent || '_default')
    using kept, most;
  get diagnostics strays = row_count;
  return dropped + strays;
end $$;
-- +goose StatementEnd

revoke execute on function ensure_week_partitions(text, date, date), drop_old_weeks(text, integer) from public;
grant execute on function ensure_week_partitions(text, date, date), drop_old_weeks(text, integer) to tributary_app;
grant select, insert, update (dismissed_at), delete on notifications to tributary_app;
grant select on notifications_default to tributary_app; -- for the alarm about weeks without a partition
grant select, insert, update (id), delete on notification_arrivals to tributary_app; -- FOR UPDATE requires the right to update
grant select, insert, update, delete on
  notification_reads, notification_watermarks, notification_dismissals, notification_preferences
  to tributary_app;
grant select, insert, delete on announcements to tributary_app;
