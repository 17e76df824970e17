package notification

import (
	"crypto/hmac"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// MailID identifies a mail.
type MailID = affiliate.ID[Mail]

// MailKind is the kind of a mail. It selects the text of the mail.
type MailKind string

// The kinds of mail. A mail of kind MailNotifications contains notifications. All other kinds
// are account mail, which the recipient or the person who invites the recipient has requested,
// or which protects the account.
const (
	MailVerification      MailKind = "email_verification"
	MailPasswordReset     MailKind = "password_reset"
	MailEmailChange       MailKind = "email_change"        // to the new address, with a token
	MailEmailChangeNotice MailKind = "email_change_notice" // to the old address
	// MailPayoutMethodChanged goes to the address that the account had before.
	MailPayoutMethodChanged MailKind = "payout_method_changed"
	MailMemberInvite        MailKind = "member_invite"
	MailParticipantInvite   MailKind = "participant_invite"
	MailPartnerClaim        MailKind = "partner_claim" // with a token that sets the first password
	MailExportReady         MailKind = "export_ready"  // with the token of a download
	MailNotifications       MailKind = "notifications"
)

// MailKinds returns all kinds.
func MailKinds() []MailKind {
	return []MailKind{
		MailVerification, MailPasswordReset, MailEmailChange, MailEmailChangeNotice, MailPayoutMethodChanged,
		MailMemberInvite, MailParticipantInvite, MailPartnerClaim, MailExportReady, MailNotifications,
	}
}

// MailStatus is the status of a mail. The log of test mode shows all statuses except
// MailPending.
type MailStatus string

// The statuses of a mail.
const (
	MailPending    MailStatus = "pending"
	MailDelivered  MailStatus = "delivered"  // the mail server has accepted it
	MailRedirected MailStatus = "redirected" // accepted for the address in RedirectedTo
	MailSuppressed MailStatus = "suppressed" // not sent, for the reason in Reason
)

// Mail is a mail to one recipient.
type Mail struct {
	ID   MailID
	Kind MailKind
	// Type is the type that the notification log shows: the kind of an account mail, the
	// type of a notification, or MailTypeDigest.
	Type string
	// Category is the category of the notifications. It is empty if Kind is not MailNotifications.
	Category Category
	// Workspace is the workspace that the mail belongs to. For account mail it is the
	// workspace of the user. It is nil if the user belongs to no workspace.
	Workspace *affiliate.WorkspaceID `db:"workspace_id"`
	// Mode is the mode of the notifications. It is nil for mail that belongs to both
	// modes, for example account mail.
	Mode *affiliate.Mode
	Recipient
	Facts MailFacts
	// Secret is the sealed token of the link in the mail; nil if the mail has no token. The
	// additional data of its encryption is the ID in binary form. Secret is deleted when the
	// mail has been sent.
	Secret    []byte
	CreatedAt time.Time
}

// MailTypeDigest is the Type of a mail with several notifications.
const MailTypeDigest = "digest"

// Recipient is the recipient of a mail.
type Recipient struct {
	// User is nil if the recipient has no account yet.
	User    *affiliate.UserID     `db:"user_id"`
	Account affiliate.AccountKind `db:"account_kind"`
	Name    string                `db:"recipient_name"` // empty if it is not known
	Address string                `db:"recipient"`      // lower case
}

// MailFacts are the facts that the text of a mail contains. Each kind of mail uses some
// of the fields.
type MailFacts struct {
	WorkspaceName string `json:"workspaceName,omitempty"`
	ProgramName   string `json:"programName,omitempty"`
	InviterName   string `json:"inviterName,omitempty"`
	// Message is the text that the inviter wrote to the recipient. Rate is the commission in
	// words, and Link is the referral link of the recipient.
	Message       string         `json:"message,omitempty"`
	Rate          string         `json:"rate,omitempty"`
	Link          string         `json:"link,omitempty"`
	Role          affiliate.Role `json:"role,omitempty"`
	NewAddress    string         `json:"newAddress,omitempty"` // of a MailEmailChangeNotice
	PayoutMethod  string         `json:"payoutMethod,omitempty"`
	ExpiresAt     *time.Time     `json:"expiresAt,omitempty"` // of the token
	Notifications []ID           `json:"notifications,omitempty"`
	// More is the number of further notifications. The mail shows only this number.
	More int `json:"more,omitempty"`
}

// SendMail is the job that sends a mail. It may run more than once for the same mail.
type SendMail struct {
	Mail MailID `json:"mail"`
}

// MailAttempts is the maximum number of attempts to send a mail. They are distributed
// over about a day.
const MailAttempts = 8

// MailQueue is the queue of SendMail. It has its own queue because a slow mail server
// must not delay other jobs.
const MailQueue = "mail"

// Kind returns the name of the job.
func (SendMail) Kind() string { return "send_mail" }

// MailReason is the reason why a mail is suppressed.
type MailReason string

// The reasons for which a mail is suppressed.
const (
	// MailTestMode means that the mail belongs to test mode, and the workspace has no
	// testMailRedirect.
	MailTestMode MailReason = "test_mode"
	// MailOff means that the service has no mail server.
	MailOff MailReason = "mail_off"
	// MailAddressSuppressed means that earlier mail to the address bounced, or that its
	// owner complained.
	MailAddressSuppressed MailReason = "address_suppressed"
	// MailAddressNotVerified means that the recipient has not verified the address. Mail that
	// users can disable is not sent to this address.
	MailAddressNotVerified MailReason = "address_not_verified"
	// MailRecipientRemoved means that the recipient's account was erased, or that the
	// recipient has left the workspace.
	MailRecipientRemoved MailReason = "recipient_removed"
	// MailWithoutContent means that the notifications of the mail do not exist any more, or
	// that the recipient does not get mails about them any more.
	MailWithoutContent MailReason = "notifications_removed"
	// MailRecipientRefused means that the mail server has refused the address for good.
	MailRecipientRefused MailReason = "recipient_refused"
	// MailRefusedByServer means that the mail server has refused the mail for good, for a
	// reason other than the recipient.
	MailRefusedByServer MailReason = "refused_by_server"
	// MailUndeliverable means that all attempts have failed.
	MailUndeliverable MailReason = "undeliverable"
)

// Account reports whether the mail is account mail. Account mail is sent in any mode, and
// the notification log shows it in both modes. Notifications about the security of an
// account are account mail too.
func (m Mail) Account() bool {
	return m.Kind != MailNotifications || m.Category == CategorySecurity
}

// Logged reports whether the notification log of the workspace shows the mail.
func (m Mail) Logged() bool {
	return m.Workspace != nil && (m.Account() || m.Mode != nil && *m.Mode == affiliate.ModeTest)
}

// ignoresSuppression reports whether the mail is sent to a suppressed address too. This
// is the case for security mail, and for mail that the owner of the address has
// requested. It is not the case for invitations, which another person has requested.
func (m Mail) ignoresSuppression() bool {
	switch m.Kind {
	case MailVerification, MailPasswordReset, MailEmailChange, MailEmailChangeNotice, MailPayoutMethodChanged, MailExportReady:
		return true
	case MailMemberInvite, MailParticipantInvite, MailPartnerClaim:
		return false
	case MailNotifications:
	}
	return m.Category == CategorySecurity
}

func (m Mail) optional() bool {
	return m.Kind == MailNotifications && !m.Category.MailProtected()
}

// MailConditions are the facts that decide about the delivery of a mail.
type MailConditions struct {
	// Off means that the service has no mail server. Off is not stored in the database.
	Off bool `db:"-"`
	// RecipientRemoved means that the recipient's account was erased, or that the
	// recipient has left the workspace of the mail.
	RecipientRemoved bool
	// Unverified means that the recipient has an account whose address is not verified.
	Unverified bool
	// TestRedirect is the address to which the workspace redirects mail of test mode. It
	// is empty if the workspace does not redirect mail.
	TestRedirect string
}

// MailDelivery says whether and to which address a mail is sent.
type MailDelivery struct {
	// Status is the status of the mail after a successful attempt, or MailSuppressed if
	// the mail must not be sent.
	Status MailStatus
	// Reason is set if Status is MailSuppressed.
	Reason MailReason
	// Address is the address to which the mail is sent. It is empty if Status is
	// MailSuppressed.
	Address string
	// ChecksSuppression means that the mail must not be sent if Address is suppressed.
	ChecksSuppression bool
}

// Delivery decides whether a mail is sent, and to which address.
func (m Mail) Delivery(c MailConditions) MailDelivery {
	delivery := MailDelivery{Status: MailDelivered, Address: m.Address, ChecksSuppression: !m.ignoresSuppression()}
	if m.Mode != nil && *m.Mode == affiliate.ModeTest && !m.Account() {
		delivery.Status, delivery.Address = MailRedirected, c.TestRedirect
	}
	switch {
	case c.RecipientRemoved:
		return SuppressMail(MailRecipientRemoved)
	case c.Off:
		return SuppressMail(MailOff)
	case delivery.Address == "":
		return SuppressMail(MailTestMode)
	case c.Unverified && m.optional() && delivery.Status == MailDelivered:
		// A redirect leads to a verified address.
		return SuppressMail(MailAddressNotVerified)
	}
	return delivery
}

// SuppressMail returns the decision that a mail is not sent.
func SuppressMail(reason MailReason) MailDelivery {
	return MailDelivery{Status: MailSuppressed, Reason: reason}
}

// StoredMail is a mail in the database with the facts that decide about its delivery.
type StoredMail struct {
	Mail
	Status MailStatus
	MailConditions
}

// MailOutcome is the final state of a mail.
type MailOutcome struct {
	Mail MailID
	// Recipient is the recipient's address at the time of the last attempt.
	Recipient string
	Status    MailStatus
	Reason    MailReason // empty unless Status is MailSuppressed
	// RedirectedTo is the address to which the mail was sent instead of its recipient. It
	// is empty unless Status is MailRedirected.
	RedirectedTo string
	// Content is nil if the notification log does not show the mail.
	Content *MailContent
	At      time.Time
}

// MailContent is the content of a mail as the notification log shows it. It contains no
// tokens.
type MailContent struct {
	Sender  string // the header From
	Subject string
	HTML    string
	Text    string
}

// MailLogEntry is a mail in the notification log.
type MailLogEntry struct {
	ID           MailID
	Type         string
	Category     Category // empty unless the mail contains notifications
	Recipient    string
	Status       MailStatus
	RedirectedTo string // empty unless Status is MailRedirected
	Reason       MailReason
	CreatedAt    time.Time
	// Sender and Subject are empty if the mail has no content.
	Sender  string
	Subject string
	// HTML and Text are empty in a list.
	HTML string
	Text string
}

// MailLogFilter selects entries of the notification log. Empty fields select every entry.
type MailLogFilter struct {
	Status MailStatus
	Type   string
	// Recipient is the beginning of the address, in lower case.
	Recipient string
	CreatedAt affiliate.Period
}

// MailLogRetention is how long mails are stored.
const MailLogRetention = 30 * 24 * time.Hour

// MailPendingLimit is the time after which a pending mail is considered lost. All attempts end
// much earlier, unless a process crashed in the last attempt.
const MailPendingLimit = 3 * 24 * time.Hour

// SuppressionReason is the reason why an address gets no mail.
type SuppressionReason string

// The reasons why an address gets no mail. They are stored with the suppression.
const (
	SuppressionBounced    SuppressionReason = "bounced"    // a permanent bounce
	SuppressionComplained SuppressionReason = "complained" // the owner called a mail spam
	SuppressionSuppressed SuppressionReason = "suppressed" // the mail provider sends no mail to it
	SuppressionRefused    SuppressionReason = "refused"    // the mail server refused the address
)

// MailDigest returns the keyed digests of an address. The suppression of the address is stored
// under the first digest. Upper and lower case of the address make no difference.
func MailDigest(keys affiliate.HashKeys, address string) affiliate.Digests {
	return keys.Digests(func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("mail:" + strings.ToLower(address)))
		return mac.Sum(nil)
	})
}

// ProviderMessageRetention is how long the ids of the messages of the mail provider are
// stored. A message that is repeated later is processed again, which has no further
// effect on suppressed addresses.
const ProviderMessageRetention = 7 * 24 * time.Hour
