package notification

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// MailID identifies a mail.
type MailID = affiliate.ID[Mail]

// MailKind is the kind of a mail. It selects the text of the mail.
type MailKind string

// The kinds of mail. A mail of kind MailNotifications contains notifications. All other
// kinds are account mail: the recipient, or the person who invites the recipient, has
// requested them, or they protect the account.
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
	// Category is the category of the notifications. It is empty for account mail.
	Category Category
	// Workspace is the workspace that the mail belongs to. For account mail it is the
	// workspace of the user. It is nil if the user belongs to no workspace.
	Workspace *affiliate.WorkspaceID
	// Mode is the mode of the notifications. It is nil for mail that belongs to both
	// modes, for example account mail.
	Mode      *affiliate.Mode
	Recipient MailRecipient
	Facts     MailFacts
	// Secret is the sealed token of the link in the mail; nil if the mail has no token.
	// The additional data of its encryption is the ID in binary form. It is deleted when
	// the mail has been sent.
	Secret    []byte
	CreatedAt time.Time
}

// MailTypeDigest is the Type of a mail with several notifications.
const MailTypeDigest = "digest"

// MailRecipient is the recipient of a mail.
type MailRecipient struct {
	// User is nil if the recipient has no account yet.
	User    *affiliate.UserID
	Account affiliate.AccountKind
	Name    string // empty if it is not known
	Address string // lower case
}

// MailFacts are the facts that the text of a mail contains. Each kind of mail uses some
// of the fields.
type MailFacts struct {
	WorkspaceName string `json:"workspaceName,omitempty"`
	ProgramName   string `json:"programName,omitempty"`
	InviterName   string `json:"inviterName,omitempty"`
	// Message is what the inviter wrote to the recipient. Rate is the commission in words,
	// and Link the referral link of the recipient.
	Message       string         `json:"message,omitempty"`
	Rate          string         `json:"rate,omitempty"`
	Link          string         `json:"link,omitempty"`
	Role          affiliate.Role `json:"role,omitempty"`
	NewAddress    string         `json:"newAddress,omitempty"` // of a MailEmailChangeNotice
	PayoutMethod  string         `json:"payoutMethod,omitempty"`
	ExpiresAt     *time.Time     `json:"expiresAt,omitempty"` // of the token
	Notifications []ID           `json:"notifications,omitempty"`
	// More is the number of further notifications that the mail only counts.
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
