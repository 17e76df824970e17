package seal

import "github.com/tributary-hq/tributary/affiliate"

// SealMailToken encrypts the token of the link in a mail (affiliate.Mail.Secret). The id
// of the mail is the additional data, so the result cannot be decrypted as the token of
// another mail.
func (k *Keys) SealMailToken(mail affiliate.MailID, token string) []byte {
	return k.Seal([]byte(token), mail.UUID[:])
}

// OpenMailToken decrypts a result of SealMailToken. mail must be the same as in the call
// of SealMailToken.
func (k *Keys) OpenMailToken(mail affiliate.MailID, sealed []byte) (token string, err error) {
	plain, err := k.Open(sealed, mail.UUID[:])
	return string(plain), err
}
