-- +goose Up

-- Lists of the audit log filter by mode. With the mode in the indexes, an index-only
-- scan can count them.
drop index audit_log_by_age;
drop index audit_log_by_actor;
drop index audit_log_by_resource;
create index audit_log_by_age on audit_log (workspace_id, at desc, id desc) include (mode);
create index audit_log_by_actor on audit_log (workspace_id, actor, at desc, id desc) include (mode);
create index audit_log_by_resource on audit_log (workspace_id, resource_id, at desc, id desc) include (mode);
