-- +goose Up

-- The clicks and the fraud events of a participant are exported. Without these indexes, the
-- export would have to read those of the whole workspace.
create index clicks_by_participant on clicks (workspace_id, participant_id, clicked_at);
create index fraud_events_by_participant on fraud_events (workspace_id, mode, participant_id, created_at, id);

-- Exports of personal data. A row is a bundle that is being made or can be downloaded. It is
-- deleted at expires_at, or when its subject is erased. See package server/privacy/export.
create table exports (
  id           uuid primary key,
  kind         text not null check (kind in ('partner', 'participant', 'merchant')),
  subject_id   uuid not null,                   -- the partner's user, the participant or the workspace
  workspace_id uuid,                            -- null: a partner's account
  program_id   uuid,                            -- of a participant
  partner_id   uuid,                            -- the partner's user; null: a workspace
  mode         text check (mode in ('test', 'live')), -- of a participant; null: both modes
  request_mode text not null check (request_mode in ('test', 'live')), -- of the first request
  queued       boolean not null,                -- a job makes the bundle, and the link is mailed
  lease_until  timestamptz not null,            -- until then, one process makes the bundle
  lease        uuid not null,                   -- names this process
  progress     jsonb not null,                  -- what was written so far, see affiliate.ExportProgress
  created_at   timestamptz not null,
  ready_at     timestamptz,                     -- null: not complete
  expires_at   timestamptz,                     -- null: not complete
  check ((ready_at is null) = (expires_at is null))
);
create unique index exports_running on exports (subject_id) where ready_at is null;
create index exports_by_subject on exports (subject_id, created_at);
create index exports_by_workspace on exports (workspace_id) where workspace_id is not null;
create index exports_by_partner on exports (partner_id) where partner_id is not null;
create index exports_by_expiry on exports (expires_at) where expires_at is not null;
create index exports_running_by_age on exports (created_at) where ready_at is null;

-- The content of a bundle in pieces, compressed and encrypted.
create table export_chunks (
  export_id uuid not null references exports (id),
  number    integer not null,                   -- counted from 0
  data      bytea not null,
  primary key (export_id, number)
);
alter table export_chunks alter column data set storage external; -- encrypted data cannot be compressed

-- The tokens in links to bundles.
create table export_tokens (
  digest     bytea primary key,                 -- SHA-256 of 256 random bits
  export_id  uuid not null references exports (id),
  created_at timestamptz not null,
  expires_at timestamptz not null
);
create index export_tokens_by_export on export_tokens (export_id);

-- The members to whom the link to a bundle is mailed when it is complete.
create table export_recipients (
  export_id    uuid not null references exports (id),
  user_id      uuid not null,
  requested_at timestamptz not null,
  primary key (export_id, user_id)
);

grant select, insert, update, delete on exports to tributary_app;
grant select, insert, delete on export_chunks, export_tokens, export_recipients to tributary_app;

-- +goose Down
