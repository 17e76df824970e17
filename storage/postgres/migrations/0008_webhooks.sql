-- +goose Up

-- Deliveries are now inserted together with their events. The earlier separate step,
-- which searched for new events and inserted their deliveries, is not needed any more.
alter table clicks drop column converted_at;

-- Events and deliveries are in weekly partitions, by the UTC day in their ids. Old
-- weeks are removed by dropping their partitions. Rows of a week without a partition go
-- into the default partition.
alter table events rename to events_before;
alter index events_pkey rename to events_before_pkey;
create table events (
  workspace_id uuid not null,
  id           uuid not null,
  day          date not null,                   -- day in the id, UTC
  mode         text not null,
  type         text not null,
  subject_id   uuid,                            -- the participant whose personal data the body contains
  body         bytea not null,                  -- the envelope, exactly as it is sent
  created_at   timestamptz not null,
  primary key (workspace_id, id, day)
) partition by range (day);
create table events_default partition of events default;
create index events_by_subject on events (workspace_id, subject_id) where subject_id is not null;
insert into events (workspace_id, id, day, mode, type, subject_id, body, created_at)
select workspace_id, id, (created_at at time zone 'UTC')::date, mode, type,
  case
    when type like 'participant.%' then (convert_from(body, 'UTF8')::jsonb #>> '{data,object,id}')::uuid
    when type like 'link.%' or type like 'promo_code.%' then (convert_from(body, 'UTF8')::jsonb #>> '{data,object,participant_id}')::uuid
  end, body, created_at
from events_before;
drop table events_before;

create table webhook_endpoints (
  workspace_id         uuid not null,
  id                   uuid not null,
  mode                 text not null,
  url                  text not null,
  description          text,
  subscriptions        text[] not null,         -- event names, patterns like commission.*, and *
  active               boolean not null,
  disabled_reason      text,                    -- null: active
  secret               bytea,                   -- encrypted; null: deleted
  previous_secret      bytea,                   -- encrypted; deliveries are also signed with it until previous_until
  previous_until       timestamptz,
  -- Incremented each time the endpoint is disabled. Deliveries of an earlier epoch are
  -- not sent any more. The transaction that disables the endpoint therefore changes no
  -- deliveries, however many are waiting.
  epoch                integer not null default 1,
  created_at           timestamptz not null,
  updated_at           timestamptz not null,
  version              integer not null,
  deleted_at           timestamptz,
  -- The health of the endpoint, according to its sender. The counters are reset when a
  -- delivery succeeds or when the endpoint is enabled.
  consecutive_failures integer not null default 0,
  failing_since        timestamptz,
  dead_letters         integer not null default 0,
  last_delivery_at     timestamptz,
  -- The process that has the lease of the endpoint. Until sender_until, no other
  -- process sends to the endpoint.
  sender               uuid,
  sender_until         timestamptz,
  primary key (workspace_id, id)
) with (fillfactor = 60);
create index webhook_endpoints_by_mode on webhook_endpoints (workspace_id, mode) where deleted_at is null;

create table webhook_deliveries (
  workspace_id     uuid not null,
  endpoint_id      uuid not null,
  id               uuid not null,               -- delivery_id(event, endpoint)
  day              date not null,               -- day in the id, UTC; same as that of the event
  mode             text not null,
  event_id         uuid not null,
  event_type       text not null,
  epoch            integer not null,            -- epoch of the endpoint when the delivery was created or recovered
  status           text not null default 'pending',
  due_at           timestamptz,                 -- time of the next attempt; null: no further attempt
  tier             integer not null default 0,  -- number of scheduled attempts so far
  extra            integer not null default 0,  -- number of requested attempts still to be made
  attempt_count    integer not null default 0,
  http_status_code integer,                     -- of the last attempt
  error_message    text,
  attempts         jsonb not null default '[]',
  created_at       timestamptz not null,
  completed_at     timestamptz,
  primary key (workspace_id, endpoint_id, id, day)
) partition by range (day);
create table webhook_deliveries_default partition of webhook_deliveries default;
create index webhook_deliveries_due on webhook_deliveries (workspace_id, endpoint_id, epoch, due_at) where due_at is not null;
create index webhook_deliveries_by_status on webhook_deliveries (workspace_id, endpoint_id, status, id) where status <> 'delivered';

-- Returns the id of an event's delivery to an endpoint. The id is a UUIDv7 with the
-- event's time, so that the event and the delivery are in the same week. The same
-- arguments always give the same id.
create function delivery_id(event uuid, endpoint uuid) returns uuid
language sql immutable strict parallel safe as $$
  select encode(substring(uuid_send(event) from 1 for 8) || set_byte(digest, 0, get_byte(digest, 0) & 63 | 128), 'hex')::uuid
  from (select substring(decode(md5(event::text || endpoint::text), 'hex') from 1 for 8) as digest) as d
$$;

-- +goose StatementBegin
-- Creates the missing weekly partitions of events and deliveries for all days from the
-- argument first to the argument last, both included. Rows of these weeks that are in the
-- default partition move into the new partitions. If another transaction locks the
-- default partition for a long time, as a dump does, the function fails with
-- lock_not_available. If it waited instead, all later transactions would have to wait
-- too.
create function ensure_event_partitions(first date, last date) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  parent text;
  week   date;
  name   text;
  made   integer := 0;
  -- The schema that contains the tables. It is read from the catalogue, because
  -- search_path is fixed and does not contain this schema.
  home   text := (select n.nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                  where c.relname = 'webhook_deliveries' and c.relkind = 'p' limit 1);
begin
  -- Only one database session at a time creates partitions. Other sessions wait and
  -- then find the partitions.
  perform pg_catalog.pg_advisory_xact_lock(7305804402567017333);
  foreach parent in array array['events', 'webhook_deliveries'] loop
    week := date_trunc('week', first)::date;
    while week <= last loop
      name := parent || '_' || to_char(week, 'YYYYMMDD');
      if to_regclass(format('%I.%I', home, name)) is null then
        execute format('create table %I.%I (like %I.%I including defaults including constraints)', home, name, home, parent);
        -- The lock waits for transactions that are inserting into the default
        -- partition. Their rows move too.
        execute format('lock table %I.%I in access exclusive mode', home, parent || '_default');
        execute format('with moved as (delete from %I.%I where day >= %L and day < %L returning *) insert into %I.%I select * from moved',
          home, parent || '_default', week, week + 7, home, name);
        execute format('alter table %I.%I attach partition %I.%I for values from (%L) to (%L)', home, parent, home, name, week, week + 7);
        made := made + 1;
      end if;
      week := week + 7;
    end loop;
  end loop;
  return made;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Drops old weekly partitions of the table that the argument parent names: events or
-- webhook_deliveries. A partition is old if its week ended at least 34 days ago. The API
-- returns events and deliveries for 30 days. A delivery that is recovered on the last of
-- these days can take four more days. From the default partition the function deletes
-- rows that are equally old; the argument most limits their number. The database's clock
-- decides what is old enough, not the caller. The function returns the number of dropped
-- partitions and deleted rows. Dropping a partition needs an exclusive lock on the table
-- for a moment. If the lock is not available within one second, the function fails with
-- lock_not_available.
create function drop_old_events(parent text, most integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  kept    date := (now() at time zone 'UTC')::date - 34;
  home    text := (select n.nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                   where c.relname = 'webhook_deliveries' and c.relkind = 'p' limit 1);
  week    text;
  dropped bigint := 0;
  strays  bigint;
begin
  if parent not in ('events', 'webhook_deliveries') then
    raise exception 'not a table of events: %', parent;
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

grant select, insert, update on webhook_endpoints, webhook_deliveries to tributary_app;
grant select, insert, update (body) on events to tributary_app;
grant select on events_default, webhook_deliveries_default to tributary_app; -- for the alarm about weeks without a partition
revoke execute on function ensure_event_partitions(date, date), drop_old_events(text, integer) from public;
grant execute on function ensure_event_partitions(date, date), drop_old_events(text, integer) to tributary_app;
