package notification

import (
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
)

// Rule says how a cause is shown as a notification to one audience. The text
// contains placeholders in braces. A part of the text in square brackets is left out if
// one of its placeholders has no value.
//
// The placeholders {program}, {partner} and {user} stand for the current names of the
// programme, the participant and the user that the notification names. If a name is not known,
// for example because it was erased, a general term replaces it. The values of all other
// placeholders are in Notification.Facts.
type Rule struct {
	Type     Type
	Audience affiliate.AccountKind
	Category Category
	Severity Severity
	Title    string
	Body     string
	Resource Resource
	// Page is the path of the page to which the notification leads. If it is empty, it leads to
	// the page about the record.
	Page string
	// NoMail means that no mail is sent about the notification, because the user knows of
	// the cause, or because the cause sends a mail of its own.
	NoMail bool
	// Cause is the sentence in the documentation that says when the notification is created. It
	// is empty if the type is the name of a webhook event, whose description says this.
	Cause string
}

// Resource is a kind of record that a notification can be about.
type Resource string

// The kinds of records. NoResource is the kind of a notification without a record.
const (
	NoResource                  Resource = ""
	ResourceParticipant         Resource = "participant"
	ResourceConversion          Resource = "conversion"
	ResourceCommission          Resource = "commission"
	ResourcePayout              Resource = "payout"
	ResourcePayoutBatch         Resource = "payout_batch"
	ResourceProgram             Resource = "program"
	ResourceEndpoint            Resource = "webhook"
	ResourceAPIKey              Resource = "api_key"
	ResourceServiceToken        Resource = "service_token"
	ResourceMember              Resource = "member"
	ResourceUser                Resource = "user"
	ResourceAnnouncement        Resource = "announcement"
	ResourceProcessorConnection Resource = "processor_connection"
	ResourceBuyerErasure        Resource = "buyer_erasure"
)

// The types of notifications that have no webhook event.
const (
	NotifyEndpointDeadLetter       Type = "webhook.dead_lettered"
	NotifyEndpointDisabled         Type = "webhook.disabled"
	NotifyProcessorFailed          Type = "processor.event_failed"
	NotifyProcessorEndpointFailing Type = "processor.endpoint_failing"
	NotifyProcessorConnected       Type = "processor.connected"
	NotifyProcessorDisconnected    Type = "processor.disconnected"
	NotifyNewDevice                Type = "security.new_device"
	NotifyPasswordChanged          Type = "security.password_changed"
	NotifyEmailChanged             Type = "security.email_changed"
	NotifyKeyCreated               Type = "security.api_key_created"
	NotifyKeyRolled                Type = "security.api_key_rolled"
	NotifyKeyRevoked               Type = "security.api_key_revoked"
	NotifyServiceTokenCreated      Type = "security.service_token_created"
	NotifyServiceTokenRolled       Type = "security.service_token_rolled"
	NotifyServiceTokenRevoked      Type = "security.service_token_revoked"
	NotifyPayoutMethodChanged      Type = "security.payout_method_changed"
	NotifyPayoutApprovalChanged    Type = "security.payout_approval_changed"
	NotifyPayoutBatchAwaiting      Type = "payout_batch.awaiting_approval"
	NotifySecondFactorEnabled      Type = "security.second_factor_enabled"
	NotifySecondFactorDisabled     Type = "security.second_factor_disabled"
	NotifyRecoveryCodeUsed         Type = "security.recovery_code_used"
	NotifyWrongCodes               Type = "security.wrong_codes"
	NotifyRoleChanged              Type = "security.role_changed"
	NotifyOwnershipMoved           Type = "security.ownership_moved"
	NotifyVerifyEmail              Type = "account.verify_email"
	NotifyEmailVerified            Type = "account.email_verified"
	NotifyMemberJoined             Type = "account.member_joined"
	NotifyMemberLeft               Type = "account.member_left"
	NotifyPayoutMethodMissing      Type = "payout.method_missing"
	NotifyPayoutMethodProposed     Type = "payout.method_proposed"
	NotifyParticipationOffered     Type = "participant.offered"
	NotifyProgramAnnouncement      Type = "program.announcement"
	NotifyWeeklySummary            Type = "summary.weekly"
	NotifyMonthlySummary           Type = "summary.monthly"
	NotifyProductAnnouncement      Type = "product.announcement"
)

