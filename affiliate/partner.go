package affiliate

import (
	"regexp"
	"strings"
	"time"
	"unicode"
)

// PartnerProgram is a programme as a partner sees it.
type PartnerProgram struct {
	Program
	MerchantName string
	// Participation is nil when the partner does not take part.
	Participation *Participation
}

// Participation is a partner's own place in a programme.
type Participation struct {
	Participant ParticipantID
	Status      ParticipantStatus
	// Link is the default one.
	Link Link
	// Rate is the partner's own, or its group's; nil: the programme's rules.
	Rate        *Rate
	Stats       ParticipantStats
	AppliedAt   time.Time
	ApprovedAt  *time.Time
	RejectedAt  *time.Time
	SuspendedAt *time.Time
}

// PartnerProgramFilter narrows a partner's list of programmes.
type PartnerProgramFilter struct {
	// Public lists what anybody may join, in place of what the partner takes part
	// in.
	Public bool
	// Search is a prefix of the programme's name; case does not matter.
	Search string
}

// PartnerCommission is a commission as its partner sees it: nothing that the
// merchant keeps to itself, nothing of the buyer.
type PartnerCommission struct {
	ID                  CommissionID
	Program             ProgramID
	ProgramName         string
	Participant         ParticipantID
	Mode                Mode
	Status              CommissionStatus
	Type                CommissionType
	EventType           EventType
	RateBps             *int64 // Percentage only
	FlatCents           *int64 // Flat only
	AmountCents         int64  // earned now, minor units of Currency
	OriginalAmountCents int64  // earned before any refund
	Currency            string
	SaleAmountCents     int64 // minor units of SaleCurrency
	SaleCurrency        string
	RecurringIndex      *int
	PromoCode           *string
	HoldUntil           *time.Time // nil: no hold
	RejectionCode       *string
	ApprovedAt          *time.Time
	RejectedAt          *time.Time
	PaidAt              *time.Time
	RefundedAt          *time.Time
	CreatedAt           time.Time
}

// PartnerCommissionFilter narrows a partner's list of commissions. The zero
// value of each field narrows nothing.
type PartnerCommissionFilter struct {
	Program *ProgramID
	Status  CommissionStatus
	Created Period
}

// PartnerProfile is a partner's account as the partner sees it.
type PartnerProfile struct {
	ID          UserID
	Email       string // lower case
	Name        string
	Country     *string // ISO 3166-1 alpha-2
	CompanyName *string
	WebsiteURL  *string
	// Payout is nil until a method is set.
	Payout    *PayoutDetails
	Version   int // one more with every change
	CreatedAt time.Time
}

// PartnerProfilePatch changes some fields of a profile.
type PartnerProfilePatch struct {
	Name        Change[string] // cannot be cleared
	Country     Change[string]
	CompanyName Change[string]
	WebsiteURL  Change[string]
}

// Patch is p changed by patch. Errors: VALIDATION_ERROR.
func (p PartnerProfile) Patch(patch PartnerProfilePatch) (PartnerProfile, error) {
	p.Name = patch.Name.or(p.Name, "")
	if p.Name == "" {
		return p, Invalid("name", IsRequired)
	}
	p.Country = patch.Country.orNil(p.Country)
	p.CompanyName = patch.CompanyName.orNil(p.CompanyName)
	p.WebsiteURL = patch.WebsiteURL.orNil(p.WebsiteURL)
	return p, nil
}

// ProfileObject is what an update compares of a profile. The account's log keeps
// the names of what changed and no values.
type ProfileObject struct {
	Name        string  `json:"name"`
	Country     *string `json:"country"`
	CompanyName *string `json:"company_name"`
	WebsiteURL  *string `json:"website_url"`
}

// Object is p as an update compares it.
func (p PartnerProfile) Object() ProfileObject {
	return ProfileObject{Name: p.Name, Country: p.Country, CompanyName: p.CompanyName, WebsiteURL: p.WebsiteURL}
}

// PayoutMethod is how money reaches a partner.
type PayoutMethod string

// The methods. The last two are set by whoever connects them.
const (
	PayoutManual        PayoutMethod = "manual"
	PayoutPayPal        PayoutMethod = "paypal"
	PayoutWise          PayoutMethod = "wise"
	PayoutBankTransfer  PayoutMethod = "bank_transfer"
	PayoutStoreCredit   PayoutMethod = "store_credit"
	PayoutStripeConnect PayoutMethod = "stripe_connect"
	PayoutExternal      PayoutMethod = "external"
)

