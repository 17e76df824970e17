-- +goose Up

-- Deletions of a workspace's test data. A request deletes little data itself, and a job
-- deletes more. The progress is stored, so that a job continues after a crash.
create table test_data_resets (
  workspace_id uuid not null references workspaces (id),
  id           uuid not null,
  started_at   timestamptz not null,
  user_id      uuid not null,                   -- the member who requested it
  ip_prefix    text not null,                   -- like request_id for the audit log
  request_id   text not null,
  clicks_after uuid not null default '00000000-0000-0000-0000-000000000000', -- clicks with this id and lower ids are deleted
  events_after uuid not null default '00000000-0000-0000-0000-000000000000', -- the same for events
  deleted      jsonb not null default '{}',     -- number of deleted rows by table
  finished_at  timestamptz,                     -- null: running
  primary key (workspace_id, id)
);
create unique index test_data_resets_running on test_data_resets (workspace_id) where finished_at is null;

-- Clicks of test mode that a collector received at this time or earlier are not stored any
-- more. Null: the test data was never deleted.
alter table workspaces add column test_data_reset_at timestamptz;

-- Postgres searches these tables for references to each deleted row.
drop index links_by_participant;
create index links_by_participant on links (workspace_id, participant_id, created_at desc, id desc) include (deleted_at);
create index participant_invites_by_program on participant_invites (workspace_id, program_id);
create index fraud_events_by_conversion on fraud_events (workspace_id, conversion_id);

-- Index of the mails of test mode, which are few.
create index mails_test on mails (workspace_id) where mode = 'test';

-- +goose StatementBegin
-- Deletes rows of a workspace's test data from a table that is append-only for the service.
-- The argument target names the table, and rows contains the positions of the rows. Rows of
-- live mode and of other workspaces are never deleted, whatever positions the caller names.
-- The function returns the number of deleted rows.
create function delete_test_rows(target text, workspace uuid, rows tid[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- The schema that contains the tables. It is read from the catalogue, because
  -- search_path is fixed and does not contain this schema.
  home    text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                   where c.relname = 'ledger_entries' and c.relkind = 'r' and pg_get_userbyid(c.relowner) = current_user limit 1);
  is_test text;
  deleted bigint;
begin
  is_test := case target
    when 'ledger_entries' then 't.mode = ''test'''
    when 'attribution_decisions' then 't.mode = ''test'''
    when 'click_days' then 't.mode = ''test'''
    when 'program_rules' then format(
      'exists (select from %I.programs p where p.workspace_id = t.workspace_id and p.id = t.program_id and p.mode = ''test'')', home)
    when 'commission_history' then format(
      'exists (select from %I.commissions c where c.workspace_id = t.workspace_id and c.id = t.commission_id and c.mode = ''test'')', home)
  end;
  if is_test is null then
    raise exception 'not a table of test data: %', target;
  end if;
  execute format('delete from %I.%I t where t.ctid = any ($1) and t.workspace_id = $2 and %s', home, target, is_test) using rows, workspace;
  get diagnostics deleted = row_count;
  return deleted;
end $$;
-- +goose StatementEnd

revoke execute on function delete_test_rows(text, uuid, tid[]) from public;
grant execute on function delete_test_rows(text, uuid, tid[]) to tributary_app;
grant select, insert, update on test_data_resets to tributary_app;
grant delete on events, webhook_deliveries to tributary_app;

-- +goose Down
