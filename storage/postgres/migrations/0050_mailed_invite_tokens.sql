-- +goose Up

-- Digest of the token in the mail of an invitation. The response to the request that made
-- the invitation has another token, so only the mailed one proves that its holder reads the
-- mail of the address. Null in invitations that the previous release has made.
alter table member_invites add column mail_digest bytea unique;
alter table participant_invites add column mail_digest bytea unique;

-- +goose Down
alter table participant_invites drop column mail_digest;
alter table member_invites drop column mail_digest;
