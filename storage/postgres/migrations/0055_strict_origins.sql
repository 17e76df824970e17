-- +goose Up

-- enforce_strict also refuses clicks without an origin.
alter table workspaces
  drop constraint workspaces_origin_policy_check,
  add constraint workspaces_origin_policy_check check (origin_policy in ('observe', 'enforce', 'enforce_strict'));

-- +goose Down
update workspaces set origin_policy = 'enforce' where origin_policy = 'enforce_strict';
alter table workspaces
  drop constraint workspaces_origin_policy_check,
  add constraint workspaces_origin_policy_check check (origin_policy in ('observe', 'enforce'));
