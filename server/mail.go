package server

import "github.com/tributary-hq/tributary/affiliate"

// MailSealer encrypts the tokens of links in mails. seal.Keys implements it.
type MailSealer interface {
	// SealMailToken returns the value for affiliate.Mail.Secret.
	SealMailToken(mail affiliate.MailID, token string) []byte
}
