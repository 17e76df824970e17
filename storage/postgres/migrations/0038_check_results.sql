-- +goose Up

-- The latest result of each consistency check.
create table check_results (
  name       text primary key,
  compared   bigint not null,
  violated   bigint not null,
  checked_at timestamptz not null
);
grant select, insert, update on check_results to tributary_app;

-- +goose Down
drop table check_results;
