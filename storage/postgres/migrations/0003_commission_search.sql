-- +goose Up

-- Indexes for searching commissions by prefix, regardless of case. Each index has an
-- entry for every row, so the cost of a search is its number of matches and does not
-- depend on the other rows of the workspace. For each index, an insert has to write one
-- more leaf page. Commission ids need no separate index: the ids with a prefix are a
-- range of the primary key.
--
-- The index of promo codes also contains the rows without a code. They need little space,
-- because Postgres stores equal values of many rows together. Without these rows,
-- Postgres would have no statistics about them and would expect two hundred times as many
-- matches as there are.
create index commissions_by_external on commissions (workspace_id, mode, lower(external_transaction_id) text_pattern_ops);
create index commissions_by_promo_code on commissions (workspace_id, mode, lower(promo_code) text_pattern_ops);

-- Partners belong to no workspace. The size of the next two indexes therefore depends
-- on the number of all partners, and a short prefix also finds partners of other
-- workspaces. The join with participants removes these partners.
create index users_by_partner_name on users (lower(name) text_pattern_ops) where kind = 'partner';
create index users_by_partner_email on users (lower(email) text_pattern_ops) where kind = 'partner';

-- Index of the commissions that need review. It has few rows, even in a large
-- workspace.
create index commissions_flagged on commissions (workspace_id, mode, created_at desc, id desc) where needs_review;
