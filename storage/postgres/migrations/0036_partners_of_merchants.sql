-- +goose Up

-- Partners that a merchant's server has made. All new columns have defaults, so that the
-- binaries of the version before can still write rows.

-- Nobody has set a password yet, so nobody can log in.
alter table users add column unclaimed boolean not null default false;

alter table participants
  add column external_id     text,              -- the merchant's own id of the partner
  -- Null unless the merchant added a partner who already had an account and who has not
  -- accepted yet.
  add column partner_consent text check (partner_consent in ('awaited', 'declined'));
create unique index participants_external_id on participants (workspace_id, program_id, external_id) where external_id is not null;

-- +goose Down
drop index participants_external_id;
alter table participants drop column partner_consent, drop column external_id;
alter table users drop column unclaimed;
