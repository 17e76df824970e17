package participant

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/affiliatetest"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/program"
)

func TestJoin(t *testing.T) {
	at, group := time.UnixMilli(1).UTC(), affiliate.NewID[affiliate.GroupID](time.UnixMilli(1))
	partner := account.User{ID: affiliate.NewID[affiliate.UserID](at), Name: "Jane", Email: "jane@example.com"}
	terms := "https://shop.example/terms"
	answers := map[string]string{"site": "blog.example"}
	for name, tc := range map[string]struct {
		program program.Program
		accept  bool
		want    Status
		refusal *affiliate.Error
	}{
		"without terms":      {program: program.Program{}, want: Pending},
		"automatic approval": {program: program.Program{AutoApprovePartners: true}, want: Approved},
		"terms accepted":     {program: program.Program{TermsURL: &terms}, accept: true, want: Pending},
		"terms not accepted": {program: program.Program{TermsURL: &terms}, refusal: affiliate.Invalid("accept_terms", "must be true because the programme has terms")},
	} {
		t.Run(name, func(t *testing.T) {
			applied, err := Apply(tc.program, partner, answers, TermsAcceptance{Accepted: tc.accept}, at)
			invited, inviteErr := Invite{Group: &group}.Join(tc.program, partner, TermsAcceptance{Accepted: tc.accept}, at)
			if tc.refusal != nil {
				affiliatetest.WantRefusal(t, err, tc.refusal)
				affiliatetest.WantRefusal(t, inviteErr, tc.refusal)
				return
			}
			if err != nil || applied.Status != tc.want || (applied.ApprovedAt != nil) != (tc.want == Approved) ||
				(applied.TermsAcceptedAt != nil) != tc.accept || applied.Answers["site"] == "" ||
				applied.Partner != partner.ID || applied.PartnerName != "Jane" || applied.PartnerEmail != "jane@example.com" {
				t.Errorf("application: participant %+v, error %v; want status %s, with answers, the time of the terms and the data of the account", applied, err, tc.want)
			}
			if inviteErr != nil || invited.Status != Approved || invited.ApprovedAt == nil || invited.Group != &group ||
				invited.Answers == nil || invited.Tags == nil {
				t.Errorf("invitation: participant %+v, error %v; want an approved participant in group %s", invited, inviteErr, group)
			}
		})
	}
}

func TestApply_StoresVersionOfTerms(t *testing.T) {
	at, url := time.UnixMilli(1).UTC(), "https://shop.example/terms"
	withTerms := program.Program{TermsURL: &url, TermsVersion: 3}
	for name, tc := range map[string]struct {
		program program.Program
		seen    *int
		want    *int
		refusal *affiliate.Error
	}{
		"current version":  {program: withTerms, seen: new(3), want: new(3)},
		"no version given": {program: withTerms, want: new(3)},
		"older version":    {program: withTerms, seen: new(2), refusal: affiliate.Refuse(affiliate.ReasonTermsChanged)},
		"without terms":    {program: program.Program{TermsVersion: 4}, seen: new(3)},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Apply(tc.program, account.User{}, nil, TermsAcceptance{Accepted: true, Version: tc.seen}, at)
			if tc.refusal != nil {
				affiliatetest.WantRefusal(t, err, tc.refusal)
				return
			}
			if err != nil || (p.TermsVersion == nil) != (tc.want == nil) || tc.want != nil && *p.TermsVersion != *tc.want {
				t.Errorf("participant %+v, error %v; want the version %v", p, err, tc.want)
			}
		})
	}
}

func TestReferralCodes_StartWithTheName(t *testing.T) {
	for name, want := range map[string]string{
		"Jane Doe":                      `^jane-doe$`,
		"Zoë  Ångström":                 `^zoe-angstrom$`,
		"Al":                            `^al-[a-z2-9]{3}$`,
		"Admin":                         `^admin-[a-z2-9]{3}$`,
		"李小龙":                           `^[a-z2-9]{8}$`,
		"Wolfgang Amadeus von Mozart X": `^wolfgang-amadeus-von-moz$`,
		"":                              `^[a-z2-9]{8}$`,
	} {
		if got := affiliatetest.FirstN(1, link.ReferralCodes(name))[0]; !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("the first code for the name %q is %q, want %s", name, got, want)
		}
	}
	codes := affiliatetest.FirstN(12, link.ReferralCodes("Jane Doe"))
	if !regexp.MustCompile(`^jane-doe-[a-z2-9]{3}$`).MatchString(codes[1]) || !regexp.MustCompile(`^[a-z2-9]{8}$`).MatchString(codes[11]) {
		t.Errorf("codes %q, want the name with 3 random characters second, and 8 random characters last", codes)
	}
}

