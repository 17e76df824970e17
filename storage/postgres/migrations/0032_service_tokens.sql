-- +goose Up

-- Credentials of programs that manage a workspace (affiliate.ServiceToken).
create table service_tokens (
  workspace_id        uuid not null references workspaces (id),
  id                  uuid not null,
  mode                text not null check (mode in ('test', 'live')),
  name                text not null,
  role                text not null check (role in ('admin', 'manager', 'finance', 'developer', 'viewer')),
  allow_payouts       boolean not null,
  digest              bytea not null unique,    -- SHA-256 of the token
  prefix              text not null,
  last4               text not null,
  created_by          uuid not null references users (id),
  created_at          timestamptz not null,
  expires_at          timestamptz not null,
  revoked_at          timestamptz,
  rolled_at           timestamptz,
  last_used_at        timestamptz,              -- to the minute
  last_used_ip_prefix text,                     -- /24 or /48
  primary key (workspace_id, id)
);
create index service_tokens_by_age on service_tokens (workspace_id, created_at desc, id desc) where revoked_at is null;
grant select, insert, update, delete on service_tokens to tributary_app;

-- +goose Down
drop table service_tokens;
