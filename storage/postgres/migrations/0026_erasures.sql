-- +goose Up

alter table workspaces
  add column erased_at      timestamptz,
  add column billing_active boolean not null default false; -- the operator sets it: the workspace cannot be erased

-- Erasures of a participant, of a partner's account or of a workspace. The transaction that
-- inserts the row ends every access and replaces what members and partners see. A job
-- replaces the rest in steps.
create table erasures (
  id           uuid primary key,
  subject      text not null check (subject in ('participant', 'partner', 'workspace')),
  subject_id   uuid not null,                   -- participant, user or workspace
  workspace_id uuid,                            -- null: the account of a partner
  mode         text check (mode in ('test', 'live')), -- of a participant; null: both
  erased_at    timestamptz not null,
  logged_at    timestamptz,                     -- null: not in the erasure log yet
  texts        text[] not null,                 -- names, addresses and codes that are searched for; empty when the erasure has finished
  step         integer not null,                -- number of the step that is done next, see storage/postgres/privacy
  cursor       uuid not null,                   -- the step has processed the rows up to this id
  finished_at  timestamptz
);
create unique index erasures_of_subject on erasures (subject_id, subject);
create index erasures_unfinished on erasures (erased_at) where finished_at is null;

-- The participants that are erased together. The erasure of a partner's account has one
-- row for each participation.
create table erasure_participants (
  erasure_id     uuid not null references erasures (id),
  workspace_id   uuid not null,
  participant_id uuid not null,
  primary key (erasure_id, workspace_id, participant_id)
);

-- Index of the erased participants. Ingestion searches it for each batch of clicks.
create index participants_erased on participants (workspace_id, id) where erased_at is not null;

-- +goose StatementBegin
-- Removes texts from the append-only tables of a workspace. The argument kind selects the
-- table, and ids are the rows' ids (for commission_history: the ids of the commissions; for
-- attribution_decisions: the ids of the conversions). The function can only remove:
--
--   audit_log              the values before and after, and the network
--   commission_history     the reason
--   ledger_entries         the reason
--   attribution_decisions  promo codes, which become the pseudonym
--   explanations           the explanation of decisions as well
create function erase_texts(kind text, workspace uuid, ids uuid[], pseudonym text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  home    text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                   where c.relname = 'erasures' and c.relkind = 'r' and pg_get_userbyid(c.relowner) = current_user limit 1);
  changed bigint;
begin
  if pseudonym !~ '^erased-[0-9a-f]{8}$' then
    raise exception 'not a pseudonym: %', pseudonym;
  end if;
  case kind
  when 'audit_log' then
    execute format('update %I.audit_log set before = null, after = null, ip_prefix = null
      where workspace_id = $1 and id = any($2) and (before is not null or after is not null or ip_prefix is not null)', home)
      using workspace, ids;
  when 'commission_history' then
    execute format('update %I.commission_history set reason = null
      where workspace_id = $1 and commission_id = any($2) and reason is not null', home)
      using workspace, ids;
  when 'ledger_entries' then
    execute format('update %I.ledger_entries set reason = null where workspace_id = $1 and id = any($2) and reason is not null', home)
      using workspace, ids;
  when 'attribution_decisions', 'explanations' then
    execute format($update$
      update %I.attribution_decisions d set
        explanation = case when $4 then 'The data that this decision is about has been erased.'
          else regexp_replace(d.explanation, 'promo code "[^"]*"', 'promo code "' || $3 || '"', 'g') end,
        trace = d.trace
          || case when d.trace #>> '{inputs,promo_code}' is null then '{}'
            else jsonb_build_object('inputs', jsonb_set(d.trace -> 'inputs', '{promo_code}', to_jsonb($3))) end
          || case when jsonb_typeof(d.trace -> 'candidates') = 'array' then jsonb_build_object('candidates', (
            select coalesce(jsonb_agg(
              case when c.value ? 'promo_code' then jsonb_set(c.value, '{promo_code}', to_jsonb($3)) else c.value end order by c.ordinality), '[]')
            from jsonb_array_elements(d.trace -> 'candidates') with ordinality as c (value, ordinality))) else '{}' end
          || case when jsonb_typeof(d.trace -> 'steps') = 'array' then jsonb_build_object('steps', (
            select coalesce(jsonb_agg(
              case when s.value ->> 'check' = 'promo_code.known' then jsonb_set(s.value, '{detail}', to_jsonb('promo code ' || $3)) else s.value end
              order by s.ordinality), '[]')
            from jsonb_array_elements(d.trace -> 'steps') with ordinality as s (value, ordinality))) else '{}' end
      where d.workspace_id = $1 and d.conversion_id = any($2)
    $update$, home) using workspace, ids, pseudonym, kind = 'explanations';
  else
    raise exception 'not a kind of text: %', kind;
  end case;
  get diagnostics changed = row_count;
  return changed;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Removes the values and the network from all entries of the audit log of an erased account.
create function erase_account_audit(account uuid) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  home text := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where c.relname = 'erasures' and c.relkind = 'r' and pg_get_userbyid(c.relowner) = current_user limit 1);
begin
  execute format('update %1$I.account_audit_log l set before = null, after = null, ip_prefix = null
    from %1$I.users u where u.id = l.user_id and u.id = $1 and u.erased_at is not null', home) using account;
end $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Removes the campaign parameters and the referrer from the daily sums of clicks of a
-- workspace, or of one of its participants. The argument most limits the number of rows. The
-- function returns the number of changed rows.
create function erase_click_days(workspace uuid, participant uuid, most integer) returns bigint
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
      where workspace_id = $1 and ($2 is null or participant_id = $2)
        and num_nonnulls(referrer_domain, utm_source, utm_medium, utm_campaign) > 0
      limit $3
    ))
  $update$, home) using workspace, participant, most;
  get diagnostics changed = row_count;
  return changed;
end $$;
-- +goose StatementEnd

revoke execute on function erase_texts(text, uuid, uuid[], text), erase_account_audit(uuid), erase_click_days(uuid, uuid, integer) from public;
grant execute on function erase_texts(text, uuid, uuid[], text), erase_account_audit(uuid), erase_click_days(uuid, uuid, integer) to tributary_app;
grant select, insert, update on erasures to tributary_app;
grant select, insert, delete on erasure_participants to tributary_app;
grant update (facts) on notifications to tributary_app;

-- +goose Down
