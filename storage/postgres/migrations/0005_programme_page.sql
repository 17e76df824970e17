-- +goose Up

-- The public page of a programme, and the terms that partners accept.
alter table programs
  add column public_text           text,
  add column application_questions jsonb   not null default '[]', -- program.Question
  add column terms_text            text,
  add column terms_version         integer not null default 0;    -- incremented by every change of the terms
update programs set terms_version = 1 where terms_url is not null;

-- The version of the terms that the partner accepted at terms_accepted_at.
alter table participants add column terms_version integer;
