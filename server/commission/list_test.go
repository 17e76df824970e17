package commission_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (m *merchant) list(t *testing.T, req *affiliatev1.ListCommissionsRequest) *affiliatev1.ListCommissionsResponse {
	t.Helper()
	got, err := m.w.service.ListCommissions(m.call(), req)
	if err != nil {
		t.Fatalf("%v: %v", req, err)
	}
	return got
}

func idsOf(items []*affiliatev1.CommissionListItem) []string {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.GetId()
	}
	return ids
}

// stocked returns a merchant with 60 different commissions in two programmes. Another
// workspace and the merchant's other mode have 60 each, which no list may contain.
func stocked(t *testing.T) (*merchant, affiliate.ProgramID) {
	t.Helper()
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	second := m.newProgram("Beta")
	for i, owner := range []*merchant{m, w.merchant(affiliate.ModeLive), m.other()} {
		programs := []affiliate.ProgramID{owner.program, owner.program}
		if i == 0 {
			programs[1] = second
		}
		partners := []partner{
			owner.partner(programs[0], "anna Zweig", fmt.Sprintf("anna%d@example.com", i)),
			owner.partner(programs[1], "Bert_100%", fmt.Sprintf("bert%d@example.org", i)),
			owner.partner(programs[0], "Ännchen", fmt.Sprintf("x.y%d@example.net", i)),
		}
		for n := range 60 {
			columns := map[string]any{
				// Four commissions have the same time, so that the order needs a tie-break.
				"created_at":      w.now().Add(-time.Duration(n/4) * 6 * time.Hour),
				"amount_cents":    (n * 7) % 10, // ties here too
				"status":          []string{"pending", "approved", "rejected", "paid", "refunded"}[n%5],
				"needs_review":    n%6 == 0,
				"promo_code":      nil,
				"commission_type": "percentage",
			}
			if n%3 == 0 {
				columns["commission_type"], columns["rate_bps"], columns["flat_amount_cents"] = "flat", nil, 500
			}
			if n%10 == 0 {
				columns["promo_code"] = fmt.Sprintf("summer%d", n)
			}
			id := owner.commission(partners[n%3], columns)
			w.Exec(`update commissions set external_transaction_id = $2 where id = $1`, id, fmt.Sprintf("INV-%02d", n))
		}
	}
	return m, second
}

