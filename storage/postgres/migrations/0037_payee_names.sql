-- +goose Up

-- For how many years after the payment the name of an erased partner stays on paid payouts
-- of live mode, because a law demands it. 0: it does not stay.
alter table workspaces add column retain_payee_years integer not null default 0;
alter table workspaces add constraint workspaces_retain_payee_years check (retain_payee_years between 0 and 30) not valid; -- valid for all rows, because of the default

-- The name of the partner, if the partner was erased and retain_payee_years keeps it.
alter table payouts add column payee_name text;
create index payouts_payee_name on payouts (paid_at) where payee_name is not null;

-- +goose Down
drop index payouts_payee_name;
alter table payouts drop column payee_name;
alter table workspaces drop column retain_payee_years;
