-- +goose Up

-- A refunded commission can be approved again if the refund fails. It must then be payable,
-- so a payout that was not paid no longer holds it.
update commissions c set payout_id = null
from payouts p
where c.status = 'refunded' and p.workspace_id = c.workspace_id and p.id = c.payout_id and p.status in ('draft', 'pending', 'failed', 'canceled');

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
  add column resync_from   timestamptz;                -- begin of the part that is read; null: no resync is running

-- +goose Down