func TestList_PagesEachRowOnceInEveryOrder(t *testing.T) {
	m, _ := stocked(t)
	all := m.list(t, &affiliatev1.ListCommissionsRequest{PageSize: proto.Int32(100)})
	if len(all.GetData()) != 60 || all.GetTotal() != 60 || all.GetPage() != 1 || all.GetLimit() != 100 {
		t.Fatalf("%d rows, total %d, page %d, limit %d", len(all.GetData()), all.GetTotal(), all.GetPage(), all.GetLimit())
	}
	newest := func(a, b *affiliatev1.CommissionListItem) int {
		return cmp.Or(b.GetCreatedAt().AsTime().Compare(a.GetCreatedAt().AsTime()), cmp.Compare(b.GetId(), a.GetId()))
	}
	if !slices.IsSortedFunc(all.GetData(), newest) {
		t.Error("the default order is not newest first")
	}
	word := func(e protoreflect.Enum) string { return string(e.Descriptor().Values().ByNumber(e.Number()).Name()) }
	flag := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	for by, compare := range map[string]func(a, b *affiliatev1.CommissionListItem) int{
		"createdAt": func(a, b *affiliatev1.CommissionListItem) int {
			return a.GetCreatedAt().AsTime().Compare(b.GetCreatedAt().AsTime())
		},
		"amountCents": func(a, b *affiliatev1.CommissionListItem) int {
			return cmp.Compare(a.GetAmountCents(), b.GetAmountCents())
		},
		"status": func(a, b *affiliatev1.CommissionListItem) int {
			return cmp.Compare(word(a.GetStatus()), word(b.GetStatus()))
		},
		"commissionType": func(a, b *affiliatev1.CommissionListItem) int {
			return cmp.Compare(word(b.GetCommissionType()), word(a.GetCommissionType())) * -1
		},
		"needsReview": func(a, b *affiliatev1.CommissionListItem) int {
			return flag(a.GetNeedsReview()) - flag(b.GetNeedsReview())
		},
		"partnerName": func(a, b *affiliatev1.CommissionListItem) int {
			return cmp.Compare(strings.ToLower(a.GetPartnerName()), strings.ToLower(b.GetPartnerName()))
		},
	} {
		for _, order := range []affiliatev1.SortOrder{affiliatev1.SortOrder_SORT_ORDER_UNSPECIFIED, affiliatev1.SortOrder_SORT_ORDER_ASC, affiliatev1.SortOrder_SORT_ORDER_DESC} {
			sign := -1
			if order == affiliatev1.SortOrder_SORT_ORDER_ASC {
				sign = 1
			}
			want := slices.SortedFunc(slices.Values(all.GetData()), func(a, b *affiliatev1.CommissionListItem) int {
				return cmp.Or(sign*compare(a, b), newest(a, b))
			})
			var got []string
			for page := int32(1); page <= 10; page++ {
				part := m.list(t, &affiliatev1.ListCommissionsRequest{SortBy: &by, SortOrder: order, Page: &page, PageSize: proto.Int32(7)})
				if part.GetTotal() != 60 || part.GetPage() != page || part.GetLimit() != 7 {
					t.Errorf("page %d: total %d, page %d, limit %d", page, part.GetTotal(), part.GetPage(), part.GetLimit())
				}
				got = append(got, idsOf(part.GetData())...)
			}
			if !slices.Equal(got, idsOf(want)) {
				t.Errorf("by %s %s: pages do not add up to the sorted list", by, order)
			}
		}
	}
	// An empty page after the end must still have the total.
	for page, size := range map[int32]int32{4: 20, 3: 30, 2: 60, 9: 100} {
		if got := m.list(t, &affiliatev1.ListCommissionsRequest{Page: &page, PageSize: &size}); got.GetTotal() != 60 || len(got.GetData()) != 0 {
			t.Errorf("page %d of size %d: %d rows, total %d", page, size, len(got.GetData()), got.GetTotal())
		}
	}
}

