package notification

// The tests of plans explain these statements.
const (
	DeleteDismissedSQL = deleteDismissed
	PurgeDismissedSQL  = purgeDismissed
	DeleteOldReadsSQL  = deleteOldReads
	EntrySQL           = entryStatement
	RangePlan          = rangePlan

	WorkspacesWithoutSQL    = workspacesWithout
	PartnersWithoutSQL      = partnersWithout
	CountWeekSQL            = countWeek
	SumMonthSQL             = sumMonth
	OwedWithoutMethodSQL    = owedWithoutMethod
	TakeArrivalsSQL         = takeArrivals
	OldestArrivalSQL        = oldestArrival
	SelectRecipientsSQL     = selectRecipients
	OpenDigestSQL           = openDigest
	LockDueDigestSQL        = lockDueDigest
	UpdateDigestSQL         = updateDigest
	CloseDigestSQL          = closeDigest
	SelectFeedSQL           = selectFeed
	SelectGatheredSQL       = selectGathered
	DeleteExpiredTicketsSQL = deleteExpiredTickets
	DeleteLostStreamsSQL    = deleteLostStreams
	LockOldFeedsSQL         = lockOldFeeds
	DeleteOldPositionsSQL   = deleteOldPositions
	DeleteOldFeedsSQL       = deleteOldFeeds
)

var (
	ListSQL  = listStatement
	CountSQL = countStatement
)

// Arguments returns the arguments of ListSQL, CountSQL and EntrySQL.
var Arguments = arguments

// DayOf returns the day in the id of a notification.
var DayOf = dayOf
