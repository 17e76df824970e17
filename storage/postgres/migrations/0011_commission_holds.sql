-- +goose NO TRANSACTION
-- +goose Up

-- The review of commissions separates pending ones by whether their hold period is over, and counts both
-- kinds in the index alone. The entry of a new commission is about 100 bytes, usually at the end of its
-- workspace. The index is created concurrently, as in 0007.
set lock_timeout = 0;

drop index concurrently if exists commissions_by_hold;
create index concurrently commissions_by_hold on commissions (workspace_id, mode, hold_until)
  include (needs_review, created_at, program_id, participant_id) where status = 'pending';

set lock_timeout = '500ms';
