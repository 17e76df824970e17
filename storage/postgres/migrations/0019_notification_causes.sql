-- +goose Up

-- The devices with which users have signed in, kept for 90 days after their last use. A
-- device is a browser in a network.
create table user_devices (
  user_id uuid not null references users (id),
  device  bytea not null,                       -- keyed hash
  seen_at timestamptz not null,
  primary key (user_id, device)
);
create index user_devices_by_age on user_devices (seen_at);

-- The last period for which a feed has got a notification that is repeated every week or
-- month, so that it gets at most one for each period.
create table notification_periods (
  feed_id uuid not null,
  mode    text not null,                        -- test, live, or both
  type    text not null,
  period  date not null,                        -- first day of the week or month
  primary key (feed_id, mode, type)
);

create index notification_positions_by_age on notification_positions (created_at); -- old positions are deleted

grant select, insert, update, delete on user_devices, notification_periods to tributary_app;
