-- +goose Up

-- The service deletes the recovery codes of a second factor itself. No foreign key deletes
-- rows, because such a deletion needs no privilege on the table.
alter table recovery_codes
  drop constraint recovery_codes_user_id_fkey,
  add constraint recovery_codes_user_id_fkey foreign key (user_id) references second_factors (user_id) not valid; -- valid for all rows, because of the constraint before

-- +goose Down
alter table recovery_codes
  drop constraint recovery_codes_user_id_fkey,
  add constraint recovery_codes_user_id_fkey foreign key (user_id) references second_factors (user_id) on delete cascade not valid;
