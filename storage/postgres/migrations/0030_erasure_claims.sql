-- +goose Up

-- An attempt to apply an event ends before this time; null: no attempt is running. An erasure
-- of a buyer empties no event while an attempt is running, because the attempt has read it.
alter table processor_events add column attempt_until timestamptz;

-- When the last request for the erasure arrived. It is null if an earlier version of the service
-- has stored the erasure: then it is created_at.
alter table buyer_erasures add column requested_at timestamptz;

-- The erasure of a partner's account finds invitations by the address.
create index participant_invites_by_email on participant_invites (email);

-- +goose StatementBegin
-- Removes the campaign parameters and the referrer from the sums of one day of clicks of a
-- workspace, or of one of its participants. The argument most limits the number of rows. The
-- function returns the number of changed rows. The function of the same name without the day
-- reads all days of the workspace for each call; earlier versions of the service use it.
create function erase_click_days(workspace uuid, participant uuid, of_day date, most integer) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  home    text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                   where c.relname = 'erasures' and c.relkind = 'r' and pg_get_userbyid(c.relowner) = current_user limit 1);
  changed bigint;
begin
  execute format($update$
    update %1$I.click_days set referrer_domain = null, utm_source = null, utm_medium = null, utm_campaign = null
    where ctid = any (array(
      select ctid from %1$I.click_days
      where workspace_id = $1 and mode in ('test', 'live') and day = $3 and ($2 is null or participant_id = $2)
        and num_nonnulls(referrer_domain, utm_source, utm_medium, utm_campaign) > 0
      limit $4
    ))
  $update$, home) using workspace, participant, of_day, most;
  get diagnostics changed = row_count;
  return changed;
end $$;
-- +goose StatementEnd

revoke execute on function erase_click_days(uuid, uuid, date, integer) from public;
grant execute on function erase_click_days(uuid, uuid, date, integer) to tributary_app;

-- +goose Down
