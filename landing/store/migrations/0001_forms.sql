-- +goose Up
-- The addresses on the waitlist, in lower case.
create table landing.waitlist_entries (
  email      text primary key check (char_length(email) <= 320),
  created_at timestamptz not null
);

-- The purge deletes the oldest rows.
create index waitlist_entries_by_age on landing.waitlist_entries (created_at);

-- The messages of the contact form. The id is a UUIDv7, so its order is the order of arrival.
create table landing.contact_messages (
  id         uuid primary key,
  created_at timestamptz not null,
  name       text not null check (char_length(name) between 1 and 100),
  email      text not null check (char_length(email) <= 320),
  message    text not null check (char_length(message) between 10 and 5000),
  -- When the mail server accepted the mail to the operator. It is null until then.
  mailed_at  timestamptz
);

-- The purge deletes the oldest rows.
create index contact_messages_by_age on landing.contact_messages (created_at);

-- +goose Down
