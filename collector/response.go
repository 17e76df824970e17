package collector

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

const (
	// unknownWindowCookieAge is the maximum age of the cookie if the attribution window
	// is not known because the directory cannot be read.
	unknownWindowCookieAge = 30 * 24 * time.Hour
	// maxCookieAge is the longest age that browsers accept.
	maxCookieAge = 400 * 24 * time.Hour
)

// appendResponse appends the JSON body of the response to a click. The order of its
// fields never changes. codeEntry is nil if the referral code could not be looked up.
func appendResponse(dst []byte, issued *issuedClick, mode affiliate.Mode, codeEntry *edgev1.ReferralCodeEntry, repeated bool, now time.Time) []byte {
	dst = append(dst, `{"click_id":"`...)
	dst = appendUUID(dst, issued.id.UUID)
	dst = append(dst, `","program_id":`...)
	if codeEntry == nil {
		dst = append(dst, "null"...)
	} else {
		program, _ := affiliate.IDFromBytes[affiliate.ProgramID](codeEntry.ProgramId)
		dst = append(dst, '"')
		dst = appendUUID(dst, program.UUID)
		dst = append(dst, '"')
	}
	dst = append(dst, `,"mode":"`...)
	dst = append(dst, mode...)
	dst = append(dst, `","recorded":true,"deduplicated":`...)
	dst = strconv.AppendBool(dst, repeated)
	dst = append(dst, `,"expires_at":`...)
	if codeEntry == nil {
		dst = append(dst, `null,"attribution_window_days":null`...)
	} else {
		days := int(codeEntry.AttributionWindowDays)
		dst = append(dst, '"')
		dst = appendMillis(dst, click.WindowEnd(issued.receivedAt, days))
		dst = append(dst, `","attribution_window_days":`...)
		dst = strconv.AppendInt(dst, int64(days), 10)
	}
	dst = append(dst, `,"cookie_max_age":`...)
	dst = strconv.AppendInt(dst, int64(cookieAge(codeEntry)/time.Second), 10)
	dst = append(dst, `,"attribution_model":`...)
	dst = appendQuoted(dst, codeEntry.GetAttributionModel(), codeEntry.GetAttributionModel() != "")
	dst = append(dst, `,"discount":`...)
	dst = appendDiscount(dst, codeEntry.GetDiscount(), now)
	return append(dst, "}\n"...)
}

// appendDiscount appends the discount that a landing page may offer, or null. It checks
// the expiry time of the promo code, because the core may not have updated the directory
// since the promo code expired.
func appendDiscount(dst []byte, d *edgev1.Discount, now time.Time) []byte {
	if d == nil || d.ExpiresAtMs != 0 && now.UnixMilli() > d.ExpiresAtMs {
		return append(dst, "null"...)
	}
	fixed := d.Type == string(promocode.DiscountFixed)
	dst = append(dst, `{"promo_code":`...)
	dst = appendText(dst, d.PromoCode)
	dst = append(dst, `,"type":`...)
	dst = appendText(dst, d.Type)
	dst = append(dst, `,"value":`...)
	if fixed {
		dst = strconv.AppendInt(dst, d.Value, 10)
		dst = append(dst, `,"currency":`...)
		dst = appendText(dst, d.Currency)
	} else {
		dst = append(dst, program.Percent(d.Value)...)
	}
	return append(dst, '}')
}

// appendText appends text as a JSON string with all necessary escapes.
func appendText(dst []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // Marshal cannot fail for a string
	return append(dst, quoted...)
}

func appendUUID(dst []byte, id uuid.UUID) []byte {
	for i, part := range [][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}

// appendMillis appends a time in the form 2006-01-02T15:04:05.000Z. It formats the time
// with time.RFC3339 and then inserts the milliseconds. A layout with milliseconds would
// take three times as long, because the time package is optimised for time.RFC3339.
func appendMillis(dst []byte, at time.Time) []byte {
	dst = at.UTC().AppendFormat(dst, time.RFC3339)
	ms := at.Nanosecond() / int(time.Millisecond)
	return append(dst[:len(dst)-len("Z")], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// appendQuoted appends text in quotes, or null if present is false. text must not contain
// characters that JSON escapes.
func appendQuoted(dst []byte, text string, present bool) []byte {
	if !present {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"')
}
