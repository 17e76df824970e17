-- +goose Up

-- Lists of the audit log filter by mode. The indexes contain the mode, so that an
-- index-only scan can count the entries of a list.
drop index audit_log_by_age;
drop index audit_log_by_actor;
drop index audit_log_by_resource;
create index audit_log_by_age on audit_log (workspace_id, at desc, id desc) include (mode);
create index audit_log_by_actor on audit_log (workspace_id, actor, at desc, id desc) include (mode);
create index audit_log_by_resource on audit_log (workspace_id, resource_id, at desc, id desc) include (mode);
