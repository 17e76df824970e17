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
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func idsOf(items []*affiliatev1.CommissionListItem) []string {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.GetId()
	}
	return ids
}

// newFixtureWithCommissions returns a fixture with 60 different commissions, and the id
// of a second programme. The commissions are in the shop's programme and in the second
// one. Another workspace and the other mode also have commissions. No list may contain
// these.
func newFixtureWithCommissions(t *testing.T) (f *fixture, second affiliate.ProgramID) {
	t.Helper()
	f = newFixture(t, affiliate.ModeLive)
	second = f.NewProgram(f.Scope, pgtest.Row{"name": "Beta"})
	f.createCommissions(60, second)
	for _, other := range []*pgtest.Shop{f.NewShop(affiliate.ModeLive), f.InOtherMode()} {
		f.in(other).createCommissions(12, other.Program)
	}
	return f, second
}

// createCommissions creates n commissions that differ in the columns that lists sort and
// filter by. A third of the commissions is in the second programme.
func (f *fixture) createCommissions(n int, second affiliate.ProgramID) {
	f.Helper()
	join := func(program affiliate.ProgramID, name, email string) pgtest.Participant {
		email += f.Program.String() + "@example.com" // email addresses must be unique
		return f.NewParticipant(f.Scope, program, f.NewPartner(name, pgtest.Row{"email": email}))
	}
	participants := []pgtest.Participant{
		join(f.Program, "anna Zweig", "anna"), join(second, "Bert_100%", "bert"), join(f.Program, "Ännchen", "x.y"),
	}
	statuses := []commission.Status{
		commission.Pending, commission.Approved, commission.Rejected, commission.Paid, commission.Refunded,
	}
	for i := range n {
		f.NewCommission(participants[i%3], func(c *commission.Commission) {
			// Each group of four commissions has the same creation time. A list sorts
			// these four by id.
			c.CreatedAt = f.Now().Add(-time.Duration(i/4) * 6 * time.Hour)
			c.AmountCents = int64(i * 7 % 10)
			c.Status, c.NeedsReview = statuses[i%5], i%6 == 0
			c.ExternalTransactionID = fmt.Sprintf("INV-%02d", i)
			if i%3 == 0 {
				c.Type, c.RateBps, c.FlatCents = program.Flat, nil, new(int64(500))
			}
			if i%10 == 0 {
				c.PromoCode = new(fmt.Sprintf("summer%d", i))
			}
		})
	}
}

