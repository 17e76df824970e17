-- +goose Up

-- Index for the search of a workspace's programmes by a prefix of their names.
create index programs_by_name on programs (workspace_id, mode, lower(name) text_pattern_ops);