func TestList_Filters(t *testing.T) {
	m, second := stocked(t)
	everything := m.list(t, &affiliatev1.ListCommissionsRequest{PageSize: proto.Int32(100)}).GetData()
	type item = *affiliatev1.CommissionListItem
	from, to := "2026-02-24", "2026-02-27"
	instant := m.w.now().Add(-6 * time.Hour)
	sharp := affiliate.FormatTime(instant)
	both := func(tests ...func(item) bool) func(item) bool {
		return func(i item) bool {
			for _, test := range tests {
				if !test(i) {
					return false
				}
			}
			return true
		}
	}
	pending := func(i item) bool { return i.GetStatus() == affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING }
	flagged := func(i item) bool { return i.GetNeedsReview() }
	inDays := func(i item) bool {
		day := i.GetCreatedAt().AsTime().Format(time.DateOnly)
		return from <= day && day <= to
	}
	inSecond := func(i item) bool { return i.GetProgramId() == second.String() }
	searching := func(prefix string) func(item) bool {
		prefix = strings.ToLower(prefix)
		return func(i item) bool {
			for _, text := range []string{i.GetPartnerName(), i.GetPartnerEmail(), i.GetExternalTransactionId(), i.GetPromoCode(), i.GetId()} {
				if strings.HasPrefix(strings.ToLower(text), prefix) {
					return true
				}
			}
			return false
		}
	}
	some := everything[33]
	type request = affiliatev1.ListCommissionsRequest
	cases := map[string]struct {
		req  *request
		want func(item) bool
	}{
		"status":      {&request{Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING}, pending},
		"flagged":     {&request{NeedsReview: proto.Bool(true)}, flagged},
		"not flagged": {&request{NeedsReview: proto.Bool(false)}, func(i item) bool { return !flagged(i) }},
		"days":        {&request{DateFrom: &from, DateTo: &to}, inDays},
		"from":        {&request{DateFrom: &from}, func(i item) bool { return i.GetCreatedAt().AsTime().Format(time.DateOnly) >= from }},
		"one instant": {&request{DateFrom: &sharp, DateTo: &sharp}, func(i item) bool { return i.GetCreatedAt().AsTime().Equal(instant) }},
		"a day in another zone": {&request{DateFrom: &to, DateTo: &to, Timezone: proto.String("America/New_York")}, func(i item) bool {
			return i.GetCreatedAt().AsTime().Add(-5*time.Hour).Format(time.DateOnly) == to
		}},
		"programme": {&request{ProgramId: proto.String(second.String())}, inSecond},
		"all at once": {&request{
			Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING, NeedsReview: proto.Bool(false), DateFrom: &from,
			ProgramId: proto.String(second.String()), Search: proto.String("bert"),
		}, both(pending, inSecond, func(i item) bool { return !flagged(i) && i.GetCreatedAt().AsTime().Format(time.DateOnly) >= from })},
		"search and status":  {&request{Search: proto.String("anna"), Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING}, both(pending, searching("anna"))},
		"empty search":       {&request{Search: proto.String("")}, func(item) bool { return true }},
		"nothing":            {&request{Search: proto.String("nobody")}, func(item) bool { return false }},
		"a middle":           {&request{Search: proto.String("zweig")}, func(item) bool { return false }},
		"any character":      {&request{Search: proto.String("%")}, func(item) bool { return false }},
		"one character":      {&request{Search: proto.String("_nna")}, func(item) bool { return false }},
		"a backslash":        {&request{Search: proto.String(`\`)}, func(item) bool { return false }},
		"too long for an id": {&request{Search: proto.String(some.GetId() + "0")}, func(item) bool { return false }},
		"an id that is none": {&request{Search: proto.String("0192-")}, func(item) bool { return false }},
	}
	for _, prefix := range []string{
		"ANNA", "anna z", "bert_100%", "BERT_100", "änn", "ÄNN", "x.y0@", "inv-0", "INV-07", "Summer", "summer3", "a", "0",
		some.GetId(), strings.ToUpper(some.GetId()), some.GetId()[:20], some.GetId()[:9], some.GetId()[:8],
	} {
		cases["search "+prefix] = struct {
			req  *request
			want func(item) bool
		}{&request{Search: &prefix}, searching(prefix)}
	}
	for name, c := range cases {
		var want []string
		for _, i := range everything {
			if c.want(i) {
				want = append(want, i.GetId())
			}
		}
		c.req.PageSize = proto.Int32(100)
		got := m.list(t, c.req)
		if !slices.Equal(idsOf(got.GetData()), want) || got.GetTotal() != int64(len(want)) {
			t.Errorf("%s: %d rows, total %d, want %d", name, len(got.GetData()), got.GetTotal(), len(want))
		}
		if c.req.PageSize = proto.Int32(3); len(want) > 3 {
			if got := m.list(t, c.req); got.GetTotal() != int64(len(want)) || !slices.Equal(idsOf(got.GetData()), want[:3]) {
				t.Errorf("%s: a short page has total %d, want %d", name, got.GetTotal(), len(want))
			}
		}
	}

	byPath, err := m.w.service.ListProgramCommissions(m.call(), &affiliatev1.ListProgramCommissionsRequest{ProgramId: second.String(), NeedsReview: proto.Bool(false)})
	if err != nil {
		t.Fatal(err)
	}
	byQuery := m.list(t, &request{ProgramId: proto.String(second.String()), NeedsReview: proto.Bool(false)})
	if !proto.Equal(byPath, byQuery) || byPath.GetTotal() == 0 {
		t.Error("the programme's list and the narrowed list differ")
	}
}

func TestCommissions_OfOtherScopesAreNotFound(t *testing.T) {
	w := newWorld(t)
	mine, foreign := w.merchant(affiliate.ModeLive), w.merchant(affiliate.ModeLive)
	test := mine.other()
	second := mine.newProgram("Beta")
	ids := map[*merchant]affiliate.CommissionID{}
	for _, m := range []*merchant{mine, foreign, test} {
		ids[m] = m.commission(m.somePartner(), nil)
	}
	for _, m := range []*merchant{mine, foreign, test} {
		if got := m.list(t, &affiliatev1.ListCommissionsRequest{}); got.GetTotal() != 1 || got.GetData()[0].GetId() != ids[m].String() {
			t.Errorf("%v sees %d commissions", m.scope, got.GetTotal())
		}
	}

	for _, c := range []struct {
		name    string
		program string
		want    affiliate.Reason
	}{
		{"its own", mine.program.String(), ""},
		{"another workspace's", foreign.program.String(), affiliate.ReasonForbidden},
		{"its own of the other mode", test.program.String(), affiliate.ReasonNotFound},
		{"an unknown one", affiliate.NewID[affiliate.Program](w.now()).String(), affiliate.ReasonNotFound},
	} {
		_, err := w.service.ListProgramCommissions(mine.call(), &affiliatev1.ListProgramCommissionsRequest{ProgramId: c.program})
		if reason := pgtest.ReasonOf(t, err); reason != c.want {
			t.Errorf("list of %s programme: %q, want %q", c.name, reason, c.want)
		}
		_, err = w.service.ListCommissions(mine.call(), &affiliatev1.ListCommissionsRequest{ProgramId: &c.program})
		if reason := pgtest.ReasonOf(t, err); reason != c.want {
			t.Errorf("list narrowed to %s programme: %q, want %q", c.name, reason, c.want)
		}
		_, err = w.service.GetProgramCommissionStats(mine.call(), &affiliatev1.GetProgramCommissionStatsRequest{ProgramId: c.program})
		if reason := pgtest.ReasonOf(t, err); reason != c.want {
			t.Errorf("stats of %s programme: %q, want %q", c.name, reason, c.want)
		}
		_, err = w.service.GetCommissionStats(mine.call(), &affiliatev1.GetCommissionStatsRequest{ProgramId: &c.program})
		if reason := pgtest.ReasonOf(t, err); reason != c.want {
			t.Errorf("stats narrowed to %s programme: %q, want %q", c.name, reason, c.want)
		}
		byPath, byQuery := &download{ctx: mine.call()}, &download{ctx: mine.call()}
		err = w.service.ExportProgramCommissions(&affiliatev1.ExportProgramCommissionsRequest{ProgramId: c.program}, byPath)
		if reason := pgtest.ReasonOf(t, err); reason != c.want || reason != "" && byPath.header != nil {
			t.Errorf("export of %s programme: %q, want %q", c.name, reason, c.want)
		}
		err = w.service.ExportCommissions(&affiliatev1.ExportCommissionsRequest{ProgramId: &c.program}, byQuery)
		if reason := pgtest.ReasonOf(t, err); reason != c.want || byPath.text() != byQuery.text() {
			t.Errorf("export narrowed to %s programme: %q, want %q", c.name, reason, c.want)
		}
	}
	_, err := w.service.ListProgramCommissions(mine.call(), &affiliatev1.ListProgramCommissionsRequest{ProgramId: "alpha"})
	if reason := pgtest.ReasonOf(t, err); reason != affiliate.ReasonNotFound {
		t.Errorf("list of a programme that is no id: %q", reason)
	}

	for _, c := range []struct{ name, program, id string }{
		{"another workspace's", foreign.program.String(), ids[foreign].String()},
		{"another workspace's under an own programme", mine.program.String(), ids[foreign].String()},
		{"an own one under another workspace's programme", foreign.program.String(), ids[mine].String()},
		{"an own one under another own programme", second.String(), ids[mine].String()},
		{"an own one of the other mode", test.program.String(), ids[test].String()},
		{"an unknown one", mine.program.String(), affiliate.NewID[affiliate.Commission](w.now()).String()},
		{"no id", mine.program.String(), "1"},
		{"no programme's id", "1", ids[mine].String()},
		{"an id in braces", mine.program.String(), "{" + ids[mine].String() + "}"},
	} {
		_, get := w.service.GetCommission(mine.call(), &affiliatev1.GetCommissionRequest{ProgramId: c.program, CommissionId: c.id})
		_, approve := w.service.ApproveCommission(mine.call(), &affiliatev1.ApproveCommissionRequest{ProgramId: c.program, CommissionId: c.id})
		_, reject := w.service.RejectCommission(mine.call(), &affiliatev1.RejectCommissionRequest{ProgramId: c.program, CommissionId: c.id})
		_, early := w.service.ApproveCommissionEarly(mine.call(), &affiliatev1.ApproveCommissionEarlyRequest{ProgramId: c.program, CommissionId: c.id, Reason: "x"})
		_, cleared := w.service.ClearCommissionReview(mine.call(), &affiliatev1.ClearCommissionReviewRequest{ProgramId: c.program, CommissionId: c.id})
		for call, err := range map[string]error{"get": get, "approve": approve, "reject": reject, "approve early": early, "clear review": cleared} {
			if reason := pgtest.ReasonOf(t, err); reason != affiliate.ReasonNotFound {
				t.Errorf("%s of %s: %q", call, c.name, reason)
			}
		}
	}
	for m, id := range ids {
		if path := w.path(id); path != "pending" {
			t.Errorf("%v: %s", m.scope, path)
		}
	}
}

func TestCommissions_MaskAddressesForViewers(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	p := m.partner(m.program, "Paula", "secret.paula@example.com")
	id := m.commission(p, nil)
	for role, want := range map[affiliate.Role]string{
		affiliate.RoleOwner: "secret.paula@example.com", affiliate.RoleDeveloper: "secret.paula@example.com",
		affiliate.RoleViewer: affiliate.MaskEmail("secret.paula@example.com"),
	} {
		list, err := w.service.ListCommissions(m.as(role), &affiliatev1.ListCommissionsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		detail, err := w.service.GetCommission(m.as(role), &affiliatev1.GetCommissionRequest{ProgramId: m.program.String(), CommissionId: id.String()})
		if err != nil {
			t.Fatal(err)
		}
		if list.GetData()[0].GetPartnerEmail() != want || detail.GetPartnerEmail() != want {
			t.Errorf("a %s sees %q and %q", role, list.GetData()[0].GetPartnerEmail(), detail.GetPartnerEmail())
		}
		for search, found := range map[string]int64{"secret.": 1, "paula": 1} {
			if role == affiliate.RoleViewer && search == "secret." {
				found = 0
			}
			list, err := w.service.ListCommissions(m.as(role), &affiliatev1.ListCommissionsRequest{Search: &search})
			if err != nil || list.GetTotal() != found {
				t.Errorf("a %s finds %d by %q, want %d (%v)", role, list.GetTotal(), search, found, err)
			}
		}
	}
}

func TestGetCommission_ReturnsOrigin(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeTest)
	by := affiliate.NewID[affiliate.User](w.now())
	id := m.commission(m.somePartner(), map[string]any{
		"status": "approved", "override_reason": "an old partner", "override_by": by, "amount_cents": 150,
		"fx_rate": "1.0825", "fx_date": "2026-02-27", "recurring_index": 2, "dispute_status": "won",
	})
	got, err := w.service.GetCommission(m.call(), &affiliatev1.GetCommissionRequest{ProgramId: m.program.String(), CommissionId: id.String()})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetOverrideReason() != "an old partner" || got.GetOverrideBy() != by.String() || got.GetReversedAmountCents() != 50 ||
		got.GetFxDate() != "2026-02-27" || got.GetRecurringIndex() != 2 || got.GetMode() != affiliatev1.Mode_MODE_TEST ||
		got.GetDisputeStatus() != affiliatev1.DisputeStatus_DISPUTE_STATUS_WON || got.GetProgramName() != "Alpha" || got.GetPartnerName() != "Some Body" {
		t.Errorf("%v", got)
	}
	if r := got.GetRuleSnapshot(); r.GetVersion() != 2 || r.GetRules().GetPercentage() != 20 || r.GetRules().FlatAmountCents != nil ||
		r.GetRules().GetHoldPeriodDays() != 30 || !r.GetRules().GetAutoApproval() || r.GetRules().GetNetBasis() != affiliatev1.NetBasis_NET_BASIS_GROSS {
		t.Errorf("rules %v", r)
	}
	if a := got.GetAttribution(); a.GetDecisionId() == "" || a.GetMethod() != "click" || a.GetReasonCode() != "CLICK_MATCHED" || a.GetExplanation() != "A click." || a.GetClickedAt() == nil || a.ExpiresAt != nil {
		t.Errorf("attribution %v", a)
	}
	if h := got.GetHistory(); len(h) != 1 || h[0].GetFrom() != affiliatev1.CommissionStatus_COMMISSION_STATUS_UNSPECIFIED || h[0].GetActor() != "system" {
		t.Errorf("history %v", h)
	}
}

func TestListItem_HasFieldsOfDetail(t *testing.T) {
	item := (&affiliatev1.CommissionListItem{}).ProtoReflect().Descriptor().Fields()
	full := (&affiliatev1.Commission{}).ProtoReflect().Descriptor().Fields()
	for i := range item.Len() {
		a := item.Get(i)
		b := full.ByNumber(a.Number())
		if b == nil || a.Name() != b.Name() || a.JSONName() != b.JSONName() || a.Kind() != b.Kind() || a.Cardinality() != b.Cardinality() ||
			a.HasPresence() != b.HasPresence() || a.Enum() != b.Enum() || a.Message() != b.Message() {
			t.Errorf("field %d: %v in the list, %v in the detail", a.Number(), a, b)
		}
	}
	var more []string
	for i := range full.Len() {
		if f := full.Get(i); item.ByNumber(f.Number()) == nil {
			more = append(more, string(f.Name()))
		}
	}
	if got := strings.Join(more, " "); got != "override_reason override_by rule_snapshot attribution history" {
		t.Errorf("only the detail has: %s", got)
	}
}

func TestCheck_RejectsInvalidFilters(t *testing.T) {
	w := newWorld(t)
	bad := &affiliatev1.ListCommissionsRequest{DateFrom: proto.String("soon"), DateTo: proto.String("later"), Timezone: proto.String("Moon")}
	var fields []string
	for _, v := range w.service.Check(bad) {
		fields = append(fields, v.Field)
	}
	if got := strings.Join(fields, " "); got != "timezone date_from date_to" {
		t.Errorf("wrong: %s", got)
	}
	backwards := &affiliatev1.ListProgramCommissionsRequest{DateFrom: proto.String("2026-03-02"), DateTo: proto.String("2026-03-01")}
	if got := w.service.Check(backwards); len(got) != 1 || got[0].Field != "date_to" {
		t.Errorf("wrong: %v", got)
	}
	if got := w.service.Check(&affiliatev1.GetCommissionRequest{}); got != nil {
		t.Errorf("a detail has no dates: %v", got)
	}
	for field, req := range map[string]proto.Message{
		"date_from":  &affiliatev1.GetCommissionStatsRequest{DateFrom: proto.String("x")},
		"status":     &affiliatev1.GetProgramCommissionStatsRequest{Status: 9},
		"date_to":    &affiliatev1.ExportCommissionsRequest{DateTo: proto.String("x")},
		"sort_order": &affiliatev1.ExportProgramCommissionsRequest{SortOrder: 9},
		"code":       &affiliatev1.BulkRejectCommissionsRequest{Code: 99},
		"timezone":   &affiliatev1.ListProgramCommissionsRequest{Timezone: proto.String("Moon")},
	} {
		if got := w.service.Check(req); len(got) != 1 || got[0].Field != field {
			t.Errorf("%T: %v, want %s", req, got, field)
		}
	}
	m := w.merchant(affiliate.ModeLive)
	_, err := w.service.ListCommissions(m.call(), bad)
	if reason := pgtest.ReasonOf(t, err); reason != affiliate.ReasonValidation {
		t.Errorf("without the interceptor: %q", reason)
	}
}
