-- +goose Up

-- Where and when a session is used, for the list of an account's sessions. Sessions from
-- before this migration show the time of the migration until their next refresh.
alter table sessions
  add column device       text not null default '',           -- browser and system, for example Firefox on Linux
  add column network      text not null default '',           -- /24 or /48
  add column last_used_at timestamptz not null default date_trunc('milliseconds', now()); -- the login or the last refresh

-- The language in which a person reads the apps. Null until the person chooses one.
alter table users add column locale text check (locale in ('en', 'de'));
