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
	// Participation is nil if the partner does not take part in the programme.
	Participation *Participation
}

// Participation is a partner's participation in a programme, as the partner sees it.
type Participation struct {
	Participant ParticipantID
	Status      ParticipantStatus
	Consent     PartnerConsent
	// Link is the default link.
	Link Link
	// Rate is the partner's own rate, or the rate of its group. It is nil if the
	// programme's rules apply.
	Rate        *Rate
	Stats       ParticipantStats
	AppliedAt   time.Time
	ApprovedAt  *time.Time
	RejectedAt  *time.Time
	SuspendedAt *time.Time
}

// PartnerProgramFilter restricts a partner's list of programmes.
type PartnerProgramFilter struct {
	// Public lists the programmes that any partner may join, instead of those in which
	// the partner takes part.
	Public bool
	// Search is a prefix of the programme's name. Case does not matter.
	Search string
	// Program restricts the list to one programme; nil if it is not restricted.
	Program *ProgramID
}

// PartnerCommission is a commission as its partner sees it. It has no data about the
// buyer, and no data that only the merchant may see.
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
	BaseAmountCents     int64 // to which the rate was applied, minor units of SaleCurrency
	SaleCurrency        string
	RecurringIndex      *int
	PromoCode           *string
	Click               *ClickID
	Link                *LinkID
	SubID               *string    // of the click, else of the report, else of the link
	HoldUntil           *time.Time // nil if there is no hold period
	RejectionCode       *string
	ApprovedAt          *time.Time
	RejectedAt          *time.Time
	PaidAt              *time.Time
	RefundedAt          *time.Time
	CreatedAt           time.Time
}

// PartnerCommissionFilter restricts a partner's list of commissions. A zero field
// matches every commission.
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
	// Payout is nil until the partner sets a payout method.
	Payout    *PayoutDetails
	Version   int // increases by one with every change
	CreatedAt time.Time
}

// PartnerProfilePatch changes some fields of a profile.
type PartnerProfilePatch struct {
	Name        Change[string] // cannot be cleared
	Country     Change[string]
	CompanyName Change[string]
	WebsiteURL  Change[string]
}

// Patch returns p with the changes of patch. Errors: VALIDATION_ERROR.
func (p PartnerProfile) Patch(patch PartnerProfilePatch) (PartnerProfile, error) {
	p.Name = patch.Name.apply(p.Name, "")
	if p.Name == "" {
		return p, Invalid("name", IsRequired)
	}
	p.Country = patch.Country.applyOptional(p.Country)
	p.CompanyName = patch.CompanyName.applyOptional(p.CompanyName)
	p.WebsiteURL = patch.WebsiteURL.applyOptional(p.WebsiteURL)
	return p, nil
}

// ProfileObject holds the fields of a profile that are compared after an update. The
// audit log of the account stores the names of the changed fields, not their values.
type ProfileObject struct {
	Name        string  `json:"name"`
	Country     *string `json:"country"`
	CompanyName *string `json:"company_name"`
	WebsiteURL  *string `json:"website_url"`
}

// Object returns the fields of p that are compared after an update.
func (p PartnerProfile) Object() ProfileObject {
	return ProfileObject{Name: p.Name, Country: p.Country, CompanyName: p.CompanyName, WebsiteURL: p.WebsiteURL}
}

// PayoutMethod is the way in which a partner is paid.
type PayoutMethod string

// The methods. Partners cannot choose the last two; integrations set them.
const (
	PayoutManual        PayoutMethod = "manual"
	PayoutPayPal        PayoutMethod = "paypal"
	PayoutWise          PayoutMethod = "wise"
	PayoutBankTransfer  PayoutMethod = "bank_transfer"
	PayoutStoreCredit   PayoutMethod = "store_credit"
	PayoutStripeConnect PayoutMethod = "stripe_connect"
	PayoutExternal      PayoutMethod = "external"
)

