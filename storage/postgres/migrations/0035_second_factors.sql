-- +goose Up

-- Second factors of accounts (affiliate.SecondFactor). A row without confirmed_at is an
-- enrolment that was not confirmed.
create table second_factors (
  user_id      uuid primary key references users (id),
  secret       bytea not null,                  -- encrypted secret of the TOTP (RFC 6238)
  created_at   timestamptz not null,
  confirmed_at timestamptz,
  last_step    bigint not null default 0        -- codes of this time step and of earlier steps are refused
);

-- Recovery codes. Each works once.
create table recovery_codes (
  user_id uuid not null references second_factors (user_id) on delete cascade,
  digest  bytea not null,                       -- SHA-256 of 80 random bits
  used_at timestamptz,
  primary key (user_id, digest)
);

-- Logins that wait for a code. Rows are deleted after the login or after they have expired.
create table login_challenges (
  digest     bytea primary key,                 -- SHA-256 of 256 random bits
  user_id    uuid not null references users (id),
  failures   integer not null default 0,        -- wrong codes
  created_at timestamptz not null,
  expires_at timestamptz not null
);
create index login_challenges_by_user on login_challenges (user_id);
create index login_challenges_by_expiry on login_challenges (expires_at);

alter table workspaces add column require_second_factor boolean not null default false;

grant select, insert, update, delete on second_factors, recovery_codes, login_challenges to tributary_app;

-- +goose Down
alter table workspaces drop column require_second_factor;
drop table login_challenges, recovery_codes, second_factors;
