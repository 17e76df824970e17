package payout

import (
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// Method is the way in which a partner is paid.
type Method string

// The methods. Partners cannot choose the last two; integrations set them.
const (
	Manual        Method = "manual"
	PayPal        Method = "paypal"
	Wise          Method = "wise"
	BankTransfer  Method = "bank_transfer"
	StoreCredit   Method = "store_credit"
	StripeConnect Method = "stripe_connect"
	External      Method = "external"
)

// Details holds the parts of a payout method that may be shown.
type Details struct {
	Method    Method
	Hint      *string `db:"account_hint"` // see Account.Hint
	UpdatedAt time.Time
	// HeldUntil is the time until which new payouts leave out the partner (MethodChange.Apply);
	// nil if there is none.
	HeldUntil *time.Time
}

// MethodChange describes how a payout method or account is set.
type MethodChange struct {
	At time.Time
	// FactorSince is the time at which the second factor was enabled, if a second factor
	// authorises the change. It is nil if the password does.
	FactorSince *time.Time
	// First means that the partner had no payout method before.
	First bool
	// Owed means that the partner has a positive balance or pending commissions in live mode.
	Owed bool
}

// Apply returns the details after the change. The new method is held for AccountHold,
// unless it is the first method of a partner to whom nothing is owed, and the password or a
// second factor that is older than AccountHold has authorised it.
func (c MethodChange) Apply(d Details) Details {
	d.UpdatedAt, d.HeldUntil = c.At, nil
	until := c.At.Add(AccountHold)
	newFactor := c.FactorSince != nil && c.At.Before(c.FactorSince.Add(AccountHold))
	if !c.First || c.Owed || newFactor {
		d.HeldUntil = &until
	}
	return d
}

// Notification returns the notification for the partner about the new method.
func (d Details) Notification(partner affiliate.UserID) []notification.Notification {
	facts := map[string]string{"method": string(d.Method)}
	if d.HeldUntil != nil {
		facts["until"] = affiliate.FormatTime(*d.HeldUntil)
	}
	holder := account.Account{User: account.User{ID: partner, Kind: affiliate.Partner}}
	return account.Notification(holder, notification.NotifyPayoutMethodChanged, d.UpdatedAt, facts)
}

// Warning returns the mail about the new method to the partner's former address.
func (d Details) Warning(partner affiliate.UserID, name, formerAddress string) notification.Mail {
	return notification.Mail{
		ID:   affiliate.NewID[notification.MailID](d.UpdatedAt),
		Kind: notification.MailPayoutMethodChanged, Type: string(notification.MailPayoutMethodChanged),
		Recipient: notification.Recipient{User: &partner, Account: affiliate.Partner, Name: name, Address: formerAddress},
		Facts:     notification.MailFacts{PayoutMethod: string(d.Method)}, CreatedAt: d.UpdatedAt,
	}
}

// Account is the account to which a partner's money is sent, in clear text. It is
// never logged. Before it is stored, its JSON form is encrypted.
type Account struct {
	Method  Method `json:"-"`
	Account string `json:"account"` // empty if the method has no account
	Holder  string `json:"account_holder,omitempty"`
}

// ParsePayoutAccount validates a payout method with its account and account holder,
// which are nil if absent. Spaces are removed from an IBAN, and its letters become
// upper case. All violations are returned together.
func ParsePayoutAccount(method Method, number, holder *string) (Account, affiliate.Violations) {
	var wrong affiliate.Violations
	parsed := Account{Method: method}
	if number != nil {
		parsed.Account = *number
	}
	if holder != nil {
		parsed.Holder = *holder
	}
	switch method {
	case Manual, StoreCredit:
		if number != nil {
			wrong.Add("account", "must be absent when {method} is "+string(method))
		}
		if holder != nil {
			wrong.Add("account_holder", "must be absent when {method} is "+string(method))
		}
	case PayPal, Wise:
		if number == nil {
			wrong.Add("account", "is required when {method} is "+string(method))
		} else if !account.BareAddress(*number) {
			wrong.Add("account", affiliate.MustBeEmail)
		}
	case BankTransfer:
		if number == nil {
			wrong.Add("account", "is required when {method} is "+string(method))
		} else {
			var problem string
			if parsed.Account, problem = parseBankAccount(*number); problem != "" {
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

// validIBAN checks the check digits of an IBAN (ISO 13616). If the country and the check digits are
// moved to the end and the letters are replaced by 10 to 35, the number must be 1 modulo 97.
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

// hintLength is the greatest number of characters of an account number that a hint shows. Four
// characters are enough to distinguish two accounts of one person.
const hintLength = 4

// Hint returns the part of the account that may be shown; nil if there is no account.
// For an e-mail address, it is the masked address. For an account number, it is the last
// hintLength characters, but at most half of the number.
func (a Account) Hint() *string {
	var hint string
	switch a.Method {
	case PayPal, Wise:
		hint = affiliate.MaskEmail(a.Account)
	case BankTransfer:
		hint = "••••" + a.Account[len(a.Account)-min(hintLength, len(a.Account)/2):]
	default:
		return nil
	}
	return &hint
}

// String returns only the method, so that logs do not contain the account.
func (a Account) String() string { return string(a.Method) }

// GoString returns the same as String. The formatting verb %#v uses it.
func (a Account) GoString() string { return a.String() }

// SealedMethod is the payout method of a partner as the database stores it. The account is
// encrypted with keys that the database does not have.
type SealedMethod struct {
	Details
	Account []byte // encrypted; nil for a method without account
}

// AccountHold is the time for which new payouts leave out a partner who has changed
// the payout method. It gives the owner of the account time to notice a change by
// somebody else. MethodChange.Apply says when a first method is held too.
const AccountHold = 72 * time.Hour

// AccountKept is the time for which the account of a paid payout is stored. After this time,
// only the masked form of the account is left.
const AccountKept = 30 * 24 * time.Hour

// PreviousEmailKept is the time for which the former address of a user is stored, so that a
// warning about a changed payout method also reaches it.
const PreviousEmailKept = 30 * 24 * time.Hour
