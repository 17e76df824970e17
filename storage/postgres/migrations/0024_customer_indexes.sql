-- +goose Up

-- A conversion searches for conversions of the same customer with other participants. With
-- the participant in the index, the search reads a few rows, even if one participant has many
-- conversions of the customer.
drop index conversions_by_customer;
create index conversions_by_customer on conversions (workspace_id, mode, customer_ref, program_id, participant_id) where customer_ref is not null;
drop index conversions_by_email;
create index conversions_by_email on conversions (workspace_id, mode, customer_email_hash, program_id, participant_id) where customer_email_hash is not null;

-- +goose Down
