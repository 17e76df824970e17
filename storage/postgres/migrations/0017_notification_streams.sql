-- +goose Up

-- The feeds that were streamed recently. Only the notifications of these feeds get
-- sequence numbers.
create table notification_feeds (
  feed_id        uuid primary key,
  last_seq       bigint not null,               -- number of the newest notification
  replay_after   bigint not null,               -- notifications with higher numbers can be replayed
  version        bigint not null,               -- incremented when a read state or preference changes
  streamed_until timestamptz not null           -- notifications get numbers until this time
) with (fillfactor = 60);
create index notification_feeds_by_age on notification_feeds (streamed_until);

-- The newest notifications of these feeds in the order of their numbers.
create table notification_positions (
  feed_id         uuid not null,
  seq             bigint not null,
  mode            text not null,                -- like category and day a copy of the value in notifications
  category        text not null,
  day             date not null,
  notification_id uuid not null,
  created_at      timestamptz not null,
  primary key (feed_id, seq)
);

-- Open streams. A stream whose process has crashed is not seen any more.
create table notification_streams (
  id      uuid primary key,
  user_id uuid not null,
  ticket  bytea,                                -- digest of the ticket that has opened the stream; null: an access token
  seen_at timestamptz not null
);
create index notification_streams_by_user on notification_streams (user_id);
create index notification_streams_by_age on notification_streams (seen_at);

create table notification_stream_tickets (
  digest     bytea primary key,                 -- SHA-256 of the ticket
  session_id uuid not null,
  kind       text not null,
  mode       text not null,
  created_at timestamptz not null,
  opened_at  timestamptz,                       -- null: not used yet
  expires_at timestamptz not null
);
create index notification_stream_tickets_by_age on notification_stream_tickets (expires_at);

grant select, insert, update, delete on
  notification_feeds, notification_positions, notification_streams, notification_stream_tickets
  to tributary_app;
