-- +goose Up

-- The batches that were confirmed in the last 24 hours count towards the limit above which
-- two members must confirm a batch.
create index payout_batches_confirmed on payout_batches (workspace_id, mode, confirmed_at) where confirmed_at is not null;

-- +goose Down
drop index payout_batches_confirmed;
