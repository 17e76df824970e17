-- +goose Up

-- A refunded commission can be approved again if the refund fails. It must then be payable,
-- so a payout that was not paid, or that does not contain it, no longer holds it.
update commissions c set payout_id = null
from payouts p
where c.status = 'refunded' and p.workspace_id = c.workspace_id and p.id = c.payout_id
  and (p.status in ('draft', 'pending', 'failed', 'canceled') or not exists (
    select from payout_commissions l
    where l.workspace_id = c.workspace_id and l.payout_id = c.payout_id and l.commission_id = c.id
  ));

-- +goose Down
