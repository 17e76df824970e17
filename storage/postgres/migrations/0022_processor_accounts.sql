-- +goose Up

-- The read_number of the state that was last applied to the conversion.
alter table processor_charges add column applied_number bigint not null default 0;
update processor_charges set applied_number = read_number where conversion_id is not null;

-- An event is only applied with the key of the account to which it belongs.
alter table processor_events
  add column account_id text not null default '',      -- of the processor; empty: received by an older version
  add column charge_id  text;                          -- of a parked event: its charge, which is stored

-- A resync reads its events in parts. A later resync replaces it.
alter table processor_connections
  add column endpoint_failing boolean not null default false, -- the merchant is notified that the endpoint does not work
  add column resync_number int not null default 0,
  add column resync_since  timestamptz,                -- earliest time of a sale that the resync reads; null: no resync is running
  add column resync_from   timestamptz;                -- begin of the part that is read

-- +goose Down
