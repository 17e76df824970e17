package main

import (
	"strings"
	"unicode"
)

// titles maps operation ids to summaries, for ids from which title cannot make a good
// summary.
var titles = map[string]string{
	"eraseParticipant":                     "Erase a participant",
	"erasePartnerAccount":                  "Erase the account of a partner",
	"eraseMerchantAccount":                 "Erase the workspace",
	"getOpenAPI":                           "Get the OpenAPI document",
	"joinWaitlist":                         "Join the waitlist",
	"getWaitlistCount":                     "Get the counter of the waitlist",
	"exportPartnerAccount":                 "Export a partner's account",
	"exportMerchantAccount":                "Export a workspace",
	"registerMerchant":                     "Register a merchant",
	"registerPartner":                      "Register a partner",
	"loginMerchant":                        "Log in as a merchant",
	"loginPartner":                         "Log in as a partner",
	"loginMerchantSecondFactor":            "Complete a merchant's login with a code",
	"loginPartnerSecondFactor":             "Complete a partner's login with a code",
	"enrollMerchantTotp":                   "Enrol a second factor of a merchant",
	"enrollPartnerTotp":                    "Enrol a second factor of a partner",
	"confirmMerchantTotp":                  "Confirm a second factor of a merchant",
	"confirmPartnerTotp":                   "Confirm a second factor of a partner",
	"removeMerchantTotp":                   "Remove the second factor of a merchant",
	"removePartnerTotp":                    "Remove the second factor of a partner",
	"refreshMerchantSession":               "Refresh a merchant's session",
	"refreshPartnerSession":                "Refresh a partner's session",
	"refreshSession":                       "Refresh a session",
	"logout":                               "Log out",
	"logout2":                              "Log out as a merchant",
	"logout3":                              "Log out as a partner",
	"acceptInvite":                         "Accept an invitation to a workspace",
	"acceptParticipantInvite":              "Accept an invitation to a programme",
	"apply":                                "Apply to a programme",
	"listLedger":                           "List ledger entries",
	"listLedgerBalances":                   "State the balances of a day",
	"exportLedger":                         "Export the ledger",
	"listPartnerLedger":                    "List a partner's ledger entries",
	"getApiKeys":                           "List API keys",
	"checkLiveness":                        "Check that the service runs",
	"checkReadiness":                       "Check that the service is ready",
	"findDecision":                         "Find a decision by transaction id",
	"approveCommissionEarly":               "Approve a commission early",
	"getCommission2":                       "Get a commission without its programme",
	"approveCommission2":                   "Approve a commission without its programme",
	"approveCommissionEarly2":              "Approve a commission early without its programme",
	"rejectCommission2":                    "Reject a commission without its programme",
	"clearCommissionReview2":               "Clear the review flag of a commission without its programme",
	"bulkApproveCommissions":               "Approve several commissions",
	"bulkRejectCommissions":                "Reject several commissions",
	"bulkApproveCommissions2":              "Approve several commissions of all programmes",
	"bulkRejectCommissions2":               "Reject several commissions of all programmes",
	"listPartners":                         "List the partners of all programmes",
	"exportPartners":                       "Export the partners of all programmes",
	"bulkUpdateParticipants":               "Change the group and the tags of several partners",
	"bulkInviteParticipants":               "Invite several partners",
	"bulkApproveParticipants":              "Approve several partners",
	"bulkRejectParticipants":               "Reject several partners",
	"clearCommissionReview":                "Clear the review flag of a commission",
	"reportConversion":                     "Report a conversion",
	"reportConversions":                    "Report several conversions",
	"refundConversion":                     "Report a refund",
	"reportDispute":                        "Report a dispute",
	"testWebhook":                          "Send a test event",
	"recoverDeliveries":                    "Send missed deliveries again",
	"rotateWebhookSecret":                  "Rotate the signing secret",
	"listEventTypes":                       "List event types",
	"markPayoutPaid":                       "Mark a payout as paid",
	"markPayoutFailed":                     "Mark a payout as failed",
	"putFraudPolicy":                       "Set the fraud policy",
	"getFraudPolicy":                       "Get the fraud policy",
	"registerClick":                        "Register a click",
	"previewPayouts":                       "Preview payouts",
	"transferOwnership":                    "Transfer the ownership",
	"setPayoutMethod":                      "Set the payout method",
	"getWorkspace":                         "Get the workspace",
	"updateWorkspace":                      "Update the workspace",
	"listAuditLog":                         "List the audit log",
	"exportAuditLog":                       "Export the audit log",
	"exportCommissions":                    "Export commissions",
	"exportProgramCommissions":             "Export the commissions of a programme",
	"getCommissionStats":                   "Get commission totals",
	"getProgramCommissionStats":            "Get the commission totals of a programme",
	"listProgramCommissions":               "List the commissions of a programme",
	"listProgramRules":                     "List versions of the commission rules",
	"getAnalyticsSummary":                  "Get the summary of the workspace",
	"getAnalyticsTimeseries":               "Get a time series of the workspace",
	"getAnalyticsBreakdown":                "Get a breakdown of the workspace",
	"getAnalyticsFunnel":                   "Get the funnel of the workspace",
	"getAnalyticsCohorts":                  "Get the cohorts of the workspace",
	"getProgramAnalyticsSummary":           "Get the summary of a programme",
	"getProgramAnalyticsTimeseries":        "Get a time series of a programme",
	"getProgramAnalyticsBreakdown":         "Get a breakdown of a programme",
	"getProgramAnalyticsFunnel":            "Get the funnel of a programme",
	"getProgramAnalyticsCohorts":           "Get the cohorts of a programme",
	"getPartnerAnalyticsSummary":           "Get the summary of a partner",
	"getPartnerAnalyticsTimeseries":        "Get a time series of a partner",
	"getPartnerAnalyticsBreakdown":         "Get a breakdown of a partner",
	"getPartnerAnalyticsFunnel":            "Get the funnel of a partner",
	"getPartnerAnalyticsCohorts":           "Get the cohorts of a partner",
	"getPartnerBalances":                   "Get a partner's balances",
	"getPartnerProfile":                    "Get the partner's profile",
	"updatePartnerProfile":                 "Update the partner's profile",
	"getConversionAttribution":             "Get the attribution of a conversion",
	"countUnreadNotifications":             "Count unread notifications",
	"countPartnerUnreadNotifications":      "Count a partner's unread notifications",
	"readNotification":                     "Mark a notification as read",
	"readPartnerNotification":              "Mark a partner's notification as read",
	"readAllNotifications":                 "Mark all notifications as read",
	"readAllPartnerNotifications":          "Mark all notifications of a partner as read",
	"dismissPartnerNotification":           "Dismiss a partner's notification",
	"dismissReadNotifications":             "Dismiss all notifications that are read",
	"dismissReadPartnerNotifications":      "Dismiss all notifications that a partner has read",
	"listPartnerNotifications":             "List a partner's notifications",
	"getNotificationPreferences":           "Get notification preferences",
	"getPartnerNotificationPreferences":    "Get a partner's notification preferences",
	"updateNotificationPreferences":        "Update notification preferences",
	"updatePartnerNotificationPreferences": "Update a partner's notification preferences",
	"unsubscribe":                          "Unsubscribe from the mails of a category",
	"receiveProviderEvent":                 "Receive a message of the mail provider",
	"connectProcessor":                     "Connect a payment processor",
	"getProcessorConnection":               "Get the connection to a payment processor",
	"updateProcessorConnection":            "Update the connection to a payment processor",
	"disconnectProcessor":                  "Disconnect a payment processor",
	"resyncProcessor":                      "Read the events of a payment processor again",
	"listProcessorEvents":                  "List the events of a payment processor",
	"receiveProcessorEvent":                "Receive an event of a payment processor",
	"eraseBuyer":                           "Erase a buyer",
	"listBuyerErasures":                    "List the erasures of buyers",
	"getBuyerErasure":                      "Get the erasure of a buyer",
	"listNotificationLog":                  "List the notification log",
	"getNotificationLogEntry":              "Get an entry of the notification log",
	"deleteTestData":                       "Delete the test data",
	"search":                               "Search all kinds of records",
}

