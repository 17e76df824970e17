package conversion

// Statements whose query plans the tests check.
var (
	SelectClicksSQL         = selectClicks
	StoredAwaitedSQL        = selectStoredAwaited
	LockPromoCodeSQL        = lockPromoCode
	FindPromoCodeSQL        = findPromoCode
	FindBindingSQL          = findBinding
	FindPaymentsSQL         = findPayments
	SelectKnownCustomerSQL  = selectKnownCustomer
	RecountPaymentsSQL      = recountPayments
	FindActiveCommissionSQL = findActiveCommission
	FindParticipantSQL      = findParticipant
)
