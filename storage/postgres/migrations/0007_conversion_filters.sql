-- +goose NO TRANSACTION
-- +goose Up

-- Indexes for filters of the list of conversions, in the order of the list. They are created
-- concurrently, so that calls can record conversions. The statements wait for all older
-- transactions, without the limit of other migrations. If the migration is interrupted, the next
-- attempt drops an index that is not complete.
--
-- The cost: a conversion has one more entry for its link and one more for its promo code, about 80
-- bytes each. The other two indexes contain only conversions that are refunded, disputed or
-- suspicious.
set lock_timeout = 0;

drop index concurrently if exists conversions_by_status;
create index concurrently conversions_by_status on conversions (workspace_id, mode, status, created_at desc, id desc) where status <> 'recorded';

-- The fraud rules flag or block no conversion with a lower score (fraud.SuspiciousScore).
drop index concurrently if exists conversions_suspicious;
create index concurrently conversions_suspicious on conversions (workspace_id, mode, created_at desc, id desc) where fraud_score >= 50;

drop index concurrently if exists conversions_by_link;
create index concurrently conversions_by_link on conversions (workspace_id, mode, link_id, created_at desc, id desc) where link_id is not null;

drop index concurrently if exists conversions_by_promo_code;
create index concurrently conversions_by_promo_code on conversions (workspace_id, mode, promo_code, created_at desc, id desc) where promo_code is not null;

set lock_timeout = '500ms';
