-- +goose NO TRANSACTION
-- +goose Up

-- The search finds payouts by the beginning of their reference. The index is created concurrently,
-- as in 0007.
set lock_timeout = 0;

drop index concurrently if exists payouts_by_reference;
create index concurrently payouts_by_reference on payouts (workspace_id, mode, lower(reference) text_pattern_ops) where reference is not null;

set lock_timeout = '500ms';
