-- +goose Up

-- The service uses the role tributary_app. This role owns no tables except those of the
-- job queue. The grants make some tables append-only: in these tables the role can
-- neither update nor delete rows.
grant usage on schema public to tributary_app;
grant select, insert, update, delete on
  users, workspaces, members, sessions, refresh_tokens, login_failures, api_keys,
  programs, participants, referral_codes,
  clicks, click_dead_letters, awaited_clicks,
  conversions, commissions, events
  to tributary_app;
grant select, insert on
  program_rules, attribution_decisions, commission_history, audit_log
  to tributary_app;
grant select on clicks_default to tributary_app; -- for the alarm about days without a partition
grant usage on sequence directory_version to tributary_app;
revoke execute on function ensure_click_partitions(date, date) from public;
grant execute on function ensure_click_partitions(date, date) to tributary_app;
