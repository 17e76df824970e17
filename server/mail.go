package server

import (
	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// MailSealer encrypts the tokens of links in mails. seal.Keys implements it.
type MailSealer interface {
	// SealMailToken returns the value for notification.Mail.Secret.
	SealMailToken(mail notification.MailID, token string) []byte
}

// InviteSealer also encrypts the tokens of invitations that are stored under an
// Idempotency-Key. seal.Keys implements it.
type InviteSealer interface {
	MailSealer
	// SealInvite returns a value with the id of an invitation and its encrypted token.
	SealInvite(id affiliate.InviteID, token string) []byte
	// OpenInvite decrypts a result of SealInvite.
	OpenInvite(sealed []byte) (id affiliate.InviteID, token string, err error)
}
