package analytics

import (
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
)

// Owner has the programme, the participant and the link to which a sum belongs. Zero ids have these
// meanings: without a participant, the sum covers the whole programme; without a programme, it
// covers the conversions of the workspace that are not attributed; with a participant and without a
// link, it covers the participant's conversions that no link has caused.
type Owner struct {
	Program     affiliate.ProgramID     `db:"program_id"`
	Participant affiliate.ParticipantID `db:"participant_id"`
	Link        affiliate.LinkID        `db:"link_id"`
}

// Narrow sets the zero ids of o to the ids of other. It returns false if both have an id, and the ids differ.
func (o *Owner) Narrow(other Owner) bool {
	return narrow(&o.Program, other.Program) && narrow(&o.Participant, other.Participant) && narrow(&o.Link, other.Link)
}

func narrow[T any](id *affiliate.ID[T], other affiliate.ID[T]) bool {
	if id.IsZero() {
		*id = other
	}
	return other.IsZero() || *id == other
}

// Target is an owner of a workspace whose sums are read. Without a participant, it stands for
// the whole programme, and without a programme for the conversions that are not attributed.
// With a participant and without a link, it stands for all links of the participant.
type Target struct {
	Workspace affiliate.WorkspaceID `db:"workspace_id"`
	Owner
}

// Key identifies a stored sum of a workspace and mode.
type Key struct {
	Owner
	Day       Day `sql:"date"`
	Dimension Dimension
	// Value is empty in the dimension Total. In other dimensions an empty value means the
	// values that are not counted separately (OtherValues). Clicks and conversions without a value
	// are only part of Total.
	Value string
	// Currency is empty for the counts that are not amounts (see Counts).
	Currency string
}

// Sums holds sums by their keys.
type Sums map[Key]*Quarters

func (s Sums) add(key Key, index uint8, counts Counts) {
	quarters := s[key]
	if quarters == nil {
		quarters = &Quarters{}
		s[key] = quarters
	}
	quarters.Add(index, counts)
}

// addAll adds counts to the totals of an owner and to the sums of the values.
func (s Sums) addAll(owner Owner, at Quarter, values []string, currency string, counts Counts) {
	if counts == (Counts{}) {
		return
	}
	day := at.Day()
	index := uint8(at - day.First())
	s.add(Key{Owner: owner, Day: day, Currency: currency}, index, counts)
	for i, value := range values {
		if value != "" {
			s.add(Key{Owner: owner, Day: day, Dimension: dimensions[i], Value: value, Currency: currency}, index, counts)
		}
	}
}

// AddProgramSums adds the sums of the programmes over all participants and links.
func (s Sums) AddProgramSums() {
	program := Sums{}
	for key, quarters := range s {
		if key.Participant.IsZero() {
			continue
		}
		key.Participant, key.Link = affiliate.ParticipantID{}, affiliate.LinkID{}
		for _, quarter := range *quarters {
			program.add(key, quarter.Index, quarter.Counts)
		}
	}
	for key, quarters := range program {
		s[key] = quarters
	}
}

// MergeOthers moves the sums of each value for which the function kept returns false to the sums of OtherValues.
func (s Sums) MergeOthers(kept func(Dimension, Day, string) bool) {
	for key, quarters := range s {
		if key.Dimension == Total || key.Value == OtherValues || kept(key.Dimension, key.Day, key.Value) {
			continue
		}
		delete(s, key)
		key.Value = OtherValues
		s.Add(key, *quarters)
	}
}

// WithoutClicks returns the changes that remove the numbers of clicks from the sums s.
func (s Sums) WithoutClicks() Sums {
	changes := Sums{}
	for key, quarters := range s {
		for _, quarter := range *quarters {
			var clicks Counts
			for _, i := range []int{Clicks, UniqueClicks, BotClicks} {
				clicks[i] = -quarter.Counts[i]
			}
			changes.add(key, quarter.Index, clicks)
		}
	}
	return changes
}

// Negative returns the sums of single values that contain a negative number.
func (s Sums) Negative() Sums {
	found := Sums{}
	for key, quarters := range s {
		if key.Value == OtherValues {
			continue
		}
		if slices.ContainsFunc(*quarters, func(q QuarterCounts) bool { return slices.Min(q.Counts[:]) < 0 }) {
			found[key] = quarters
		}
	}
	return found
}

// MoveNegative moves the numbers that would make stored sums negative to the sums of
// OtherValues. The sum of a value lacks the numbers from before the value was counted
// separately. They are part of OtherValues.
func (s Sums) MoveNegative(stored Sums) {
	for key, changes := range s.Negative() {
		sum := Quarters{}
		for _, quarters := range []*Quarters{stored[key], changes} {
			if quarters == nil {
				continue
			}
			for _, q := range *quarters {
				sum.Add(q.Index, q.Counts)
			}
		}
		other := key
		other.Value = OtherValues
		for _, q := range sum {
			var missing Counts
			for i, n := range q.Counts {
				missing[i] = min(n, 0)
			}
			s.add(other, q.Index, missing)
			s.add(key, q.Index, missing.Negated())
		}
	}
}

// DropEmpty deletes sums without numbers.
func (s Sums) DropEmpty() {
	maps.DeleteFunc(s, func(_ Key, quarters *Quarters) bool { return len(*quarters) == 0 })
}

// AddAll adds other sums.
func (s Sums) AddAll(other Sums) {
	for key, quarters := range other {
		s.Add(key, *quarters)
	}
}

