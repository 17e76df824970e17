-- +goose Up

-- Partners that a merchant's server has made. All new columns have defaults, so that the
-- binaries of the version before can still write rows.

-- Nobody has set a password yet, so nobody can log in.
alter table users add column unclaimed boolean not null default false;

alter table participants
  add column external_id     text,              -- the merchant's own id of the partner
  -- Null unless the merchant added a partner who already had an account and who has not
  -- accepted yet.
  add column partner_consent text,
  -- A core of the version before cannot approve a participation without the consent.
  add constraint participants_partner_consent check (
    partner_consent is null or partner_consent in ('awaited', 'declined') and status in ('pending', 'rejected')
  ) not valid; -- valid for all rows, because the column is new
-- Accounts that are erased when they take part in no programme any more.
create index users_unclaimed on users (id) where unclaimed;
create unique index participants_external_id on participants (workspace_id, program_id, external_id) where external_id is not null;

-- +goose Down
drop index participants_external_id;
drop index users_unclaimed;
alter table participants drop constraint participants_partner_consent, drop column partner_consent, drop column external_id;
alter table users drop column unclaimed;
