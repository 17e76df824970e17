-- +goose Up

-- The reason of a move as a code that programs can evaluate: the rejection code, or the
-- code of a suspension or reinstatement. The column reason is the text for people.
alter table commission_history add column code text;