// Participants returns the participants of the sums.
func (s Sums) Participants() []affiliate.ParticipantID {
	found := map[affiliate.ParticipantID]bool{}
	for key := range s {
		if !key.Participant.IsZero() {
			found[key.Participant] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

// DayValues identifies the values of a dimension in a day.
type DayValues struct {
	Dimension Dimension
	Day       Day `sql:"date"`
}

// DayValues returns the dimensions and days of the sums that are not totals.
func (s Sums) DayValues() []DayValues {
	found := map[DayValues]bool{}
	for key := range s {
		if key.Dimension != Total {
			found[DayValues{key.Dimension, key.Day}] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

// DropErased deletes the sums of the values that an erasure has removed from the clicks of
// participants. The parameter workspace says that the whole workspace was erased.
func (s Sums) DropErased(participants map[affiliate.ParticipantID]bool, workspace bool) {
	erased := ErasedDimensions(workspace)
	maps.DeleteFunc(s, func(key Key, _ *Quarters) bool {
		return participants[key.Participant] && slices.Contains(erased, key.Dimension)
	})
}

// Add adds quarters to the sum with the given key.
func (s Sums) Add(key Key, quarters Quarters) {
	for _, quarter := range quarters {
		s.add(key, quarter.Index, quarter.Counts)
	}
}

// LogEntry is an entry of the log: a change that is not part of the sums yet.
type LogEntry struct {
	Clicks      []byte                   // a ClickLog; nil if the entry has no clicks
	OldestClick *time.Time               // the time of the oldest click, or nil without clicks
	Conversions []affiliate.ConversionID // conversions that may have changed
	// Erased is a participant whose clicks lose their personal values.
	Erased *affiliate.ParticipantID
}

// StatsDelta holds the numbers that one change adds to the counts of a participant and a
// link. Numbers can be negative. Amounts are in minor units of Currency.
type StatsDelta struct {
	affiliate.Scope
	Program         affiliate.ProgramID     `db:"program_id"`
	Participant     affiliate.ParticipantID `db:"participant_id"`
	Link            *affiliate.LinkID       `db:"link_id"`
	At              time.Time               `db:"-"`
	Currency        string                  // empty if there are no amounts
	Clicks          int64
	Signups         int64
	Conversions     int64
	RevenueCents    int64
	CommissionCents int64
}

// FoldStats is the job that adds new deltas (see StatsDelta) to the stored sums. It has
// no arguments; the job looks up the deltas when it runs.
type FoldStats struct{}

// Kind returns the name of the job.
func (FoldStats) Kind() string { return "fold_stats" }

// AddAnalytics is the job that adds new clicks and changed conversions to the sums of the
// analytics. It has no arguments; the job looks up what is new when it runs.
type AddAnalytics struct{}

// Kind returns the name of the job.
func (AddAnalytics) Kind() string { return "add_analytics" }

// Dimension is a property by which numbers are broken down, as in the parameter groupBy.
type Dimension string

// The dimensions of properties of clicks and conversions. Total is the sum of all values.
const (
	Total       Dimension = ""
	Country     Dimension = "country"
	Device      Dimension = "device"
	Browser     Dimension = "browser"
	OS          Dimension = "os"
	Referrer    Dimension = "referrer"
	LandingPage Dimension = "landing_page"
	UTMSource   Dimension = "utm_source"
	UTMMedium   Dimension = "utm_medium"
	UTMCampaign Dimension = "utm_campaign"
	SubID       Dimension = "sub_id"
	PromoCode   Dimension = "promo_code"
	EventType   Dimension = "event_type"
)

// The dimensions whose values are ids. They need no sums of their own, because every sum
// belongs to a programme, and to a participant and a link.
const (
	ByProgram     Dimension = "program"
	ByParticipant Dimension = "participant"
	ByLink        Dimension = "link"
)

// clickDimensions are the dimensions of a click, in the order of Values.
var clickDimensions = [...]Dimension{Country, Device, Browser, OS, Referrer, LandingPage, UTMSource, UTMMedium, UTMCampaign, SubID}

// dimensions are all dimensions with values, in the order of Values.
var dimensions = [...]Dimension{
	Country, Device, Browser, OS, Referrer, LandingPage, UTMSource, UTMMedium, UTMCampaign, SubID, PromoCode, EventType,
}

// Dimensions returns all dimensions with values.
func Dimensions() []Dimension { return dimensions[:] }

// Values holds a value for each of the dimensions, in the order of the constants from Country
// to EventType. A value is empty if the click or conversion has none.
type Values [len(dimensions)]string

// The indexes of the values that SetValues takes from the conversion.
const (
	subIDIndex     = 9
	promoCodeIndex = 10
	eventTypeIndex = 11
)

// HasClicks reports whether a breakdown by the dimension contains clicks. Promo codes and event
// types are properties of conversions only.
func (d Dimension) HasClicks() bool { return d != PromoCode && d != EventType }

// ErasedDimensions returns the dimensions whose values an erasure of a participant removes from
// clicks. An erasure of the whole workspace removes the values of all dimensions of clicks.
func ErasedDimensions(workspace bool) []Dimension {
	if workspace {
		return clickDimensions[:]
	}
	return []Dimension{Referrer, LandingPage, UTMSource, UTMMedium, UTMCampaign, SubID}
}

// maxValue is the greatest length of a value in bytes. ClickLog stores the length in a byte.
const maxValue = 255

// ClickValues returns the values of a click.
func ClickValues(c *click.Click) Values {
	return Values{
		cut(c.Country), cut(c.Device), cut(c.Browser), cut(c.OS), cut(c.ReferrerDomain), cut(c.LandingURL),
		cut(c.Source), cut(c.Medium), cut(c.Campaign), cut(c.SubID),
	}
}

// cut shortens a value to at most maxValue bytes and does not divide a character.
func cut(value string) string {
	if len(value) <= maxValue {
		return value
	}
	end := maxValue
	for !utf8.RuneStart(value[end]) {
		end--
	}
	return value[:end]
}
