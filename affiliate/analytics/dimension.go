package analytics

import (
	"unicode/utf8"

	"github.com/tributary-hq/tributary/affiliate/click"
)

// Dimension is a property by which the numbers are broken down. Its text is the value of the
// query parameter groupBy.
type Dimension string

// The dimensions whose values are properties of clicks and conversions. Total is the sum over
// all values.
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

// Values holds a value for each of the dimensions, in the order of the constants that begins
// with Country. A value is empty if the click or conversion has none.
type Values [len(dimensions)]string

// The indexes of the values that are not those of the click.
const (
	subIDIndex     = 9
	promoCodeIndex = 10
	eventTypeIndex = 11
)

// HasClicks reports whether the values of the dimension are properties of clicks. The clicks
// do not appear in the breakdowns by the other dimensions.
func (d Dimension) HasClicks() bool { return d != PromoCode && d != EventType }

// ErasedDimensions returns the dimensions whose values an erasure of a participant removes from
// clicks. An erasure of the workspace removes the values of all dimensions.
func ErasedDimensions(workspace bool) []Dimension {
	if workspace {
		return clickDimensions[:]
	}
	return []Dimension{Referrer, LandingPage, UTMSource, UTMMedium, UTMCampaign, SubID}
}

// maxValue is the length to which long values are cut, in bytes. In ClickLog a byte holds the
// length.
const maxValue = 255

// ClickValues returns the values of a click.
func ClickValues(c *click.Click) Values {
	return Values{
		cut(c.Country), cut(c.Device), cut(c.Browser), cut(c.OS), cut(c.ReferrerDomain), cut(c.LandingURL),
		cut(c.UTM.Source), cut(c.UTM.Medium), cut(c.UTM.Campaign), cut(c.SubID),
	}
}

// cut shortens a value to maxValue bytes of whole characters.
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
