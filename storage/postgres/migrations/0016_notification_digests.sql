-- +goose Up

-- While such a row exists, the notifications of a category to a user are gathered. They
-- are sent as one mail at due_at. The notifications since window_start are sent, except
-- those in mailed, which were already sent.
create table notification_digests (
  user_id      uuid not null,
  mode         text not null,
  category     text not null,
  workspace_id uuid not null,                   -- all zeros: any workspace
  window_start timestamptz not null,
  mailed       uuid[] not null,
  due_at       timestamptz not null,
  primary key (user_id, mode, category, workspace_id)
);
create index notification_digests_due on notification_digests (due_at);

grant select, insert, update, delete on notification_digests to tributary_app;
