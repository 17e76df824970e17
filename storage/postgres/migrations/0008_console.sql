-- +goose NO TRANSACTION
-- +goose Up

-- The preview of commission rules counts the participants to whom the programme's rate does not apply.
-- The index is created concurrently, as in 0007.
set lock_timeout = 0;

drop index concurrently if exists participants_with_rate;
create index concurrently participants_with_rate on participants (workspace_id, program_id, status)
  include (mode, override_rate_bps, override_flat_amount_cents)
  where num_nonnulls(group_id, override_rate_bps, override_flat_amount_cents) > 0;

set lock_timeout = '500ms';