// PayoutDetails holds the parts of a payout method that may be shown.
type PayoutDetails struct {
	Method    PayoutMethod
	Hint      *string // see PayoutAccount.Hint
	UpdatedAt time.Time
	// HeldUntil is the time until which new payouts leave out the partner. It is nil if the
	// method is not held (PayoutMethodChange.Apply).
	HeldUntil *time.Time
}

// PayoutMethodChange describes how a payout method or account is set.
type PayoutMethodChange struct {
	At time.Time
	// FactorSince is when the second factor was enabled whose code authorised the change. It
	// is nil if the password did.
	FactorSince *time.Time
	// First means that the partner had no payout method before.
	First bool
	// Owed means that the partner has a positive balance or pending commissions in live mode.
	Owed bool
}

// Apply returns the details after the change. The new method is held for PayoutAccountHold,
// unless it is the first method of a partner to whom nothing is owed, and the password or a
// second factor that is older than PayoutAccountHold has authorised it.
func (c PayoutMethodChange) Apply(d PayoutDetails) PayoutDetails {
	d.UpdatedAt, d.HeldUntil = c.At, nil
	until := c.At.Add(PayoutAccountHold)
	newFactor := c.FactorSince != nil && c.At.Before(c.FactorSince.Add(PayoutAccountHold))
	if !c.First || c.Owed || newFactor {
		d.HeldUntil = &until
	}
	return d
}

// Notification returns the notification for the partner about the new method.
func (d PayoutDetails) Notification(partner UserID) []Notification {
	facts := map[string]string{"method": string(d.Method)}
	if d.HeldUntil != nil {
		facts["until"] = FormatTime(*d.HeldUntil)
	}
	account := Account{User: User{ID: partner, Kind: Partner}}
	return AccountNotification(account, NotifyPayoutMethodChanged, d.UpdatedAt, facts)
}

// Warning returns the mail about the new method to the former address of the partner's
// account.
func (d PayoutDetails) Warning(partner UserID, name, formerAddress string) Mail {
	return Mail{
		ID: NewID[MailID](d.UpdatedAt), Kind: MailPayoutMethodChanged, Type: string(MailPayoutMethodChanged),
		Recipient: MailRecipient{User: &partner, Account: Partner, Name: name, Address: formerAddress},
		Facts:     MailFacts{PayoutMethod: d.Method}, CreatedAt: d.UpdatedAt,
	}
}

// PayoutAccount is the account to which a partner's money is sent, in clear text. It is
// never logged. Before it is stored, its JSON form is encrypted.
type PayoutAccount struct {
	Method  PayoutMethod `json:"-"`
	Account string       `json:"account"` // empty if the method has no account
	Holder  string       `json:"account_holder,omitempty"`
}

// ParsePayoutAccount validates a payout method with its account and account holder,
// which are nil if absent. Spaces are removed from an IBAN, and its letters become
// upper case. All violations are returned together.
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

// parseBankAccount parses an IBAN, or an account number of a country without IBANs.
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

// validIBAN checks the check digits of an IBAN (ISO 13616). The country and the check
// digits are moved to the end, and letters become the numbers 10 to 35. The resulting
// number must be 1 modulo 97.
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

// hintLength is the greatest number of characters of an account number that a hint
// shows. They are enough to distinguish two accounts of one person.
const hintLength = 4

// Hint returns the part of the account that may be shown; nil if there is no account.
// For an e-mail address, it is the masked address. For an account number, it is the last
// hintLength characters, but at most half of the number.
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

// String returns only the method, so that logs do not contain the account.
func (a PayoutAccount) String() string { return string(a.Method) }

// GoString returns the same as String. The formatting verb %#v uses it.
func (a PayoutAccount) GoString() string { return a.String() }

// SealedPayoutAccount is a payout account as the database stores it: encrypted with
// keys that the database does not have.
type SealedPayoutAccount struct {
	Method     PayoutMethod
	Hint       *string // see PayoutAccount.Hint
	Ciphertext []byte  // encrypted account; nil for a method without account
	// Matches reports whether stored is the encrypted form of the same account. It is
	// needed because encrypting the same text twice gives different results. The caller
	// must pass the Ciphertext of an account of the same method.
	Matches func(stored []byte) bool
}
