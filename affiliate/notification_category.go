package affiliate

// NotificationCategory is a group of notifications that a user can turn on and off
// together (DECISIONS.md section 13).
type NotificationCategory string

// The categories. A category belongs to merchants, to partners or to both.
const (
	CategorySecurity            NotificationCategory = "security"
	CategoryAccount             NotificationCategory = "account"
	CategoryGDPR                NotificationCategory = "gdpr"
	CategoryBilling             NotificationCategory = "billing"
	CategoryWebhookHealth       NotificationCategory = "webhook_health"
	CategoryPartnerApplications NotificationCategory = "partner_applications"
	CategoryConversions         NotificationCategory = "conversions"
	CategoryCommissions         NotificationCategory = "commissions"
	CategoryFraudReview         NotificationCategory = "fraud_review"
	CategoryRefundsDisputes     NotificationCategory = "refunds_disputes"
	CategoryPayouts             NotificationCategory = "payouts"
	CategoryPayoutProblems      NotificationCategory = "payout_problems"
	CategoryApplicationStatus   NotificationCategory = "application_status"
	CategoryProgrammeNews       NotificationCategory = "programme_news"
	CategoryWeeklySummary       NotificationCategory = "weekly_summary"
	CategoryMonthlySummary      NotificationCategory = "monthly_summary"
	CategoryProductUpdates      NotificationCategory = "product_updates"
)

// NotificationID identifies a notification. It contains the notification's time, to the
// millisecond.
type NotificationID = ID[Notification]

// Notification is a message to the members of a workspace or to a partner.
type Notification struct {
	ID NotificationID
}
