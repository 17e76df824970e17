-- +goose Up

-- The name under which the merchant sees the customer in lists.
alter table customers add column label text;

-- +goose Down
alter table customers drop column label;
