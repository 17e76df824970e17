-- +goose Up

-- Why a commission moved, for programs: the rejection code, or what a suspension and
-- its end put there. reason is the text for people.
alter table commission_history add column code text;