func TestList_PagesHaveEachRowOnceInEveryOrder(t *testing.T) {
	f, _ := newFixtureWithCommissions(t)
	all := f.list(&affiliatev1.ListCommissionsRequest{PageSize: new(int32(100))})
	if len(all.GetData()) != 60 || all.GetTotal() != 60 || all.GetPage() != 1 || all.GetLimit() != 100 {
		t.Fatalf("ListCommissions returned %d rows, total %d, page %d, limit %d, want 60 rows, total 60, page 1, limit 100",
			len(all.GetData()), all.GetTotal(), all.GetPage(), all.GetLimit())
	}
	newest := func(a, b *affiliatev1.CommissionListItem) int {
		return cmp.Or(b.GetCreatedAt().AsTime().Compare(a.GetCreatedAt().AsTime()), cmp.Compare(b.GetId(), a.GetId()))
	}
	if !slices.IsSortedFunc(all.GetData(), newest) {
		t.Errorf("the default order is %v, want newest first", idsOf(all.GetData()))
	}
	nameOf := func(e protoreflect.Enum) string { return string(e.Descriptor().Values().ByNumber(e.Number()).Name()) }
	toInt := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	for sortBy, compare := range map[string]func(a, b *affiliatev1.CommissionListItem) int{
		"createdAt": func(a, b *affiliatev1.CommissionListItem) int {
			return a.GetCreatedAt().AsTime().Compare(b.GetCreatedAt().AsTime())
		},
		"amountCents": func(a, b *affiliatev1.CommissionListItem) int {
			return cmp.Compare(a.GetAmountCents(), b.GetAmountCents())
		},
		"status": func(a, b *affiliatev1.CommissionListItem) int {
			return cmp.Compare(nameOf(a.GetStatus()), nameOf(b.GetStatus()))
		},
		"commissionType": func(a, b *affiliatev1.CommissionListItem) int {
			return cmp.Compare(nameOf(a.GetCommissionType()), nameOf(b.GetCommissionType()))
		},
		"needsReview": func(a, b *affiliatev1.CommissionListItem) int {
			return toInt(a.GetNeedsReview()) - toInt(b.GetNeedsReview())
		},
		"partnerName": func(a, b *affiliatev1.CommissionListItem) int {
			return cmp.Compare(strings.ToLower(a.GetPartnerName()), strings.ToLower(b.GetPartnerName()))
		},
	} {
		for order, sign := range map[affiliatev1.SortOrder]int{
			affiliatev1.SortOrder_SORT_ORDER_UNSPECIFIED: -1, affiliatev1.SortOrder_SORT_ORDER_ASC: 1, affiliatev1.SortOrder_SORT_ORDER_DESC: -1,
		} {
			want := slices.SortedFunc(slices.Values(all.GetData()), func(a, b *affiliatev1.CommissionListItem) int {
				return cmp.Or(sign*compare(a, b), newest(a, b))
			})
			var got []string
			for page := int32(1); page <= 10; page++ {
				part := f.list(&affiliatev1.ListCommissionsRequest{SortBy: &sortBy, SortOrder: order, Page: &page, PageSize: new(int32(7))})
				if part.GetTotal() != 60 || part.GetPage() != page || part.GetLimit() != 7 {
					t.Errorf("ListCommissions returned total %d, page %d, limit %d, want total 60, page %d, limit 7",
						part.GetTotal(), part.GetPage(), part.GetLimit(), page)
				}
				got = append(got, idsOf(part.GetData())...)
			}
			if !slices.Equal(got, idsOf(want)) {
				t.Errorf("all pages of the list sorted by %s with %s contain\n%v, want\n%v", sortBy, order, got, idsOf(want))
			}
		}
	}
	for page, size := range map[int32]int32{4: 20, 3: 30, 2: 60, 9: 100} {
		if got := f.list(&affiliatev1.ListCommissionsRequest{Page: &page, PageSize: &size}); got.GetTotal() != 60 || len(got.GetData()) != 0 {
			t.Errorf("page %d of size %d has %d rows, total %d, want no rows, total 60", page, size, len(got.GetData()), got.GetTotal())
		}
	}
}

