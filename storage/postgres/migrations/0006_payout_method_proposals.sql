-- +goose Up

-- A payout method that the merchant proposes to the partner (payout.Proposal). Most
-- participants have none. The account is encrypted like that of payout_methods.
alter table participants
  add column proposal_id           uuid,
  add column proposed_method       text,
  add column proposed_account      bytea,
  add column proposed_account_hint text,
  add column proposed_at           timestamptz;
