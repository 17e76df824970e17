-- +goose Up

-- Tokens in the links of mails that verify an address, change the address of an account,
-- or reset a password. Rows are deleted after they have expired.
create table email_tokens (
  digest     bytea primary key,                 -- SHA-256 of 256 random bits
  user_id    uuid not null references users (id),
  purpose    text not null check (purpose in ('verify', 'change', 'reset')),
  address    text not null,                     -- the recipient of the mail, lower case
  session_id uuid,                              -- the session that requested a change; null for other purposes
  created_at timestamptz not null,
  expires_at timestamptz not null,
  used_at    timestamptz                        -- null: neither used nor revoked
);
create index email_tokens_by_user on email_tokens (user_id);
create index email_tokens_by_address on email_tokens (address, purpose, created_at);
create index email_tokens_by_expiry on email_tokens (expires_at);

-- Requests to reset a password or to change an address. A job processes a request and
-- deletes it. Only the job looks the address up, so the time of the response does not
-- depend on whether an account has the address.
create table email_requests (
  id           uuid primary key,
  purpose      text not null check (purpose in ('change', 'reset')),
  account_kind text not null check (account_kind in ('merchant', 'partner')),
  address      text not null,                   -- lower case
  user_id      uuid,                            -- the user who requested a change; null: reset
  session_id   uuid,                            -- the session that requested a change; null: reset
  created_at   timestamptz not null
);
create index email_requests_by_user on email_requests (user_id) where user_id is not null;
create index email_requests_by_age on email_requests (created_at);

grant select, insert, update, delete on email_tokens to tributary_app;
grant select, insert, delete on email_requests to tributary_app;