func TestList_Filters(t *testing.T) {
	f, second := newFixtureWithCommissions(t)
	all := f.list(&affiliatev1.ListCommissionsRequest{PageSize: new(int32(100))}).GetData()
	type item = *affiliatev1.CommissionListItem
	from, to := "2026-02-24", "2026-02-27"
	instant := f.Now().Add(-6 * time.Hour)
	instantText := affiliate.FormatTime(instant)
	and := func(tests ...func(item) bool) func(item) bool {
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
	inSecondProgram := func(i item) bool { return i.GetProgramId() == second.String() }
	matchesSearch := func(prefix string) func(item) bool {
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
	some := all[33]
	type request = affiliatev1.ListCommissionsRequest
	cases := map[string]struct {
		req  *request
		want func(item) bool
	}{
		"status":              {&request{Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING}, pending},
		"needs review":        {&request{NeedsReview: new(true)}, flagged},
		"needs no review":     {&request{NeedsReview: new(false)}, func(i item) bool { return !flagged(i) }},
		"from a day to a day": {&request{DateFrom: &from, DateTo: &to}, inDays},
		"from a day":          {&request{DateFrom: &from}, func(i item) bool { return i.GetCreatedAt().AsTime().Format(time.DateOnly) >= from }},
		"one instant":         {&request{DateFrom: &instantText, DateTo: &instantText}, func(i item) bool { return i.GetCreatedAt().AsTime().Equal(instant) }},
		"day in another time zone": {&request{DateFrom: &to, DateTo: &to, Timezone: new("America/New_York")}, func(i item) bool {
			return i.GetCreatedAt().AsTime().Add(-5*time.Hour).Format(time.DateOnly) == to
		}},
		"one programme": {&request{ProgramId: new(second.String())}, inSecondProgram},
		"several filters": {&request{
			Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING, NeedsReview: new(false), DateFrom: &from,
			ProgramId: new(second.String()), Search: new("bert"),
		}, and(pending, inSecondProgram, func(i item) bool { return !flagged(i) && i.GetCreatedAt().AsTime().Format(time.DateOnly) >= from })},
		"search and status":           {&request{Search: new("anna"), Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING}, and(pending, matchesSearch("anna"))},
		"empty search":                {&request{Search: new("")}, func(item) bool { return true }},
		"search without result":       {&request{Search: new("nobody")}, func(item) bool { return false }},
		"search for middle of a name": {&request{Search: new("zweig")}, func(item) bool { return false }},
		"search for a percent sign":   {&request{Search: new("%")}, func(item) bool { return false }},
		"search for an underscore":    {&request{Search: new("_nna")}, func(item) bool { return false }},
		"search for a backslash":      {&request{Search: new(`\`)}, func(item) bool { return false }},
		"search for more than an id":  {&request{Search: new(some.GetId() + "0")}, func(item) bool { return false }},
		"search for unknown id":       {&request{Search: new("0192-")}, func(item) bool { return false }},
	}
	for _, prefix := range []string{
		"ANNA", "anna z", "bert_100%", "BERT_100", "änn", "ÄNN", "x.y0@", "inv-0", "INV-07", "Summer", "summer3", "a", "0",
		some.GetId(), strings.ToUpper(some.GetId()), some.GetId()[:20], some.GetId()[:9], some.GetId()[:8],
	} {
		cases["search "+prefix] = struct {
			req  *request
			want func(item) bool
		}{&request{Search: &prefix}, matchesSearch(prefix)}
	}
	for name, tc := range cases {
		var want []string
		for _, i := range all {
			if tc.want(i) {
				want = append(want, i.GetId())
			}
		}
		for _, size := range []int32{100, 3} {
			tc.req.PageSize = &size
			got := f.list(tc.req)
			wantPage := want[:min(len(want), int(size))]
			if ids := idsOf(got.GetData()); !slices.Equal(ids, wantPage) || got.GetTotal() != int64(len(want)) {
				t.Errorf("%s: ListCommissions with page size %d returned %v, total %d, want %v, total %d", name, size, ids, got.GetTotal(), wantPage, len(want))
			}
		}
	}
}

func TestListProgramCommissions_ReturnsListOfProgramme(t *testing.T) {
	f, second := newFixtureWithCommissions(t)
	got, err := f.service.ListProgramCommissions(f.asOwner(), &affiliatev1.ListProgramCommissionsRequest{ProgramId: second.String(), NeedsReview: new(false)})
	if err != nil {
		t.Fatal(err)
	}
	want := f.list(&affiliatev1.ListCommissionsRequest{ProgramId: new(second.String()), NeedsReview: new(false)})
	if !proto.Equal(got, want) || got.GetTotal() == 0 {
		t.Errorf("ListProgramCommissions returned %v, want the commissions of ListCommissions with the programme as filter: %v", got, want)
	}
}

func TestListCommissions_ReturnsOwnScopeOnly(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	stranger, testMode := f.in(f.NewShop(affiliate.ModeLive)), f.in(f.InOtherMode())
	for name, shop := range map[string]*fixture{"the workspace": f, "another workspace": stranger, "the other mode": testMode} {
		want := shop.NewCommission(shop.Join("Pat")).ID.String()
		got := shop.list(&affiliatev1.ListCommissionsRequest{})
		if ids := idsOf(got.GetData()); !slices.Equal(ids, []string{want}) || got.GetTotal() != 1 {
			t.Errorf("in %s ListCommissions returned %v, total %d, want only %s", name, ids, got.GetTotal(), want)
		}
	}
}

func TestCommissions_RefuseProgrammesOfOtherScopes(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	stranger, testMode := f.NewShop(affiliate.ModeLive), f.InOtherMode()
	for _, shop := range []*pgtest.Shop{f.Shop, stranger, testMode} {
		f.NewCommission(shop.Join("Pat"))
	}
	ctx := f.asOwner()
	for name, tc := range map[string]struct {
		program string
		want    affiliate.Reason
	}{
		"own programme":                  {f.Program.String(), ""},
		"programme of another workspace": {stranger.Program.String(), affiliate.ReasonForbidden},
		"programme of the other mode":    {testMode.Program.String(), affiliate.ReasonNotFound},
		"unknown programme":              {affiliate.NewID[affiliate.ProgramID](f.Now()).String(), affiliate.ReasonNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			requireReason := func(call string, err error) {
				t.Helper()
				if got := pgtest.ReasonOf(t, err); got != tc.want {
					t.Errorf("%s returned the error code %q, want %q", call, got, tc.want)
				}
			}
			_, err := f.service.ListProgramCommissions(ctx, &affiliatev1.ListProgramCommissionsRequest{ProgramId: tc.program})
			requireReason("ListProgramCommissions", err)
			_, err = f.service.ListCommissions(ctx, &affiliatev1.ListCommissionsRequest{ProgramId: &tc.program})
			requireReason("ListCommissions", err)
			_, err = f.service.GetProgramCommissionStats(ctx, &affiliatev1.GetProgramCommissionStatsRequest{ProgramId: tc.program})
			requireReason("GetProgramCommissionStats", err)
			_, err = f.service.GetCommissionStats(ctx, &affiliatev1.GetCommissionStatsRequest{ProgramId: &tc.program})
			requireReason("GetCommissionStats", err)
			byPath, byQuery := servertest.NewDownload(ctx), servertest.NewDownload(ctx)
			err = f.service.ExportProgramCommissions(&affiliatev1.ExportProgramCommissionsRequest{ProgramId: tc.program}, byPath)
			requireReason("ExportProgramCommissions", err)
			if tc.want != "" && byPath.Header != nil {
				t.Errorf("ExportProgramCommissions sent the header %v before its error", byPath.Header)
			}
			err = f.service.ExportCommissions(&affiliatev1.ExportCommissionsRequest{ProgramId: &tc.program}, byQuery)
			requireReason("ExportCommissions", err)
			if byPath.Text() != byQuery.Text() {
				t.Errorf("ExportProgramCommissions sent %q, want the same as ExportCommissions: %q", byPath.Text(), byQuery.Text())
			}
		})
	}
	_, err := f.service.ListProgramCommissions(ctx, &affiliatev1.ListProgramCommissionsRequest{ProgramId: "alpha"})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

func TestCommissions_OfOtherScopesAreNotFound(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	stranger, testMode := f.NewShop(affiliate.ModeLive), f.InOtherMode()
	own, ofStranger, inTestMode := f.NewCommission(f.Join("Pat")), f.NewCommission(stranger.Join("Pat")), f.NewCommission(testMode.Join("Pat"))
	program, id := f.Program.String(), own.ID.String()
	for name, tc := range map[string]struct{ program, id string }{
		"commission of another workspace":                {stranger.Program.String(), ofStranger.ID.String()},
		"commission of another workspace, own programme": {program, ofStranger.ID.String()},
		"own commission, programme of another workspace": {stranger.Program.String(), id},
		"own commission, another own programme":          {f.NewProgram(f.Scope).String(), id},
		"own commission of the other mode":               {testMode.Program.String(), inTestMode.ID.String()},
		"unknown commission":                             {program, affiliate.NewID[affiliate.CommissionID](f.Now()).String()},
		"invalid commission id":                          {program, "1"},
		"invalid programme id":                           {"1", id},
		"commission of another workspace, no programme":  {"", ofStranger.ID.String()},
		"commission of the other mode, no programme":     {"", inTestMode.ID.String()},
		"unknown commission, no programme":               {"", affiliate.NewID[affiliate.CommissionID](f.Now()).String()},
		"invalid commission id, no programme":            {"", "1"},
		"id in braces":                                   {program, "{" + id + "}"},
	} {
		t.Run(name, func(t *testing.T) {
			commission := requests{f, tc.program, tc.id}
			for call, send := range map[string]func() (*affiliatev1.Commission, error){
				"GetCommission": commission.get, "ApproveCommission": commission.approve, "RejectCommission": commission.reject,
				"ApproveCommissionEarly": commission.approveEarly,
				"ClearCommissionReview":  func() (*affiliatev1.Commission, error) { return commission.clearReview(nil) },
			} {
				_, err := send()
				if got := pgtest.ReasonOf(t, err); got != affiliate.ReasonNotFound {
					t.Errorf("%s returned the error code %q, want %s", call, got, affiliate.ReasonNotFound)
				}
			}
		})
	}
	for _, c := range []commission.Commission{own, ofStranger, inTestMode} {
		f.requireStatuses(c, "pending")
	}
}

func TestCommissions_MaskEmailAddressesForViewers(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	const email = "secret.paula@example.com"
	c := f.NewCommission(f.joinWithEmail("Paula", email))
	for role, want := range map[affiliate.Role]struct {
		email        string
		foundByEmail int64
	}{
		affiliate.RoleOwner:     {email, 1},
		affiliate.RoleDeveloper: {email, 1},
		affiliate.RoleViewer:    {affiliate.MaskEmail(email), 0},
	} {
		t.Run(string(role), func(t *testing.T) {
			list, err := f.service.ListCommissions(f.as(role), &affiliatev1.ListCommissionsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if got := list.GetData()[0].GetPartnerEmail(); got != want.email {
				t.Errorf("ListCommissions returned the address %q, want %q", got, want.email)
			}
			detail, err := f.service.GetCommission(f.as(role), &affiliatev1.GetCommissionRequest{ProgramId: f.Program.String(), CommissionId: c.ID.String()})
			if err != nil || detail.GetPartnerEmail() != want.email {
				t.Errorf("GetCommission returned the address %q, error %v, want %q", detail.GetPartnerEmail(), err, want.email)
			}
			for search, wantTotal := range map[string]int64{"secret.": want.foundByEmail, "paula": 1} {
				list, err := f.service.ListCommissions(f.as(role), &affiliatev1.ListCommissionsRequest{Search: &search})
				if err != nil || list.GetTotal() != wantTotal {
					t.Errorf("ListCommissions with the search %q returned total %d, error %v, want %d", search, list.GetTotal(), err, wantTotal)
				}
			}
		})
	}
}

func TestGetCommission_ReturnsOrigin(t *testing.T) {
	f := newFixture(t, affiliate.ModeTest)
	approver := affiliate.NewID[affiliate.UserID](f.Now())
	c := f.NewCommission(f.Join("Some Body"), func(c *commission.Commission) {
		c.Status, c.OverrideReason, c.OverrideBy, c.AmountCents = commission.Approved, new("an old partner"), &affiliate.ActorID{UUID: approver.UUID}, 150
		c.FXRate, c.FXDate = new("1.0825"), new(time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC))
		c.RecurringIndex, c.Dispute = new(2), commission.DisputeWon
	})
	got, err := f.on(c).get()
	if err != nil {
		t.Fatal(err)
	}
	want := proto.CloneOf(got)
	want.OverrideReason, want.OverrideBy, want.ReversedAmountCents = new("an old partner"), new(approver.String()), 50
	want.FxDate, want.RecurringIndex, want.Mode = new("2026-02-27"), new(int32(2)), affiliatev1.Mode_MODE_TEST
	want.DisputeStatus, want.ProgramName, want.PartnerName = affiliatev1.DisputeStatus_DISPUTE_STATUS_WON, "Alpha", "Some Body"
	want.Attribution = &affiliatev1.CommissionAttribution{
		DecisionId: c.Decision.String(), Method: new("click"), ReasonCode: "CLICK_MATCHED", Explanation: "A click.", ClickedAt: server.Timestamp(f.Now()),
	}
	if !proto.Equal(got, want) {
		t.Errorf("GetCommission returned %v\nwant %v", got, want)
	}
	snapshot := got.GetRuleSnapshot()
	wantSnapshot := proto.CloneOf(snapshot)
	wantSnapshot.Version = 1
	wantSnapshot.Rules.Percentage, wantSnapshot.Rules.FlatAmountCents, wantSnapshot.Rules.HoldPeriodDays = new(20.0), nil, new(int32(30))
	wantSnapshot.Rules.AutoApproval, wantSnapshot.Rules.NetBasis = new(true), affiliatev1.NetBasis_NET_BASIS_GROSS
	if !proto.Equal(snapshot, wantSnapshot) {
		t.Errorf("GetCommission returned the rules %v\nwant %v", snapshot, wantSnapshot)
	}
	history := got.GetHistory()
	if len(history) != 1 || history[0].GetFrom() != affiliatev1.CommissionStatus_COMMISSION_STATUS_UNSPECIFIED || history[0].GetActor() != "system" {
		t.Errorf("GetCommission returned the history %v, want only the creation by system", history)
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
			t.Errorf("field %d is %v in the list, want the same as in the detail: %v", a.Number(), a, b)
		}
	}
	var onlyInDetail []string
	for i := range full.Len() {
		if f := full.Get(i); item.ByNumber(f.Number()) == nil {
			onlyInDetail = append(onlyInDetail, string(f.Name()))
		}
	}
	if want := []string{"override_reason", "override_by", "override_by_name", "rule_snapshot", "attribution", "history"}; !slices.Equal(onlyInDetail, want) {
		t.Errorf("only the detail has the fields %q, want %q", onlyInDetail, want)
	}
}

func TestCheck_RejectsInvalidFilters(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	invalid := &affiliatev1.ListCommissionsRequest{DateFrom: new("soon"), DateTo: new("later"), Timezone: new("Moon")}
	for _, tc := range []struct {
		req        proto.Message
		wantFields []string
	}{
		{invalid, []string{"timezone", "date_from", "date_to"}},
		{&affiliatev1.ListProgramCommissionsRequest{DateFrom: new("2026-03-02"), DateTo: new("2026-03-01")}, []string{"date_to"}},
		{&affiliatev1.GetCommissionRequest{}, nil},
		{&affiliatev1.GetCommissionStatsRequest{DateFrom: new("x")}, []string{"date_from"}},
		{&affiliatev1.GetProgramCommissionStatsRequest{Status: 9}, []string{"status"}},
		{&affiliatev1.ExportCommissionsRequest{DateTo: new("x")}, []string{"date_to"}},
		{&affiliatev1.ExportProgramCommissionsRequest{SortOrder: 9}, []string{"sort_order"}},
		{&affiliatev1.BulkRejectCommissionsRequest{Code: 99}, []string{"code"}},
		{&affiliatev1.ListProgramCommissionsRequest{Timezone: new("Moon")}, []string{"timezone"}},
	} {
		var fields []string
		for _, violation := range f.service.Check(tc.req) {
			fields = append(fields, violation.Field)
		}
		if !slices.Equal(fields, tc.wantFields) {
			t.Errorf("Check of %T with %v found violations of the fields %q, want %q", tc.req, tc.req, fields, tc.wantFields)
		}
	}
	// ListCommissions validates the filter itself. It does not rely on the interceptor
	// that calls Check.
	_, err := f.service.ListCommissions(f.asOwner(), invalid)
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation)
}
