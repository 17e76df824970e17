-- +goose Up

-- The account that a payout is paid to, copied from payout_methods by the confirmation of
-- the batch. The account is encrypted, the hint is not.
alter table payouts
  add column account      bytea,
  add column account_hint text;
update payouts p set account = m.account, account_hint = m.account_hint
from payout_methods m
where m.user_id = p.partner_id and m.method = p.method and p.status in ('pending', 'processing', 'failed');
-- Paid payouts whose account is still stored. Their accounts are deleted after 30 days.
create index payouts_account_kept on payouts (paid_at) where status = 'paid' and account is not null;

-- New batches leave out the partner until this time, because the method was changed.
alter table payout_methods add column held_until timestamptz;

-- The address before the last change of the address. A warning about a changed payout
-- account is sent to it too. It is deleted after 30 days.
alter table users
  add column previous_email   text,
  add column email_changed_at timestamptz;
create index users_previous_email on users (email_changed_at) where previous_email is not null;

-- Batches with a total above this amount, in minor units of a currency, need the
-- confirmation of two members. Null: one is enough.
alter table workspaces add column second_person_above_cents bigint check (second_person_above_cents >= 0);

-- The first of two confirmations. first_confirmed_user is the member, or the member who
-- created the service token in first_confirmed_by.
alter table payout_batches
  add column first_confirmed_by   uuid,
  add column first_confirmed_user uuid,
  add column first_confirmed_at   timestamptz;
alter table payout_batches drop constraint payout_batches_status_check;
alter table payout_batches add constraint payout_batches_status_check
  check (status in ('draft', 'awaiting_approval', 'confirmed', 'processing', 'completed', 'partially_failed', 'canceled'));

-- +goose Down
update payout_batches set status = 'draft' where status = 'awaiting_approval';
alter table payout_batches drop constraint payout_batches_status_check;
alter table payout_batches add constraint payout_batches_status_check
  check (status in ('draft', 'confirmed', 'processing', 'completed', 'partially_failed', 'canceled'));
alter table payout_batches drop column first_confirmed_by, drop column first_confirmed_user, drop column first_confirmed_at;
alter table workspaces drop column second_person_above_cents;
alter table users drop column previous_email, drop column email_changed_at;
alter table payout_methods drop column held_until;
alter table payouts drop column account, drop column account_hint;
