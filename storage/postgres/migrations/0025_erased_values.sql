-- +goose Up

-- Keyed digests of values that were erased, see affiliate.ErasedKind. A code whose digest is
-- here stays taken. The digest of an external transaction id or of a processor's id finds
-- the conversion, so that duplicates and later refunds are recognised.
create table erased_values (
  workspace_id uuid not null,
  mode         text not null check (mode in ('test', 'live')),
  kind         text not null,
  digest       bytea not null,                  -- affiliate.ErasureKey
  subject_id   uuid not null,                   -- the participant or the conversion whose value was erased
  primary key (workspace_id, mode, kind, digest)
);

grant select, insert, delete on erased_values to tributary_app;

-- +goose Down
