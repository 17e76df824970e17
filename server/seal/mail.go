package seal

import (
	"errors"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// SealMailToken encrypts the token of the link in a mail (notification.Mail.Secret). The id
// of the mail is the additional data, so the result cannot be decrypted as the token of
// another mail.
func (k *Keys) SealMailToken(mail notification.MailID, token string) []byte {
	return k.Seal([]byte(token), mail.UUID[:])
}

// OpenMailToken decrypts a result of SealMailToken. mail must be the same as in the call
// of SealMailToken.
func (k *Keys) OpenMailToken(mail notification.MailID, sealed []byte) (token string, err error) {
	plain, err := k.Open(sealed, mail.UUID[:])
	return string(plain), err
}

// SealInvite returns the id of an invitation, followed by its encrypted token. The id is the
// additional data, so the token cannot be decrypted as the token of another invitation.
func (k *Keys) SealInvite(id affiliate.InviteID, token string) []byte {
	return append(id.UUID[:], k.Seal([]byte(token), id.UUID[:])...)
}

// OpenInvite decrypts a result of SealInvite.
func (k *Keys) OpenInvite(sealed []byte) (id affiliate.InviteID, token string, err error) {
	if len(sealed) < len(id.UUID) {
		return id, "", errors.New("sealed invitation: it has no id")
	}
	copy(id.UUID[:], sealed)
	plain, err := k.Open(sealed[len(id.UUID):], id.UUID[:])
	return id, string(plain), err
}
