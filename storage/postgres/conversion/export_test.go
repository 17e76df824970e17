package conversion

// Statements whose query plans the tests check.
const (
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

// RecordConcurrency is the maximum number of batches that are recorded at the same time.
const RecordConcurrency = recordConcurrency

// Counts returns the numbers of batches that are being recorded and of reports that wait for
// the next batch.
func (c *Recorder) Counts() (running, waiting int) { return c.reports.Counts() }
