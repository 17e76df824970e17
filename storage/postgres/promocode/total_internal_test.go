package promocode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/promocode"
)

// Each statement for a total counts at most one row more than the maximum total of its list.
func TestPromoCodes_CountsHaveALimit(t *testing.T) {
	count := func(_, count string) string { return count }
	for name, tc := range map[string]struct {
		count    string
		maxTotal int64
	}{
		"a participant's promo codes": {count(promoCodeListSQL(promocode.Filter{Participant: new(affiliate.ParticipantID)})), affiliate.MaxTotal},
		"active promo codes":          {count(promoCodeListSQL(promocode.Filter{Active: new(bool)})), affiliate.MaxTotal},
		"search for promo codes":      {count(promoCodeListSQL(promocode.Filter{Active: new(bool), Search: "a"})), affiliate.MaxSearchTotal},
		"a partner's promo codes":     {count(partnerPromoCodesSQL(nil)), affiliate.MaxTotal},
	} {
		if limit := fmt.Sprintf(" limit %d) counted", tc.maxTotal+1); !strings.HasSuffix(tc.count, limit) {
			t.Errorf("%s: the statement does not end with %q\n%s", name, limit, tc.count)
		}
	}
}
