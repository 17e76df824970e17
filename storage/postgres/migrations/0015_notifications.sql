-- +goose Up

-- Notifications, in weekly partitions by the UTC day in their ids. Old weeks are removed
-- by dropping their partitions. A feed is the list of a workspace or of a partner: its id
-- is the id of the workspace or of the partner's user. The primary key is also the index
-- of every list: a list reads one range of it for each category that the user sees.
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
  primary key (feed_id, mode, category, day, id)
) partition by range (day);
create table notifications_default partition of notifications default;

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
  day             date not null,                -- mode, category and day are those of the notification
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
-- dismissed.
create table notification_dismissals (
  feed_id          uuid not null,
  mode             text not null,
  category         text not null,
  dismissed_day    date not null,               -- day in dismissed_before
  dismissed_before uuid not null,
  dismissed_at     timestamptz not null,
  primary key (feed_id, mode, category)
);

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

grant select, insert, update (dismissed_at), delete on notifications to tributary_app;
grant select on notifications_default to tributary_app; -- for the alarm about weeks without a partition
grant select, insert, update (id), delete on notification_arrivals to tributary_app; -- FOR UPDATE requires the right to update
grant select, insert, update, delete on
  notification_reads, notification_watermarks, notification_dismissals, notification_preferences
  to tributary_app;
grant select, insert, delete on announcements to tributary_app;