// notificationRules is the table of all notifications. Its order is the order of
// docs/notifications.md.
var notificationRules = []Rule{
	{
		Type: Type(affiliate.EventParticipantApplied), Audience: affiliate.Merchant, Category: CategoryPartnerApplications, Severity: SeverityInfo,
		Title: "New application", Body: "{partner} applied to {program}.", Resource: ResourceParticipant,
	},
	{
		Type: Type(affiliate.EventConversionCreated), Audience: affiliate.Merchant, Category: CategoryConversions, Severity: SeverityInfo,
		Title: "New conversion", Body: "A {event}[ of {amount}] was recorded[ and credited to {credited}].", Resource: ResourceConversion,
	},
	{
		Type: Type(affiliate.EventCommissionCreated), Audience: affiliate.Merchant, Category: CategoryCommissions, Severity: SeverityInfo,
		Title: "New commission", Body: "{partner} earned {amount} in {program}.", Resource: ResourceCommission,
	},
	{
		Type: Type(affiliate.EventConversionFraudDetected), Audience: affiliate.Merchant, Category: CategoryFraudReview, Severity: SeverityWarning,
		Title: "Suspicious conversion", Body: "The fraud rules gave a conversion a score of {score} of 100: {rules}.", Resource: ResourceConversion,
	},
	{
		Type: Type(affiliate.EventCommissionReviewRequired), Audience: affiliate.Merchant, Category: CategoryFraudReview, Severity: SeverityWarning,
		Title: "Commission needs review", Body: "A commission of {amount} for {partner} in {program} needs a decision[: {reasons}].", Resource: ResourceCommission,
	},
	{
		Type: Type(affiliate.EventConversionRefunded), Audience: affiliate.Merchant, Category: CategoryRefundsDisputes, Severity: SeverityInfo,
		Title: "Conversion refunded", Body: "{refunded} of a payment of {amount} was refunded so far[. It was credited to {credited}].", Resource: ResourceConversion,
	},
	{
		Type: Type(affiliate.EventCommissionDisputed), Audience: affiliate.Merchant, Category: CategoryRefundsDisputes, Severity: SeverityWarning,
		Title: "Payment disputed", Body: "The payment for a commission of {amount} for {partner} is disputed.", Resource: ResourceCommission,
	},
	{
		Type: Type(affiliate.EventCommissionDisputeResolved), Audience: affiliate.Merchant, Category: CategoryRefundsDisputes, Severity: SeverityInfo,
		Title: "Dispute ended", Body: "The dispute about the payment for a commission for {partner} has ended.", Resource: ResourceCommission,
	},
	{
		Type: Type(affiliate.EventPayoutPaid), Audience: affiliate.Merchant, Category: CategoryPayouts, Severity: SeverityInfo,
		Title: "Payout paid", Body: "The payout of {amount} to {partner} was paid.", Resource: ResourcePayout,
	},
	{
		Type: Type(affiliate.EventPayoutCanceled), Audience: affiliate.Merchant, Category: CategoryPayouts, Severity: SeverityInfo,
		Title: "Payout canceled", Body: "The payout of {amount} to {partner} was canceled.", Resource: ResourcePayout,
	},
	{
		Type: Type(affiliate.EventPayoutFailed), Audience: affiliate.Merchant, Category: CategoryPayouts, Severity: SeverityCritical,
		Title: "Payout failed", Body: "The payout of {amount} to {partner} could not be paid[: {reason}].", Resource: ResourcePayout,
	},
	{
		Type: NotifyPayoutBatchAwaiting, Audience: affiliate.Merchant, Category: CategoryPayouts, Severity: SeverityWarning,
		Title: "Payout batch awaits approval", Body: "A batch of {payouts} payouts needs the confirmation of another member.", Resource: ResourcePayoutBatch,
		Cause: "A member confirms a payout batch that two members have to confirm.",
	},
	{
		Type: NotifyEndpointDeadLetter, Audience: affiliate.Merchant, Category: CategoryWebhookHealth, Severity: SeverityWarning,
		Title: "Webhook not delivered", Body: "An event could not be delivered to {url}. It is the first one of this day.", Resource: ResourceEndpoint,
		Cause: "A webhook endpoint has its first dead-lettered delivery of a day (UTC).",
	},
	{
		Type: NotifyEndpointDisabled, Audience: affiliate.Merchant, Category: CategoryWebhookHealth, Severity: SeverityCritical,
		Title: "Webhook endpoint disabled", Body: "No more events are sent to {url}, because {reason}. Enable the endpoint when it works again.", Resource: ResourceEndpoint,
		Cause: "The service disables a webhook endpoint.",
	},
	{
		Type: NotifyProcessorFailed, Audience: affiliate.Merchant, Category: CategoryWebhookHealth, Severity: SeverityCritical,
		Title: "Payment processor events failed", Body: "An event of the {mode} mode account {account} at {processor} could not be applied for three days, because {reason}. It is the first one of this day. Start a resync when the cause is removed.", Resource: ResourceProcessorConnection,
		Cause: "The first event of a payment processor of a day (UTC) could not be applied for three days.",
	},
	{
		Type: NotifyProcessorEndpointFailing, Audience: affiliate.Merchant, Category: CategoryWebhookHealth, Severity: SeverityCritical,
		Title: "Payment processor events do not arrive", Body: "Events of the {mode} mode account {account} at {processor} no longer arrive or cannot be applied, because {reason}. Connect the account again.", Resource: ResourceProcessorConnection,
		Cause: "The webhook endpoint of a connected account was disabled or deleted at the payment processor, or the key is no longer accepted. The endpoints are checked every hour.",
	},
	{
		Type: Type(affiliate.EventGDPRExportReady), Audience: affiliate.Merchant, Category: CategoryGDPR, Severity: SeverityInfo,
		Title: "Export ready", Body: "The export of personal data is ready for download.", Page: "/settings/account?show=privacy",
	},
	{
		Type: Type(affiliate.EventGDPRBuyerErasureCompleted), Audience: affiliate.Merchant, Category: CategoryGDPR, Severity: SeverityInfo,
		Title: "Erasure of a buyer", Body: "The personal data of a buyer {outcome}.", Resource: ResourceBuyerErasure,
	},
	{
		Type: NotifyNewDevice, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "New sign-in", Body: "{user} signed in from a new device[ in the network {network}]. If this was not {user}, reset the password.", Resource: ResourceUser,
		Cause: "A user signs in with a device that was not used in the last 90 days. A device is a browser, whatever its version, in a network (/24 or /48).",
	},
	{
		Type: NotifyPasswordChanged, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Password changed", Body: "The password of {user} was changed. All other sessions were ended.", Resource: ResourceUser,
		Cause: "A user resets or changes the password.",
	},
	{
		Type: NotifyEmailChanged, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "E-mail address changed", Body: "The e-mail address of {user} was changed.", Resource: ResourceUser,
		Cause: "A user confirms a new e-mail address.",
	},
	{
		Type: NotifySecondFactorEnabled, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Second factor enabled", Body: "The account of {user} now has a second factor. All other sessions were ended.", Resource: ResourceUser,
		Cause: "A user enables the second factor.",
	},
	{
		Type: NotifySecondFactorDisabled, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Second factor removed", Body: "The second factor of {user} was removed.", Resource: ResourceUser,
		Cause: "A user removes the second factor, or the operator of the service resets it.",
	},
	{
		Type: NotifyRecoveryCodeUsed, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Recovery code used", Body: "A recovery code of {user} was used. Unused codes: {left}.", Resource: ResourceUser,
		Cause: "A user uses a recovery code in place of a code of the authenticator app.",
	},
	{
		Type: NotifyWrongCodes, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Wrong codes", Body: "Three wrong codes in a row were entered for {user}. If this was not {user}, the password must be changed.", Resource: ResourceUser,
		Cause: "Three codes of the second factor in a row were wrong.",
	},
	{
		Type: NotifyKeyCreated, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Secret key created", Body: "{user} created the {mode} mode secret key \"{key}\", which ends with {last4}.", Resource: ResourceAPIKey,
		Cause: "A member creates a secret key.",
	},
	{
		Type: NotifyKeyRolled, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Secret key rolled", Body: "{user} replaced the {mode} mode secret key \"{key}\", which ends with {last4}.", Resource: ResourceAPIKey,
		Cause: "A member rolls a secret key.",
	},
	{
		Type: NotifyKeyRevoked, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Secret key revoked", Body: "{user} revoked the {mode} mode secret key \"{key}\", which ends with {last4}.", Resource: ResourceAPIKey,
		Cause: "A member revokes a secret key.",
	},
	{
		Type: NotifyServiceTokenCreated, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Service token created", Resource: ResourceServiceToken,
		Body:  "{user} created the {mode} mode service token \"{key}\" with the role {role}, which ends with {last4}.",
		Cause: "A member creates a service token.",
	},
	{
		Type: NotifyServiceTokenRolled, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Service token rolled", Resource: ResourceServiceToken,
		Body:  "{user} replaced the {mode} mode service token \"{key}\" with the role {role}, which ends with {last4}.",
		Cause: "A member rolls a service token.",
	},
	{
		Type: NotifyServiceTokenRevoked, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Service token revoked", Resource: ResourceServiceToken,
		Body:  "{user} revoked the {mode} mode service token \"{key}\" with the role {role}, which ends with {last4}.",
		Cause: "A member revokes a service token.",
	},
	{
		Type: NotifyPayoutApprovalChanged, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Payout approval changed", Body: "The number of confirmations that a payout batch needs was changed: {rule}.", Resource: ResourceMember,
		Cause: "A member changes the setting `payoutApproval` of the workspace.",
	},
	{
		Type: NotifyRoleChanged, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Role changed", Body: "The role of {user} was changed from {before} to {after}.", Resource: ResourceMember,
		Cause: "The role of a member is changed.",
	},
	{
		Type: NotifyOwnershipMoved, Audience: affiliate.Merchant, Category: CategorySecurity, Severity: SeverityCritical,
		Title: "Ownership transferred", Body: "{user} is now the owner of the workspace.", Resource: ResourceMember,
		Cause: "An owner transfers the ownership of the workspace.",
	},
	{
		Type: NotifyProcessorConnected, Audience: affiliate.Merchant, Category: CategoryAccount, Severity: SeverityInfo,
		Title: "Payment processor connected", Body: "{user} connected the {mode} mode account {account} at {processor}.", Resource: ResourceProcessorConnection,
		Cause: "A member connects an account at a payment processor.",
	},
	{
		Type: NotifyProcessorDisconnected, Audience: affiliate.Merchant, Category: CategoryAccount, Severity: SeverityWarning,
		Title: "Payment processor disconnected", Body: "{user} disconnected the {mode} mode account {account} at {processor}. Its sales, refunds and disputes no longer arrive.", Resource: ResourceProcessorConnection,
		Cause: "A member disconnects the account at a payment processor.",
	},
	{
		Type: NotifyVerifyEmail, Audience: affiliate.Merchant, Category: CategoryAccount, Severity: SeverityInfo,
		Title: "Verify your e-mail address", Body: "Open the link in the mail that was sent to the address of {user}.", Resource: ResourceUser, NoMail: true,
		Cause: "An account is created.",
	},
	{
		Type: NotifyEmailVerified, Audience: affiliate.Merchant, Category: CategoryAccount, Severity: SeverityInfo,
		Title: "E-mail address verified", Body: "The e-mail address of {user} is verified.", Resource: ResourceUser, NoMail: true,
		Cause: "A user verifies the e-mail address.",
	},
	{
		Type: NotifyMemberJoined, Audience: affiliate.Merchant, Category: CategoryAccount, Severity: SeverityInfo,
		Title: "Member joined", Body: "{user} joined the workspace with the role {role}.", Resource: ResourceMember,
		Cause: "A person accepts an invitation to the workspace.",
	},
	{
		Type: NotifyMemberLeft, Audience: affiliate.Merchant, Category: CategoryAccount, Severity: SeverityInfo,
		Title: "Member left", Body: "{name} is no longer a member of the workspace.", Resource: ResourceMember,
		Cause: "A member is removed from the workspace.",
	},
	{
		Type: NotifyWeeklySummary, Audience: affiliate.Merchant, Category: CategoryWeeklySummary, Severity: SeverityInfo,
		Title: "Your week", Body: "{summary}",
		Cause: "Every Monday at 08:00 in the workspace's time zone, if there was anything to report in live mode.",
	},
	{
		Type: NotifyProductAnnouncement, Audience: affiliate.Merchant, Category: CategoryProductUpdates, Severity: SeverityInfo,
		Title: "{title}", Body: "{text}", Resource: ResourceAnnouncement,
		Cause: "The operator runs `core announce`.",
	},
	{
		Type: NotifyParticipationOffered, Audience: affiliate.Partner, Category: CategoryApplicationStatus, Severity: SeverityInfo,
		Title: "Invitation to a programme", Body: "{program} invites you to take part. Accept or decline the invitation.",
		Resource: ResourceParticipant, NoMail: true,
		Cause: "A merchant adds a partner who already has an account to a programme.",
	},
	{
		Type: Type(affiliate.EventParticipantApproved), Audience: affiliate.Partner, Category: CategoryApplicationStatus, Severity: SeverityInfo,
		Title: "You are in", Body: "You take part in {program}. You can share your link now.[ You earn {rate}.][ Your link: {link}]", Resource: ResourceParticipant,
	},
	{
		Type: Type(affiliate.EventParticipantRejected), Audience: affiliate.Partner, Category: CategoryApplicationStatus, Severity: SeverityInfo,
		Title: "Application rejected", Body: "{program} did not accept your application.", Resource: ResourceParticipant,
	},
	{
		Type: Type(affiliate.EventParticipantSuspended), Audience: affiliate.Partner, Category: CategoryApplicationStatus, Severity: SeverityWarning,
		Title: "You were suspended", Body: "You earn no commissions in {program} at the moment.", Resource: ResourceParticipant,
	},
	{
		Type: Type(affiliate.EventParticipantReinstated), Audience: affiliate.Partner, Category: CategoryApplicationStatus, Severity: SeverityInfo,
		Title: "You were reinstated", Body: "You earn commissions in {program} again.", Resource: ResourceParticipant,
	},
	{
		Type: Type(affiliate.EventCommissionCreated), Audience: affiliate.Partner, Category: CategoryCommissions, Severity: SeverityInfo,
		Title: "New commission", Body: "You earned {amount} in {program}.", Resource: ResourceCommission,
	},
	{
		Type: Type(affiliate.EventCommissionApproved), Audience: affiliate.Partner, Category: CategoryCommissions, Severity: SeverityInfo,
		Title: "Commission approved", Body: "Your commission of {amount} in {program} was approved.", Resource: ResourceCommission,
	},
	{
		Type: Type(affiliate.EventCommissionRejected), Audience: affiliate.Partner, Category: CategoryCommissions, Severity: SeverityInfo,
		Title: "Commission rejected", Body: "Your commission of {amount} in {program} was rejected.", Resource: ResourceCommission,
	},
	{
		Type: Type(affiliate.EventCommissionRefunded), Audience: affiliate.Partner, Category: CategoryCommissions, Severity: SeverityInfo,
		Title: "Commission reduced", Body: "Your commission[ of {original}] in {program} was reduced to {amount}, because the sale changed.", Resource: ResourceCommission,
	},
	{
		Type: Type(affiliate.EventPayoutProcessing), Audience: affiliate.Partner, Category: CategoryPayouts, Severity: SeverityInfo,
		Title: "Payout on its way", Body: "A payout of {amount} from {program} is being sent.", Resource: ResourcePayout,
	},
	{
		Type: Type(affiliate.EventPayoutPaid), Audience: affiliate.Partner, Category: CategoryPayouts, Severity: SeverityInfo,
		Title: "Payout paid", Body: "{program} paid you {amount}.", Resource: ResourcePayout,
	},
	{
		Type: Type(affiliate.EventPayoutFailed), Audience: affiliate.Partner, Category: CategoryPayoutProblems, Severity: SeverityCritical,
		Title: "Payout failed", Body: "A payout of {amount} from {program} could not be paid[: {reason}]. Check your payout method.", Resource: ResourcePayout,
	},
	{
		Type: NotifyPayoutMethodMissing, Audience: affiliate.Partner, Category: CategoryPayoutProblems, Severity: SeverityWarning,
		Title: "Add a payout method", Body: "{amount} is owed to you, but you have no payout method.", Page: "/payouts/method",
		Cause: "Every Monday at 08:00 UTC, while live money is owed to a partner who has no payout method.",
	},
	{
		Type: NotifyPayoutMethodProposed, Audience: affiliate.Partner, Category: CategoryPayouts, Severity: SeverityInfo,
		Title: "Payout method proposed", Body: "{program} proposes a payout method to you. Confirm or decline it.", Page: "/payouts",
		Cause: "A merchant proposes a payout method to a partner.",
	},
	{
		Type: NotifyProgramAnnouncement, Audience: affiliate.Partner, Category: CategoryProgrammeNews, Severity: SeverityInfo,
		Title: "{title}", Body: "{text}", Resource: ResourceAnnouncement,
		Cause: "The merchant announces something to the approved participants of a programme.",
	},
	{
		Type: NotifyMonthlySummary, Audience: affiliate.Partner, Category: CategoryMonthlySummary, Severity: SeverityInfo,
		Title: "Your month", Body: "{summary}",
		Cause: "On the first day of every month at 08:00 UTC, if there was anything to report in live mode.",
	},
	{
		Type: Type(affiliate.EventGDPRExportReady), Audience: affiliate.Partner, Category: CategoryGDPR, Severity: SeverityInfo,
		Title: "Export ready", Body: "The export of your data is ready for download.", Page: "/settings?show=privacy",
	},
	{
		Type: NotifyNewDevice, Audience: affiliate.Partner, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "New sign-in", Body: "Someone signed in to your account from a new device[ in the network {network}]. If this was not you, reset your password.", Resource: ResourceUser,
		Cause: "A user signs in with a device that was not used in the last 90 days. A device is a browser, whatever its version, in a network (/24 or /48).",
	},
	{
		Type: NotifyPasswordChanged, Audience: affiliate.Partner, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Password changed", Body: "Your password was changed. All other sessions were ended.", Resource: ResourceUser,
		Cause: "A user resets or changes the password.",
	},
	{
		Type: NotifyEmailChanged, Audience: affiliate.Partner, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "E-mail address changed", Body: "The e-mail address of your account was changed.", Resource: ResourceUser,
		Cause: "A user confirms a new e-mail address.",
	},
	{
		Type: NotifyPayoutMethodChanged, Audience: affiliate.Partner, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Payout method changed", Body: "Your payout method was set to {method}[. New payouts do not include you until {until}]. If this was not you, reset your password and tell your merchants.", Resource: ResourceUser,
		Cause: "A partner sets another payout method or account.",
	},
	{
		Type: NotifySecondFactorEnabled, Audience: affiliate.Partner, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Second factor enabled", Body: "Your account now has a second factor. All other sessions were ended.", Resource: ResourceUser,
		Cause: "A user enables the second factor.",
	},
	{
		Type: NotifySecondFactorDisabled, Audience: affiliate.Partner, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Second factor removed", Body: "The second factor of your account was removed.", Resource: ResourceUser,
		Cause: "A user removes the second factor, or the operator of the service resets it.",
	},
	{
		Type: NotifyRecoveryCodeUsed, Audience: affiliate.Partner, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Recovery code used", Body: "A recovery code of your account was used. Unused codes: {left}.", Resource: ResourceUser,
		Cause: "A user uses a recovery code in place of a code of the authenticator app.",
	},
	{
		Type: NotifyWrongCodes, Audience: affiliate.Partner, Category: CategorySecurity, Severity: SeverityWarning,
		Title: "Wrong codes", Body: "Three wrong codes in a row were entered for your account. If this was not you, change your password.", Resource: ResourceUser,
		Cause: "Three codes of the second factor in a row were wrong.",
	},
	{
		Type: NotifyVerifyEmail, Audience: affiliate.Partner, Category: CategoryAccount, Severity: SeverityInfo,
		Title: "Verify your e-mail address", Body: "Open the link in the mail that was sent to your address.", Resource: ResourceUser, NoMail: true,
		Cause: "An account is created.",
	},
	{
		Type: NotifyEmailVerified, Audience: affiliate.Partner, Category: CategoryAccount, Severity: SeverityInfo,
		Title: "E-mail address verified", Body: "Your e-mail address is verified.", Resource: ResourceUser, NoMail: true,
		Cause: "A user verifies the e-mail address.",
	},
}

type ruleKey struct {
	audience affiliate.AccountKind
	kind     Type
}

var rulesByKey = func() map[ruleKey]Rule {
	rules := map[ruleKey]Rule{}
	for _, rule := range notificationRules {
		rules[ruleKey{rule.Audience, rule.Type}] = rule
	}
	return rules
}()

// HasNotification reports whether a type exists for an audience. Rows that a newer
// version has stored may have other types.
func HasNotification(audience affiliate.AccountKind, kind Type) bool {
	_, ok := rulesByKey[ruleKey{audience, kind}]
	return ok
}

// Types returns the types that this version knows.
func Types() []Type {
	var types []Type
	for _, rule := range notificationRules {
		if !slices.Contains(types, rule.Type) {
			types = append(types, rule.Type)
		}
	}
	return types
}

// Rules returns the table of all notifications.
func Rules() []Rule {
	return append([]Rule{}, notificationRules...)
}

// Type is the type of a notification. A notification about a webhook event
// has the name of the event as its type.
type Type string
