package notification

import (
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
)

// Category is a group of notifications that a user can turn on and off
// together.
type Category string

// The categories. A category belongs to merchants, to partners or to both.
const (
	CategorySecurity            Category = "security"
	CategoryAccount             Category = "account"
	CategoryGDPR                Category = "gdpr"
	CategoryBilling             Category = "billing"
	CategoryWebhookHealth       Category = "webhook_health"
	CategoryPartnerApplications Category = "partner_applications"
	CategoryConversions         Category = "conversions"
	CategoryCommissions         Category = "commissions"
	CategoryFraudReview         Category = "fraud_review"
	CategoryRefundsDisputes     Category = "refunds_disputes"
	CategoryPayouts             Category = "payouts"
	CategoryPayoutProblems      Category = "payout_problems"
	CategoryApplicationStatus   Category = "application_status"
	CategoryProgrammeNews       Category = "programme_news"
	CategoryWeeklySummary       Category = "weekly_summary"
	CategoryMonthlySummary      Category = "monthly_summary"
	CategoryProductUpdates      Category = "product_updates"
)

// categorySpec describes a category for one audience.
type categorySpec struct {
	category Category
	label    string
	// protectedEmail and protectedInApp mean that users cannot turn mails, or the
	// notifications in the feed, off.
	protectedEmail, protectedInApp bool
	// emailOptIn means that mails are off by default.
	emailOptIn bool
	// personal means that only the user whom a notification is about and owners see it.
	personal bool
	// bothModes means that the notifications of the category belong to both modes.
	bothModes bool
	// gathered means that the mails to one user are gathered for an hour.
	gathered bool
	// roles are the roles of the members that receive the category.
	roles []affiliate.Role
}

var (
	runners        = []affiliate.Role{affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleManager}
	runnersViewers = []affiliate.Role{affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleManager, affiliate.RoleViewer}
	moneyViewers   = []affiliate.Role{affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleManager, affiliate.RoleFinance, affiliate.RoleViewer}
)

// categorySpecs has the categories of each audience in the order of the preferences.
var categorySpecs = map[affiliate.AccountKind][]categorySpec{
	affiliate.Merchant: {
		{category: CategorySecurity, label: "Security", protectedEmail: true, protectedInApp: true, personal: true, bothModes: true, roles: []affiliate.Role{affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleManager, affiliate.RoleFinance, affiliate.RoleDeveloper}},
		{category: CategoryAccount, label: "Account", protectedEmail: true, protectedInApp: true, personal: true, bothModes: true, roles: runners},
		{category: CategoryGDPR, label: "Personal data", protectedEmail: true, protectedInApp: true, bothModes: true, roles: runners},
		{category: CategoryBilling, label: "Billing", protectedEmail: true, protectedInApp: true, bothModes: true, gathered: true, roles: []affiliate.Role{affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleFinance}},
		{category: CategoryWebhookHealth, label: "Webhook health", protectedEmail: true, gathered: true, roles: []affiliate.Role{affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleDeveloper}},
		{category: CategoryPartnerApplications, label: "Partner applications", gathered: true, roles: runnersViewers},
		{category: CategoryConversions, label: "Conversions", emailOptIn: true, gathered: true, roles: runnersViewers},
		{category: CategoryCommissions, label: "Commissions", gathered: true, roles: moneyViewers},
		{category: CategoryFraudReview, label: "Fraud and review", gathered: true, roles: runnersViewers},
		{category: CategoryRefundsDisputes, label: "Refunds and disputes", gathered: true, roles: moneyViewers},
		{category: CategoryPayouts, label: "Payouts", gathered: true, roles: moneyViewers},
		{category: CategoryWeeklySummary, label: "Weekly summary", bothModes: true, gathered: true, roles: runnersViewers},
		{category: CategoryProductUpdates, label: "Product updates", emailOptIn: true, bothModes: true, gathered: true, roles: runnersViewers},
	},
	affiliate.Partner: {
		{category: CategorySecurity, label: "Security", protectedEmail: true, protectedInApp: true, personal: true, bothModes: true},
		{category: CategoryAccount, label: "Account", protectedEmail: true, protectedInApp: true, personal: true, bothModes: true},
		{category: CategoryGDPR, label: "Personal data", protectedEmail: true, protectedInApp: true, bothModes: true},
		{category: CategoryPayoutProblems, label: "Payout problems", protectedEmail: true, protectedInApp: true},
		{category: CategoryApplicationStatus, label: "Applications", gathered: true},
		{category: CategoryCommissions, label: "Commissions", gathered: true},
		{category: CategoryPayouts, label: "Payouts", gathered: true},
		{category: CategoryProgrammeNews, label: "Programme news", gathered: true},
		{category: CategoryMonthlySummary, label: "Monthly summary", bothModes: true, gathered: true},
	},
}

// Label returns the name of a category for people.
func (c Category) Label() string { return c.spec().label }

// spec returns the description of a category. For a category of both audiences, the label
// and the protection are the same.
func (c Category) spec() categorySpec {
	spec, ok := specOf(affiliate.Merchant, c)
	if !ok {
		spec, _ = specOf(affiliate.Partner, c)
	}
	return spec
}

// specOf returns the description of a category. ok is false if the audience does not have
// the category.
func specOf(audience affiliate.AccountKind, category Category) (spec categorySpec, ok bool) {
	i := slices.IndexFunc(categorySpecs[audience], func(s categorySpec) bool { return s.category == category })
	if i < 0 {
		return categorySpec{}, false
	}
	return categorySpecs[audience][i], true
}

// MailProtected reports whether users cannot disable the mail of a category. Mail of a
// protected category has no unsubscribe link.
func (c Category) MailProtected() bool {
	return c.spec().protectedEmail
}
