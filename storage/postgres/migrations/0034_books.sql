-- +goose Up

-- The books of a workspace are closed up to this time: no entry of the ledger gets an
-- earlier date. Null: no period is closed.
alter table workspaces add column books_closed_until timestamptz;

-- When the event that caused an entry happened, as its reporter says. Null: it is not known,
-- or it is created_at.
alter table ledger_entries add column occurred_at timestamptz;

-- The time of the latest event of the processor about the charge. Null: the charge was last
-- read by an older version.
alter table processor_charges add column happened_at timestamptz;

-- Index of the entries of a workspace by time, for statements of the balances and for the
-- export. Balances need no other columns.
create index ledger_entries_by_time on ledger_entries (workspace_id, mode, created_at, id)
  include (participant_id, program_id, currency, amount_cents);

-- +goose StatementBegin
-- Returns the time up to which the books of a workspace are closed; null if no period is
-- closed. The result stays valid until the transaction ends, because the transaction that
-- closes a period waits for the lock. A volatile function reads a new snapshot after it has
-- waited for the lock.
create function hold_books(workspace uuid) returns timestamptz
language plpgsql volatile as $$
declare
  closed timestamptz;
begin
  perform pg_advisory_xact_lock_shared(hashtextextended('books:' || workspace, 0));
  select w.books_closed_until into closed from workspaces w where w.id = workspace;
  return closed;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Moves an entry that is dated into a closed period to the beginning of the open period, and
-- keeps its own date in occurred_at.
create function date_ledger_entry() returns trigger
language plpgsql as $$
declare
  closed timestamptz := hold_books(new.workspace_id);
begin
  if new.created_at < closed then
    new.occurred_at := coalesce(new.occurred_at, new.created_at);
    new.created_at := closed;
  end if;
  return new;
end $$;
-- +goose StatementEnd

create trigger date_ledger_entry before insert on ledger_entries
for each row execute function date_ledger_entry();

-- +goose Down
drop trigger date_ledger_entry on ledger_entries;
drop function date_ledger_entry;
drop function hold_books;
drop index ledger_entries_by_time;
alter table processor_charges drop column happened_at;
alter table ledger_entries drop column occurred_at;
alter table workspaces drop column books_closed_until;
