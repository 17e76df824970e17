-- +goose Up

-- The secret keys with which cores have worked on this database. A core with other keys
-- does not start.
create table key_fingerprints (
  setting     text not null,
  key_id      text not null,
  fingerprint bytea not null,
  is_first    boolean not null, -- the key was the first one of the setting at the latest start of a core
  created_at  timestamptz not null default now(),
  primary key (setting, key_id)
);
grant select, insert, update, delete on key_fingerprints to tributary_app;

-- +goose Down
drop table key_fingerprints;
