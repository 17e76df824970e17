package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/partner"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
)

// Each statement for a total must count at most one row more than the maximum total of
// its list.
func TestCounts_HaveTheLimitOfTheirList(t *testing.T) {
	count := func(_, count string) string { return count }
	participant, active := new(affiliate.ParticipantID), new(bool)
	for name, tc := range map[string]struct {
		count    string
		maxTotal int64
	}{
		"a participant's links":            {count(linkListSQL(link.Filter{Participant: participant})), affiliate.MaxTotal},
		"search for links":                 {count(linkListSQL(link.Filter{Search: "a"})), affiliate.MaxSearchTotal},
		"search for a participant's links": {count(linkListSQL(link.Filter{Participant: participant, Search: "a"})), affiliate.MaxSearchTotal},
		"a partner's links":                {count(partnerLinksSQL(nil)), affiliate.MaxTotal},
		"a partner's links in a programme": {count(partnerLinksSQL(new(affiliate.ProgramID))), affiliate.MaxTotal},
		"a participant's promo codes":      {count(promoCodeListSQL(promocode.Filter{Participant: participant})), affiliate.MaxTotal},
		"active promo codes":               {count(promoCodeListSQL(promocode.Filter{Active: active})), affiliate.MaxTotal},
		"search for promo codes":           {count(promoCodeListSQL(promocode.Filter{Active: active, Search: "a"})), affiliate.MaxSearchTotal},
		"a partner's promo codes":          {count(partnerPromoCodesSQL(nil)), affiliate.MaxTotal},
		"programmes":                       {count(programListSQL(program.Filter{})), affiliate.MaxTotal},
		"programmes of a status":           {count(programListSQL(program.Filter{Status: program.Active})), affiliate.MaxTotal},
		"search for programmes":            {count(programListSQL(program.Filter{Search: "a"})), affiliate.MaxSearchTotal},
		"a partner's programmes":           {count(partnerProgramsSQL(partner.ProgramFilter{})), affiliate.MaxTotal},
		"search for public programmes":     {count(partnerProgramsSQL(partner.ProgramFilter{Public: true, Search: "a"})), affiliate.MaxSearchTotal},
		"groups":                           {countGroups, affiliate.MaxTotal},
		"a group's participants":           {countInGroup, affiliate.MaxTotal},
		"a group's participants by status": {countInGroupAndStatus, affiliate.MaxTotal},
		"open invitations of a programme":  {countParticipantInvites, affiliate.MaxTotal},
	} {
		if limit := fmt.Sprintf(" limit %d) counted", tc.maxTotal+1); !strings.HasSuffix(tc.count, limit) {
			t.Errorf("%s: the statement does not end with %q\n%s", name, limit, tc.count)
		}
	}
}
