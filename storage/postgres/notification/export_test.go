package notification

// The tests of plans explain these statements.
const (
	DeleteDismissedSQL = deleteDismissed
	PurgeDismissedSQL  = purgeDismissed
	DeleteOldReadsSQL  = deleteOldReads
	EntrySQL           = entryStatement
	ReadTimesSQL       = readTimes
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
	OldPositionsSQL         = oldPositions
	LockFeedsSQL            = lockFeeds
	DeleteOldPositionsSQL   = deleteOldPositions
	DeleteOldFeedsSQL       = deleteOldFeeds
)

var (
	ListSQL  = listStatement
	CountSQL = countStatement
)

// Arguments returns arguments of ListSQL, CountSQL, EntrySQL and ReadTimesSQL.
var Arguments = arguments

// DayOf returns the day in the id of a notification.
var DayOf = dayOf
