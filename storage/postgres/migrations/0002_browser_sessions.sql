-- +goose Up
-- The refresh token of a session that a browser keeps was exchanged for a browser secret. Both
-- columns have their defaults in all other sessions.
alter table sessions
  add column browser_digest bytea,              -- SHA-256 of 256 random bits
  add column keep_logged_in boolean not null default false; -- idle for 30 days, otherwise for 12 hours
create unique index sessions_by_browser on sessions (browser_digest) where browser_digest is not null;
