package analytics

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/click"
)

// Store changes and reads sums. It is safe for concurrent use.
type Store interface {
	// InTx runs fn in a transaction.
	InTx(ctx context.Context, fn func(tx Tx) error) error
	// InSnapshot runs fn with a Reader. It uses a connection until fn has returned.
	InSnapshot(ctx context.Context, fn func(r Reader) error) error
	// Waiting returns at most limit workspaces and modes that have entries in the log.
	Waiting(ctx context.Context, limit int) ([]affiliate.Scope, error)
	// Oldest returns the time of the oldest entry in the log of all workspaces; nil if the log
	// is empty.
	Oldest(ctx context.Context) (*time.Time, error)
	// IsWaiting reports whether a workspace and mode have entries in the log.
	IsWaiting(ctx context.Context, scope affiliate.Scope) (bool, error)

	// Programs returns all programmes of a workspace and mode.
	Programs(ctx context.Context, scope affiliate.Scope) ([]analytics.Program, error)
	// Program returns a programme. Errors: NOT_FOUND.
	Program(ctx context.Context, scope affiliate.Scope, id affiliate.ProgramID) (analytics.Program, error)
	// WorkspaceCurrency returns the currency of a workspace. Errors: NOT_FOUND.
	WorkspaceCurrency(ctx context.Context, id affiliate.WorkspaceID) (string, error)
	// Participant and Link return the owner of the numbers of a participant or link. Deleted
	// links are included. Errors: NOT_FOUND.
	Participant(ctx context.Context, scope affiliate.Scope, id affiliate.ParticipantID) (analytics.Owner, error)
	Link(ctx context.Context, mode affiliate.Mode, workspaces []affiliate.WorkspaceID, id affiliate.LinkID) (analytics.Owner, error)
	// Participations returns the participants of a partner.
	Participations(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode) ([]analytics.Participation, error)
}

// Reader reads sums. All its methods read the same snapshot.
type Reader interface {
	// Days calls add with the quarters of each day of targets and each currency.
	Days(ctx context.Context, mode affiliate.Mode, targets []analytics.Target, p analytics.Period, add func(analytics.Day, string, analytics.Quarters)) error
	// Totals returns the figures of the programmes of targets. The figures of the conversions
	// that are not attributed have the zero id.
	Totals(ctx context.Context, mode affiliate.Mode, targets []analytics.Target, p analytics.Period) (map[affiliate.ProgramID]*analytics.Figures, error)
	// Values returns the figures of the values of a dimension.
	Values(ctx context.Context, mode affiliate.Mode, targets []analytics.Target, dimension analytics.Dimension, p analytics.Period) (map[string]*analytics.Figures, error)
	// Owners returns the figures of the participants and links of targets. The keys have no
	// programme.
	Owners(ctx context.Context, mode affiliate.Mode, targets []analytics.Target, p analytics.Period) (map[analytics.Owner]*analytics.Figures, error)
	// Labels returns the names of programmes or partners, or the codes of links, by their ids.
	Labels(ctx context.Context, mode affiliate.Mode, workspaces []affiliate.WorkspaceID, dimension analytics.Dimension, ids []string) (map[string]string, error)
	// Cohorts adds the cohorts of targets to a report. A target without a programme stands for
	// the whole workspace.
	Cohorts(ctx context.Context, mode affiliate.Mode, targets []analytics.Target, report *analytics.CohortReport) error
}

