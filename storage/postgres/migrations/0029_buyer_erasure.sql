-- +goose Up

-- When the data of the buyer was erased.
alter table conversions add column buyer_erased_at timestamptz;

-- Erasures of buyers. No row contains a value that the caller has sent: identity is a keyed
-- hash, which is removed at the end of the erasure. Rows are deleted 30 days after the end.
create table buyer_erasures (
  workspace_id uuid not null references workspaces (id),
  id           uuid not null,
  kind         text not null check (kind in ('email', 'customer_id', 'external_transaction_id', 'processor_customer_id')),
  identity     bytea,                           -- see affiliate.BuyerIdentity
  status       text not null check (status in ('processing', 'done', 'failed')),
  step         text not null,                   -- see affiliate.BuyerErasureStep
  position     text not null default '',        -- the step continues after this row
  failures     integer not null default 0,      -- attempts that have failed
  lease_owner  uuid,                            -- the worker that owns the erasure until lease_until
  lease_until  timestamptz,
  recovering   boolean not null default false,  -- the owner has taken the erasure over from a worker whose lease had expired
  created_at   timestamptz not null,
  finished_at  timestamptz,
  primary key (workspace_id, id),
  check ((lease_owner is null) = (lease_until is null)),
  check ((identity is not null) = (status = 'processing')),
  check ((finished_at is null) = (status = 'processing'))
);
create unique index buyer_erasures_active on buyer_erasures (workspace_id, kind, identity) where status = 'processing';
create index buyer_erasures_by_end on buyer_erasures (finished_at) where finished_at is not null;

-- The Idempotency-Keys of requests for erasures, kept for 30 days. fingerprint is a hash of the
-- identity in the request under the key of erased values, so that it is not a hash that
-- conversions have.
create table buyer_erasure_keys (
  workspace_id uuid not null,
  key          text not null,
  operation_id uuid not null,
  fingerprint  bytea not null,
  expires_at   timestamptz not null,
  primary key (workspace_id, key)
);
create index buyer_erasure_keys_by_expiry on buyer_erasure_keys (expires_at);

-- The conversions of a buyer, while the erasure is processed. followed means that further
-- conversions of the same customer were searched.
create table buyer_erasure_sales (
  workspace_id  uuid not null,
  operation_id  uuid not null,
  conversion_id uuid not null,
  mode          text not null,
  followed      boolean not null default false,
  erased        boolean not null default false,
  primary key (workspace_id, operation_id, conversion_id)
);
create index buyer_erasure_sales_unfollowed on buyer_erasure_sales (workspace_id, operation_id, conversion_id) where not followed;
create index buyer_erasure_sales_unerased on buyer_erasure_sales (workspace_id, operation_id, conversion_id) where not erased;

-- The references of a buyer (conversions.customer_ref), while the erasure is processed.
create table buyer_erasure_customers (
  workspace_id uuid not null,
  operation_id uuid not null,
  ref          text not null,
  followed     boolean not null default false,
  primary key (workspace_id, operation_id, ref)
);

-- Conversions of a customer of a payment processor.
create index conversions_by_processor_customer on conversions (workspace_id, mode, (processor ->> 'customer_id'))
  where (processor ->> 'customer_id') is not null;
-- Events of payment processors that need more work. They are few.
create index processor_events_with_body on processor_events (workspace_id, connection_id, id) where body is not null;

-- Events about conversions and commissions contain the external id of the conversion, so their
-- subject is the conversion. Events of earlier versions of the service have no subject: an
-- erasure adds it to those of its workspace. The index contains only such events.
create index events_without_sale on events (workspace_id, id)
  where subject_id is null and (type like 'conversion.%' or type like 'commission.%');
grant update (subject_id) on events to tributary_app;

-- +goose StatementBegin
-- Replaces the evidence of fraud rules in the decisions about conversions whose buyer was
-- erased. Decisions are append-only, and the function changes nothing else. It returns the
-- number of changed decisions.
create function erase_decision_evidence(workspace uuid, erased_mode text, conversions uuid[], replacement text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- The schema that contains the tables. It is read from the catalogue, because
  -- search_path is fixed and does not contain this schema.
  home    text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                   where c.relname = 'attribution_decisions' and c.relkind = 'r' and pg_get_userbyid(c.relowner) = current_user limit 1);
  changed bigint;
begin
  execute format($update$
    update %1$I.attribution_decisions d
    set trace = jsonb_set(d.trace, '{fraud}', (
      select jsonb_agg(s.signal || jsonb_build_object('evidence', $4) order by s.n)
      from jsonb_array_elements(d.trace -> 'fraud') with ordinality as s (signal, n)
    ))
    from %1$I.conversions c
    where c.workspace_id = $1 and c.mode = $2 and c.id = any($3) and c.buyer_erased_at is not null
      and d.workspace_id = c.workspace_id and d.mode = c.mode and d.conversion_id = c.id
      and jsonb_typeof(d.trace -> 'fraud') = 'array' and jsonb_array_length(d.trace -> 'fraud') > 0
  $update$, home) using workspace, erased_mode, conversions, replacement;
  get diagnostics changed = row_count;
  return changed;
end $$;
-- +goose StatementEnd

revoke execute on function erase_decision_evidence(uuid, text, uuid[], text) from public;
grant execute on function erase_decision_evidence(uuid, text, uuid[], text) to tributary_app;
grant select, insert, update, delete on buyer_erasures, buyer_erasure_keys, buyer_erasure_sales, buyer_erasure_customers to tributary_app;

-- +goose Down
