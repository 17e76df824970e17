-- +goose Up

-- Mails to one recipient each. A mail is inserted with the change that causes it, and a
-- job sends it. Mails of test mode and account mails are also the notification log. The
-- log shows them when their status is no longer pending. Rows are deleted after 30 days.
create table mails (
  id             uuid primary key,              -- UUIDv7; also the Message-ID, in every repetition
  kind           text not null,                 -- selects the text
  type           text not null,                 -- as the log shows it
  category       text not null,                 -- of the notifications; empty for account mail
  workspace_id   uuid,                          -- null: the recipient belongs to no workspace
  logged         boolean not null,              -- the notification log of the workspace shows the mail
  mode           text check (mode in ('test', 'live')), -- null: both modes
  user_id        uuid,                          -- null: the recipient has no account
  account_kind   text not null check (account_kind in ('merchant', 'partner')),
  recipient_name text not null,
  recipient      text not null,                 -- e-mail address, lower case
  facts          jsonb not null,                -- what the text contains; no tokens
  secret         bytea,                         -- the token of the link, encrypted; null: none, or the mail was sent
  status         text not null check (status in ('pending', 'delivered', 'redirected', 'suppressed')),
  reason         text,                          -- why the mail is suppressed; null: it is not
  redirected_to  text,
  sender         text,                          -- the header From; like subject, html and text only set if the log shows them
  subject        text,
  html           text,
  text           text,
  created_at     timestamptz not null,
  completed_at   timestamptz                    -- null: pending
);
create index mails_by_age on mails (created_at);
create index mails_log on mails (workspace_id, created_at desc, id desc) include (status, type, recipient)
  where logged and status <> 'pending';
create index mails_pending on mails (created_at) where status = 'pending';
create index mails_by_user on mails (user_id) where user_id is not null;

-- Addresses that get no mail except security mail and mail that their owner has
-- requested, because a mail to them bounced or because they complained.
create table mail_suppressions (
  digest     bytea primary key,                 -- keyed hash of the address in lower case
  reason     text not null check (reason in ('bounced', 'complained', 'suppressed', 'refused')),
  created_at timestamptz not null
);

-- The ids of the messages that the mail provider's webhook has delivered. They are kept
-- for 7 days, so that a repeated message has no further effect.
create table mail_provider_messages (
  id          text primary key,
  received_at timestamptz not null
);
create index mail_provider_messages_by_age on mail_provider_messages (received_at);

grant select, insert, update, delete on mails, mail_suppressions to tributary_app;
grant select, insert, delete on mail_provider_messages to tributary_app;