// PayoutDetails is what may be shown of a payout method.
type PayoutDetails struct {
	Method    PayoutMethod
	Hint      *string // see PayoutAccount.Hint
	UpdatedAt time.Time
}

// PayoutAccount is where a partner's money goes, in clear text: it is sealed
// before it is stored, and never logged. Its JSON is what is sealed.
type PayoutAccount struct {
	Method  PayoutMethod `json:"-"`
	Account string       `json:"account"` // empty: the method has none
	Holder  string       `json:"account_holder,omitempty"`
}

// ParsePayoutAccount reads a method with its account and account holder, nil
// where they are absent. An IBAN loses its spaces and is upper-cased. Everything
// that is wrong is reported.
func ParsePayoutAccount(method PayoutMethod, account, holder *string) (PayoutAccount, Violations) {
	var wrong Violations
	parsed := PayoutAccount{Method: method}
	if account != nil {
		parsed.Account = *account
	}
	if holder != nil {
		parsed.Holder = *holder
	}
	switch method {
	case PayoutManual, PayoutStoreCredit:
		if account != nil {
			wrong.Add("account", "must be absent when {method} is "+string(method))
		}
		if holder != nil {
			wrong.Add("account_holder", "must be absent when {method} is "+string(method))
		}
	case PayoutPayPal, PayoutWise:
		if account == nil {
			wrong.Add("account", "is required when {method} is "+string(method))
		} else if !BareAddress(*account) {
			wrong.Add("account", MustBeEmail)
		}
	case PayoutBankTransfer:
		if account == nil {
			wrong.Add("account", "is required when {method} is "+string(method))
		} else {
			var problem string
			if parsed.Account, problem = parseBankAccount(*account); problem != "" {
				wrong.Add("account", problem)
			}
		}
		if holder == nil {
			wrong.Add("account_holder", "is required when {method} is "+string(method))
		}
	default:
		wrong.Add("method", "must be one of manual, paypal, wise, bank_transfer, store_credit")
	}
	return parsed, wrong
}

var (
	ibanForm    = regexp.MustCompile(`^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$`)
	accountForm = regexp.MustCompile(`^[A-Za-z0-9 /-]{4,64}$`)
)

// parseBankAccount reads an IBAN, or the number of an account in a country
// without them.
func parseBankAccount(s string) (account, problem string) {
	compact := strings.ToUpper(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s))
	switch {
	case ibanForm.MatchString(compact):
		if !validIBAN(compact) {
			return "", "must be an IBAN with the right check digits"
		}
		return compact, ""
	case !accountForm.MatchString(s):
		return "", "must be an IBAN, or 4 to 64 letters, digits, spaces, - and /"
	}
	return s, ""
}

// validIBAN checks the remainder of ISO 13616: the country and the check digits
// moved to the end, letters as 10 to 35, the number is 1 modulo 97.
func validIBAN(iban string) bool {
	remainder := 0
	for _, r := range iban[4:] + iban[:4] {
		if r >= 'A' {
			remainder = (remainder*100 + int(r-'A') + 10) % 97
		} else {
			remainder = (remainder*10 + int(r-'0')) % 97
		}
	}
	return remainder == 1
}

// hintLength characters of a number tell two accounts of one person apart.
const hintLength = 4

// Hint is what may be shown of the account, nil without one: an address masked,
// the last four characters of a number, or fewer where four would be more than
// half of it.
func (a PayoutAccount) Hint() *string {
	var hint string
	switch a.Method {
	case PayoutPayPal, PayoutWise:
		hint = MaskEmail(a.Account)
	case PayoutBankTransfer:
		hint = "••••" + a.Account[len(a.Account)-min(hintLength, len(a.Account)/2):]
	default:
		return nil
	}
	return &hint
}

// String hides the account from logs.
func (a PayoutAccount) String() string { return string(a.Method) }

// GoString hides the account from %#v.
func (a PayoutAccount) GoString() string { return a.String() }

// SealedPayoutAccount is a payout account as the database may hold it, sealed by
// who has the keys.
type SealedPayoutAccount struct {
	Method PayoutMethod
	Hint   *string // see PayoutAccount.Hint
	Sealed []byte  // nil for a method without account
	// Same reports whether what is stored with the same method, nil without
	// account, is this account: two seals of one text differ.
	Same func(stored []byte) bool
}
