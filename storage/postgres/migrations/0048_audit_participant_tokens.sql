-- +goose Up

-- The actor has created a participant token, and the change was made with this token.
alter table audit_log add column participant_token boolean not null default false;

-- +goose Down
alter table audit_log drop column participant_token;