func TestReferralCodes_AreValid(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9_-]{3,50}$`)
	rapid.Check(t, func(t *rapid.T) {
		for _, code := range affiliatetest.FirstN(12, link.ReferralCodes(rapid.String().Draw(t, "name"))) {
			if !form.MatchString(code) || click.FoldCode(code) != code || link.ReservedCode(code) {
				t.Fatalf("the code %q is not valid or is reserved", code)
			}
		}
	})
}

func TestReservedCodes(t *testing.T) {
	for code, want := range map[string]bool{"admin": true, "Admin": true, "UNDEFINED": true, "google": true, "jane": false, "": false, "admins": false} {
		if link.ReservedCode(code) != want {
			t.Errorf("ReservedCode(%q) = %v, want %v", code, !want, want)
		}
	}
}

func TestParticipantObject_Reason(t *testing.T) {
	why := "spam"
	p := Participant{Status: Rejected, RejectionReason: &why, PartnerEmail: "jane@example.com", Version: 5}
	body, err := json.Marshal(p.Object())
	if err != nil || !strings.Contains(string(body), `"status":"rejected","reason":"spam","version":5`) || strings.Contains(string(body), "jane@") {
		t.Errorf("JSON of a rejected participant is %s, error %v; want the reason, but no e-mail address", body, err)
	}
	p.Status = Approved
	if body, _ = json.Marshal(p.Object()); !strings.Contains(string(body), `"reason":null`) {
		t.Errorf("JSON of an approved participant is %s, want reason null", body)
	}
}

func TestMaskEmail(t *testing.T) {
	for in, want := range map[string]string{
		"jane.doe@example.com": "j***@example.com", "j@example.com": "j***@example.com", "ä.b@example.com": "ä***@example.com",
		`"a@b"@example.com`: `"***@example.com`, "@example.com": "***", "erased": "***", "": "***",
	} {
		if got := affiliate.MaskEmail(in); got != want {
			t.Errorf("MaskEmail(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestParticipant_Patch(t *testing.T) {
	group, bps := affiliate.NewID[affiliate.GroupID](time.UnixMilli(1)), int64(1250)
	note, other, nothing := "calls back", "x", ""
	override := program.Rate{Bps: &bps}
	p := Participant{ReferralCode: "jane", Group: &group, OverrideRateBps: &bps, Tags: []string{"vip"}, Note: &note}
	for name, tc := range map[string]struct {
		patch Patch
		want  Details
	}{
		"nothing": {Patch{}, p.Details()},
		"all": {
			Patch{Note: affiliate.Set(other), Tags: affiliate.Set([]string{"a"}), Group: affiliate.Set(group), Override: affiliate.Set(program.Rate{FlatCents: &bps}), ReferralCode: affiliate.Set("j")},
			Details{ReferralCode: "j", Group: &group, Override: &program.Rate{FlatCents: &bps}, Tags: []string{"a"}, Note: &other},
		},
		"cleared": {
			Patch{Note: affiliate.Clear[string](), Tags: affiliate.Clear[[]string](), Group: affiliate.Clear[affiliate.GroupID](), Override: affiliate.Clear[program.Rate](), ReferralCode: affiliate.Clear[string]()},
			Details{ReferralCode: "jane", Tags: []string{}},
		},
		"an empty note is removed": {
			Patch{Note: affiliate.Set(nothing)},
			Details{ReferralCode: "jane", Group: &group, Override: &override, Tags: []string{"vip"}},
		},
	} {
		if got := p.Patch(tc.patch).Details(); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("patch of %s: details %+v, want %+v", name, got, tc.want)
		}
	}
}

// A move sets the time and the reason of the new status and clears those of the old one.
func TestParticipant_Move(t *testing.T) {
	earlier, at, reason, old := time.UnixMilli(1).UTC(), time.UnixMilli(9).UTC(), "spam", "earlier"
	rejected := Participant{Status: Rejected, RejectedAt: &earlier, RejectionReason: &old, Version: 4}
	for name, tc := range map[string]struct {
		p       Participant
		move    Move
		want    Participant
		refusal affiliate.Reason
	}{
		"approve": {p: rejected, move: ApproveParticipant, want: Participant{Status: Approved, ApprovedAt: &at, Version: 5, UpdatedAt: at}},
		"reject": {
			p: Participant{Status: Pending}, move: RejectParticipant,
			want: Participant{Status: Rejected, RejectedAt: &at, RejectionReason: &reason, Version: 1, UpdatedAt: at},
		},
		"suspend": {
			p: Participant{Status: Approved, ApprovedAt: &earlier}, move: SuspendParticipant,
			want: Participant{Status: Suspended, ApprovedAt: &earlier, SuspendedAt: &at, SuspensionReason: &reason, Version: 1, UpdatedAt: at},
		},
		"reinstate": {
			p: Participant{Status: Suspended, ApprovedAt: &earlier, SuspendedAt: &earlier, SuspensionReason: &old}, move: ReinstateParticipant,
			want: Participant{Status: Approved, ApprovedAt: &earlier, Version: 1, UpdatedAt: at},
		},
		"another status":           {p: rejected, move: SuspendParticipant, refusal: affiliate.ReasonParticipantState},
		"approval without consent": {p: Participant{Status: Pending, Consent: ConsentAwaited}, move: ApproveParticipant, refusal: affiliate.ReasonParticipantState},
		"erased":                   {p: Participant{Status: Pending, ErasedAt: &earlier}, move: ApproveParticipant, refusal: affiliate.ReasonParticipantErased},
	} {
		got, err := tc.p.Move(tc.move, &reason, at)
		if tc.refusal != "" {
			if !affiliate.Refuse(tc.refusal).Is(err) {
				t.Errorf("%s: the error is %v, want %s", name, err, tc.refusal)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: the participant is %+v, %v, want %+v", name, got, err, tc.want)
		}
	}
}

func TestRateCounts_Capped(t *testing.T) {
	const limit = affiliate.MaxTotal
	for _, tc := range []struct {
		own, ofGroup, wantOwn, wantOfGroup int64
		wantMore                           bool
	}{{1, 2, 1, 2, false}, {1, limit - 1, 1, limit - 1, false}, {2, limit - 1, 2, limit - 2, true}, {limit + 1, 0, limit, 0, true}} {
		got, more := RateCounts{OfProgram: 7, OfGroup: tc.ofGroup, Own: tc.own}.Capped()
		if want := (RateCounts{OfProgram: 7, OfGroup: tc.wantOfGroup, Own: tc.wantOwn}); got != want || more != tc.wantMore {
			t.Errorf("Capped of %d and %d returned %+v, %t, want %+v, %t", tc.own, tc.ofGroup, got, more, want, tc.wantMore)
		}
	}
}
