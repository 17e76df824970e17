-- +goose Up

-- The last UTC day on which a delivery to the endpoint became a dead letter. The first
-- dead letter of a day causes a notification.
alter table webhook_endpoints add column last_dead_letter_day date;