// names maps words of operation ids to the words that summaries use instead.
var names = map[string]string{"api": "API", "program": "programme", "programs": "programmes", "participant": "partner", "participants": "partners", "invites": "invitations", "invite": "invitation"}

// title returns the summary of an operation. It splits the id into words, so
// listPromoCodes becomes "List promo codes". A noun in the singular gets an article.
func title(id string) string {
	if text, ok := titles[id]; ok {
		return text
	}
	var words []string
	for _, r := range id {
		if unicode.IsUpper(r) || len(words) == 0 {
			words = append(words, "")
		}
		words[len(words)-1] += string(unicode.ToLower(r))
	}
	verb, noun := words[0], words[1:]
	for i, word := range noun {
		if name, ok := names[word]; ok {
			noun[i] = name
		}
	}
	if last := noun[len(noun)-1]; !strings.HasSuffix(last, "s") {
		article := "a"
		if strings.ContainsRune("aeiouA", rune(noun[0][0])) {
			article = "an"
		}
		noun = append([]string{article}, noun...)
	}
	return strings.ToUpper(verb[:1]) + verb[1:] + " " + strings.Join(noun, " ")
}

// tagGroup is a section in the menu of the reference.
type tagGroup struct {
	name string
	tags []string
}

// tagGroups contains every tag once, in the order of the reference.
var tagGroups = []tagGroup{
	{"Merchant's server", []string{"Conversion", "Attribution", "Tracking"}},
	{"Merchant's dashboard", []string{"Program", "Participant", "Link", "PromoCode", "Commission", "Customer", "Analytics", "Fraud", "Ledger", "Payout", "Webhook", "Processor", "Notification", "NotificationLog", "TestMode", "Search", "Workspace", "Branding", "ServiceToken"}},
	{"Personal data", []string{"Export", "Erasure", "BuyerErasure"}},
	{"Partners", []string{"Partner", "Portal"}},
	{"Accounts and system", []string{"Account", "Instance", "Mail", "Health", "Document"}},
}

// tagNames maps tags to the names that the reference shows.
var tagNames = map[string]string{
	"Account": "Accounts and sessions", "Analytics": "Analytics", "Attribution": "Attribution", "Branding": "Branding", "Commission": "Commissions", "Conversion": "Conversions", "Customer": "Customers", "Document": "OpenAPI document",
	"BuyerErasure": "Erasure of a buyer", "Erasure": "Erasure", "Export": "Exports of personal data", "Fraud": "Fraud", "Health": "Health", "Instance": "Deployment", "Ledger": "Ledger", "Link": "Links", "Mail": "Mail provider", "Notification": "Notifications",
	"NotificationLog": "Notification log", "Participant": "Partners in a programme", "Partner": "For partners", "Payout": "Payouts", "Portal": "Portal",
	"Processor": "Payment processor", "Program": "Programmes", "PromoCode": "Promo codes", "Search": "Search", "ServiceToken": "Service tokens", "TestMode": "Test mode", "Tracking": "Clicks", "Webhook": "Webhooks", "Workspace": "Workspace",
}
