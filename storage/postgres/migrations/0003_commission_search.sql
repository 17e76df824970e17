-- +goose Up

-- Indexes for the search of commissions by prefix, case-insensitively. Each index has
-- one entry per row, so the cost of a search is its number of matches, independent of
-- the other rows of the workspace. Each index makes an insert write one more leaf page.
-- Commission ids need no separate index: a prefix of an id is a range of the primary
-- key.
--
-- The index of promo codes includes the rows without a code (many of them share one
-- entry). Without these rows, Postgres would have no statistics about them and would
-- expect two hundred times as many matches.
create index commissions_by_external on commissions (workspace_id, mode, lower(external_transaction_id) text_pattern_ops);
create index commissions_by_promo_code on commissions (workspace_id, mode, lower(promo_code) text_pattern_ops);

-- Partners belong to no workspace. These two indexes therefore grow with all partners,
-- and a short prefix also finds partners of other workspaces. The join with
-- participants removes them.
create index users_by_partner_name on users (lower(name) text_pattern_ops) where kind = 'partner';
create index users_by_partner_email on users (lower(email) text_pattern_ops) where kind = 'partner';

-- The review queue. It has few rows, whatever the size of the workspace.
create index commissions_flagged on commissions (workspace_id, mode, created_at desc, id desc) where needs_review;
