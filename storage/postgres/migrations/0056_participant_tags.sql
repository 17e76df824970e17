-- +goose Up

-- A filter by tag reads the programme's participants that have tags, newest first, and
-- checks the tags of each. A GIN index of the tags would also contain the other programmes.
create index participants_tagged on participants (workspace_id, program_id, created_at desc, id desc) where tags <> '{}';

-- +goose Down
drop index participants_tagged;
