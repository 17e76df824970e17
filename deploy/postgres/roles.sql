-- Creates the roles and the database of an installation. Run it with psql as an
-- administrator of Postgres, before the first `core migrate`. SECRETS is the folder of
-- `core secrets`:
--
--   SECRETS=/etc/tributary/secrets psql --dbname=postgres --file=roles.sql
--
-- It can run again: it then sets the passwords of the files. docs/operations/postgres.md
-- explains the roles.
\set ON_ERROR_STOP on
\set owner `cat "${SECRETS:-/etc/tributary/secrets}/owner-password"`
\set login `cat "${SECRETS:-/etc/tributary/secrets}/database-password"`
\set landing `cat "${SECRETS:-/etc/tributary/secrets}/landing-password"`

-- tributary owns the schema; only `core migrate` uses it. tributary_serve owns nothing; the
-- core uses it. tributary_app has the rights of a running core and cannot log in.
-- tributary_landing is for the landing service.
select 'create role ' || name from (values ('tributary'), ('tributary_serve'), ('tributary_app'), ('tributary_landing')) as roles (name)
where to_regrole(name) is null \gexec
alter role tributary login password :'owner';
alter role tributary_serve login password :'login';
alter role tributary_landing login password :'landing';
grant tributary_app to tributary, tributary_serve;
-- The server logs no DETAIL of an error: it would contain values of users, for example a
-- promo code that is taken. Only a superuser can set this.
select format('alter role %I set log_error_verbosity = terse', name)
from (values ('tributary'), ('tributary_serve'), ('tributary_landing')) as roles (name)
where (select rolsuper from pg_roles where rolname = current_user) \gexec
-- Without superuser rights, as in a managed Postgres, only a member can set an owner.
select format('grant tributary, tributary_landing to %I', current_user) from pg_roles
where rolname = current_user and not rolsuper \gexec

select 'create database tributary owner tributary' where not exists (select from pg_database where datname = 'tributary') \gexec
\connect tributary
create schema if not exists landing authorization tributary_landing;
create schema if not exists landing_river authorization tributary_landing;