// Tx is a transaction that changes the sums of a workspace and mode.
type Tx interface {
	// TryLock gets the lock of the sums. It returns false if another transaction has the lock.
	TryLock(ctx context.Context, scope affiliate.Scope) (bool, error)
	// TakeEntries deletes the oldest entries of the log, as many as one transaction should add,
	// and returns them. more is true if entries may be left.
	TakeEntries(ctx context.Context, scope affiliate.Scope) (entries []analytics.LogEntry, more bool, err error)
	// AddEntry inserts an entry without clicks into the log.
	AddEntry(ctx context.Context, scope affiliate.Scope, entry analytics.LogEntry) error
	// Erased finds the erased participants among ids. workspace says that the whole workspace
	// was erased.
	Erased(ctx context.Context, scope affiliate.Scope, ids []affiliate.ParticipantID) (erased map[affiliate.ParticipantID]bool, workspace bool, err error)

	// CurrentConversions returns conversions as they are stored now, and CountedConversions
	// as they are part of the sums. Conversions that do not exist are missing. FirstOfCustomer
	// is not set.
	CurrentConversions(ctx context.Context, scope affiliate.Scope, ids []affiliate.ConversionID) (map[affiliate.ConversionID]analytics.Conversion, error)
	CountedConversions(ctx context.Context, scope affiliate.Scope, ids []affiliate.ConversionID) (map[affiliate.ConversionID]analytics.Conversion, error)
	// StoreCounted stores conversions as they are part of the sums, and deletes others.
	StoreCounted(ctx context.Context, scope affiliate.Scope, stored []analytics.Conversion, deleted []affiliate.ConversionID) error
	// Customers returns customers as they are part of the sums. Firsts returns them with their
	// first conversions as they follow from the counted conversions, and without their
	// activity. Customers without attributed conversions are missing.
	Customers(ctx context.Context, scope affiliate.Scope, refs []string) (map[string]*analytics.Customer, error)
	Firsts(ctx context.Context, scope affiliate.Scope, refs []string) (map[string]*analytics.Customer, error)
	// StoreCustomers stores customers as they are part of the sums, and deletes others.
	StoreCustomers(ctx context.Context, scope affiliate.Scope, stored []*analytics.Customer, deleted []string) error
	// AddCohorts adds changes to the sums of cohorts.
	AddCohorts(ctx context.Context, scope affiliate.Scope, changes analytics.CohortSums) error

	// UseSnapshot makes all statements of the transaction read the same snapshot. It must be
	// the first call.
	UseSnapshot(ctx context.Context) error
	// LogConversions inserts entries with all conversions of a span of days, and with all that
	// are counted on these days.
	LogConversions(ctx context.Context, scope affiliate.Scope, first, last analytics.Day) error
	// DeleteCustomers deletes all customers and cohorts.
	DeleteCustomers(ctx context.Context, scope affiliate.Scope) error
	// EachCountedOfCustomers calls fn with the conversions of all customers as they are part of
	// the sums, in parts. They are sorted by customer and time.
	EachCountedOfCustomers(ctx context.Context, scope affiliate.Scope, fn func(conversions []analytics.Conversion) error) error
	// DeleteDay deletes all sums and values of a day.
	DeleteDay(ctx context.Context, scope affiliate.Scope, day analytics.Day) error
	// CountedOfDay returns the conversions of a day as they are part of the sums.
	CountedOfDay(ctx context.Context, scope affiliate.Scope, day analytics.Day) ([]analytics.Conversion, error)
	// EachClicksOfDay calls fn with all clicks that were received on a day, in parts.
	EachClicksOfDay(ctx context.Context, scope affiliate.Scope, day analytics.Day, fn func(clicks []click.Click) error) error

	// Values returns the values that are counted separately, with their weights.
	Values(ctx context.Context, scope affiliate.Scope, of []analytics.DayValues) (analytics.Weights, error)
	// StoreValues stores the weights of values that are counted separately, and deletes others.
	StoreValues(ctx context.Context, scope affiliate.Scope, stored analytics.Weights, deleted map[analytics.DayValues][]string) error
	// TakeValueSums deletes the sums of values and returns them.
	TakeValueSums(ctx context.Context, scope affiliate.Scope, values map[analytics.DayValues][]string) (analytics.Sums, error)
	// ClickSums returns at most limit sums of values of a participant that have clicks.
	ClickSums(ctx context.Context, scope affiliate.Scope, participant affiliate.ParticipantID, dimensions []analytics.Dimension, limit int) (analytics.Sums, error)
	// Sums returns the stored sums with the keys of the given sums.
	Sums(ctx context.Context, scope affiliate.Scope, of analytics.Sums) (analytics.Sums, error)
	// StoreSums stores sums. It deletes those whose numbers are all zero, and the values that
	// have no sums any more.
	StoreSums(ctx context.Context, scope affiliate.Scope, sums analytics.Sums) error
}
