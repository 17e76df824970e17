-- +goose Up

-- What a search of commissions looks up: prefixes, whatever the case. Each
-- index holds one entry per row, so a search costs as much as it has matches
-- and nothing for the rest of the workspace; each costs an insert one more leaf
-- write. The commission id needs no index of its own: its prefix is a range of
-- the primary key.
--
-- The one on promo codes holds the rows without a code too (one entry for many
-- of them): a partial index would leave Postgres without statistics that count
-- them, and it would expect two hundred times as many matches.
create index commissions_by_external on commissions (workspace_id, mode, lower(external_transaction_id) text_pattern_ops);
create index commissions_by_promo_code on commissions (workspace_id, mode, lower(promo_code) text_pattern_ops);

-- Partners belong to no workspace: these two grow with all of them, and a short
-- prefix finds partners of other workspaces too, which the join with
-- participants drops.
create index users_by_partner_name on users (lower(name) text_pattern_ops) where kind = 'partner';
create index users_by_partner_email on users (lower(email) text_pattern_ops) where kind = 'partner';

-- The review queue: few rows, whatever the size of the workspace.
create index commissions_flagged on commissions (workspace_id, mode, created_at desc, id desc) where needs_review;
