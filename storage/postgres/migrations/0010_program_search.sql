-- +goose Up

-- Index for searching a workspace's programmes by a prefix of their names.
create index programs_by_name on programs (workspace_id, mode, lower(name) text_pattern_ops);
