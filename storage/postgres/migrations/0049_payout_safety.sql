-- +goose Up

-- The batches that were confirmed in the last 24 hours count towards the limit above which
-- two members must confirm a batch.
create index payout_batches_confirmed on payout_batches (workspace_id, mode, confirmed_at) where confirmed_at is not null;

-- The keyed digests of addresses that accounts of partners had before
-- (affiliate.FormerEmailDigests). The rule self_referral_email compares buyers with them.
create table former_emails (
  user_id    uuid not null references users (id),
  digest     bytea not null,
  created_at timestamptz not null,
  primary key (user_id, digest)
);
grant select, insert, delete on former_emails to tributary_app;

-- +goose Down
drop table former_emails;
drop index payout_batches_confirmed;
