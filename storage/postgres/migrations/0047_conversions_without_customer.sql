-- +goose Up

-- The analytics count each attributed conversion without a customer as a new customer.
-- without_customer says whether the sums contain the conversion in this way.
alter table analytics_conversions add column without_customer boolean not null default false;

-- The job that adds the log to the sums counts these conversions again.
insert into analytics_log (workspace_id, mode, conversions)
select workspace_id, mode, array_agg(id)
from (
  select workspace_id, mode, id, row_number() over (partition by workspace_id, mode order by occurred_at) / 1000 as piece
  from conversions
  where attributed and customer_ref is null and buyer_erased_at is null
) c
group by workspace_id, mode, piece;

-- +goose Down
alter table analytics_conversions drop column without_customer;
