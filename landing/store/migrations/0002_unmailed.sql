-- +goose Up
-- The messages that wait for their mail.
create index contact_messages_unmailed on landing.contact_messages (id) where mailed_at is null;

-- +goose Down
