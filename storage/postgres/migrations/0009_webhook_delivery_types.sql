-- +goose Up

-- The list of deliveries has a filter by the type of the event. Most types are rare in the list of an
-- endpoint that receives all events. The index costs about 100 bytes for each delivery; an attempt does not
-- change its columns.
--
-- Migrate then builds the index of each partition concurrently (buildPartitionIndexes), so that calls can
-- create deliveries.
create index webhook_deliveries_by_type on only webhook_deliveries (workspace_id, endpoint_id, event_type, id);
