-- +goose Up

-- The branding of a workspace (account.Branding). The previous version of the service
-- inserts workspaces without a slug, so the default is a unique one.
alter table workspaces
  add column slug          text not null default 'w-' || replace(gen_random_uuid()::text, '-', ''),
  add column portal_name   text,
  add column accent_color  text,                  -- #rrggbb, lower case
  add column support_email text,
  add column website_url   text,
  add column terms_url     text,
  add column privacy_url   text,
  add column locale        text not null default 'en' check (locale in ('en', 'de')),
  add column logo_digest   bytea;                 -- SHA-256 of the PNG file in workspace_logos

-- The slugs of existing workspaces are made from their names. A slug that is too short,
-- reserved or not unique gets a suffix.
with bases as (
  select id, trim(both '-' from left(trim(both '-' from regexp_replace(lower(name), '[^a-z0-9]+', '-', 'g')), 27)) as base
  from workspaces where erased_at is null
), counted as (
  select id, base, count(*) over (partition by base) as n from bases
)
update workspaces w
set slug = case
    when c.n = 1 and length(c.base) >= 3 and c.base not in (
      'accept-invite', 'account', 'admin', 'api', 'apply', 'assets', 'commissions', 'console', 'docs', 'health', 'help', 'home', 'invite', 'invites',
      'links', 'live', 'login', 'logos', 'logout', 'mail', 'merchant', 'new', 'notifications', 'partner', 'partners', 'payouts', 'portal', 'privacy',
      'profile', 'programmes', 'programs', 'promo-codes', 'register', 'reset-password', 'security', 'session', 'settings', 'static', 'status',
      'support', 'terms', 'test', 'tributary', 'unsubscribe', 'verify-email', 'webhooks', 'www'
    ) then c.base
    else trim(leading '-' from c.base || '-') || left(md5(w.id::text), 12)
  end
from counted c
where w.id = c.id;

create unique index workspaces_slug on workspaces (slug);

-- The file is not in workspaces, because most statements on a workspace do not need it.
create table workspace_logos (
  workspace_id uuid primary key references workspaces (id),
  digest       bytea not null,                    -- SHA-256 of png
  png          bytea not null,
  created_at   timestamptz not null
);
create index workspace_logos_by_digest on workspace_logos (digest);
grant select, insert, update, delete on workspace_logos to tributary_app;
