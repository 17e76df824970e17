package partner_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/partner"
	"github.com/tributary-hq/tributary/affiliate/payout"
)

func TestParsePayoutAccount(t *testing.T) {
	text := func(s string) *string { return &s }
	const holder = "Jane Doe"
	for _, tc := range []struct {
		method          payout.Method
		account, holder *string
		parsed, hint    string
		wrong           string // fields with violations
	}{
		{"manual", nil, nil, "", "", ""},
		{"store_credit", nil, nil, "", "", ""},
		{"manual", text("a@example.com"), nil, "", "", "account"},
		{"store_credit", text("x"), text(holder), "", "", "account account_holder"},

		{"paypal", text("pay@example.com"), nil, "pay@example.com", "p***@example.com", ""},
		{"wise", text("a@example.com"), text(holder), "a@example.com", "a***@example.com", ""},
		{"paypal", nil, nil, "", "", "account"},
		{"wise", text("no address"), nil, "", "", "account"},
		{"paypal", text("Jane <jane@example.com>"), nil, "", "", "account"},

		{"bank_transfer", text("DE89370400440532013000"), text(holder), "DE89370400440532013000", "••••3000", ""},
		{"bank_transfer", text("de89 3704\u00a00044 0532 0130 00"), text(holder), "DE89370400440532013000", "••••3000", ""},
		{"bank_transfer", text("GB82 WEST 1234 5698 7654 32"), text(holder), "GB82WEST12345698765432", "••••5432", ""},
		{"bank_transfer", text("MT84 MALT 0110 0001 2345 MTLC AST0 01S"), text(holder), "MT84MALT011000012345MTLCAST001S", "••••001S", ""},
		{"bank_transfer", text("NO9386011117947"), text(holder), "NO9386011117947", "••••7947", ""},
		{"bank_transfer", text("DE89370400440532013001"), text(holder), "", "", "account"},
		{"bank_transfer", text("DE98370400440532013000"), text(holder), "", "", "account"},
		{"bank_transfer", text("GB82 WEST 1234 5698 7654 23"), text(holder), "", "", "account"},
		// The text begins with two letters and two digits, but is too short for an
		// IBAN.
		{"bank_transfer", text("AB12-345/6 7"), text(holder), "AB12-345/6 7", "••••/6 7", ""},
		{"bank_transfer", text("000123456"), text(holder), "000123456", "••••3456", ""},
		{"bank_transfer", text("12345"), text(holder), "12345", "••••45", ""},
		{"bank_transfer", text("1234"), text(holder), "1234", "••••34", ""},
		{"bank_transfer", text("123"), text(holder), "", "", "account"},
		{"bank_transfer", text(strings.Repeat("1", 64)), text(holder), strings.Repeat("1", 64), "••••1111", ""},
		{"bank_transfer", text(strings.Repeat("1", 65)), text(holder), "", "", "account"},
		{"bank_transfer", text("1234;5678"), text(holder), "", "", "account"},
		{"bank_transfer", text("１２３４"), text(holder), "", "", "account"},
		{"bank_transfer", text("000123456"), nil, "", "", "account_holder"},
		{"bank_transfer", nil, nil, "", "", "account account_holder"},

		{"stripe_connect", nil, nil, "", "", "method"},
		{"external", nil, nil, "", "", "method"},
		{"", nil, nil, "", "", "method"},
	} {
		name := fmt.Sprint(tc.method, tc.account, tc.holder)
		if tc.account != nil {
			name = string(tc.method) + " " + *tc.account
		}
		parsed, wrong := payout.ParsePayoutAccount(tc.method, tc.account, tc.holder)
		var fields []string
		for _, v := range wrong {
			fields = append(fields, v.Field)
		}
		if got := strings.Join(fields, " "); got != tc.wrong {
			t.Errorf("%s: violations of the fields %q, want %q", name, got, tc.wrong)
		}
		if tc.wrong != "" {
			continue
		}
		hint := ""
		if h := parsed.Hint(); h != nil {
			hint = *h
		}
		if parsed.Account != tc.parsed || hint != tc.hint || (parsed.Holder != "") != (tc.holder != nil) {
			t.Errorf("%s: account %q with hint %q and holder %q; want %q with hint %q, and a holder: %v",
				name, parsed.Account, hint, parsed.Holder, tc.parsed, tc.hint, tc.holder != nil)
		}
		if printed := fmt.Sprintf("%v %+v %#v %s", parsed, parsed, parsed, parsed); tc.parsed != "" && strings.Contains(printed, tc.parsed) {
			t.Errorf("%s: the account is printed: %s", name, printed)
		}
	}
}

// The check digits must detect one wrong digit and two swapped digits, because these
// are the most frequent mistakes.
func TestParsePayoutAccount_RejectsMistypedIBAN(t *testing.T) {
	const iban, holder = "DE89370400440532013000", "Jane"
	refused := func(s string) bool {
		h := holder
		_, wrong := payout.ParsePayoutAccount(payout.BankTransfer, &s, &h)
		return wrong != nil
	}
	for i := 2; i < len(iban); i++ {
		for digit := byte('0'); digit <= '9'; digit++ {
			if changed := iban[:i] + string(digit) + iban[i+1:]; changed != iban && !refused(changed) {
				t.Errorf("the IBAN %s with a wrong digit was accepted", changed)
			}
		}
		if i+1 < len(iban) && iban[i] != iban[i+1] {
			if swapped := iban[:i] + iban[i+1:i+2] + iban[i:i+1] + iban[i+2:]; !refused(swapped) {
				t.Errorf("the IBAN %s with swapped characters was accepted", swapped)
			}
		}
	}
}

func TestPartnerProfile_Patch(t *testing.T) {
	company := "Acme"
	before := partner.Profile{Name: "Jane", CompanyName: &company}
	same, err := before.Patch(partner.ProfilePatch{})
	if err != nil || same != before {
		t.Errorf("empty patch: profile %+v, error %v; want no change", same, err)
	}
	changed, err := before.Patch(partner.ProfilePatch{Country: affiliate.Set("DE"), CompanyName: affiliate.Clear[string]()})
	if err != nil || changed.Name != "Jane" || *changed.Country != "DE" || changed.CompanyName != nil {
		t.Errorf("patch of country and company: profile %+v, error %v", changed, err)
	}
	for _, name := range []affiliate.Change[string]{affiliate.Clear[string](), affiliate.Set("")} {
		if _, err := before.Patch(partner.ProfilePatch{Name: name}); err == nil {
			t.Error("a patch that clears the name succeeded")
		}
	}
}
