package account

import (
	"strings"
	"unicode"
)

// CommonPassword reports whether a password is easy to guess: a frequent password of at
// least ten characters, one repeated character, or a simple sequence of digits or
// letters. The API checks the length separately.
func CommonPassword(password string) bool {
	folded := strings.ToLower(password)
	if commonPasswords[folded] {
		return true
	}
	return strings.Trim(folded, folded[:1]) == "" ||
		strings.Contains("01234567890123456789"+"9876543210987654321"+"abcdefghijklmnopqrstuvwxyz"+"qwertyuiopasdfghjklzxcvbnm", folded)
}

// PersonalPassword reports whether a password consists of a text that others know about
// the user: the name, the e-mail address or the part of the address before the @. Case,
// spaces, punctuation and digits at the end of the password make no difference.
func PersonalPassword(password, name, email string) bool {
	password = compact(password)
	withoutDigits := strings.TrimRightFunc(password, unicode.IsDigit)
	local, _, _ := strings.Cut(email, "@")
	for _, text := range []string{name, email, local} {
		text = compact(text)
		if text != "" && (password == text || withoutDigits == text) {
			return true
		}
	}
	return false
}

// compact returns the letters and digits of s in lower case.
func compact(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

// commonPasswords holds frequent passwords of at least ten characters from published
// lists of leaked passwords. Shorter passwords are rejected because of their length.
var commonPasswords = func() map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(`
		password12 password123 password1234 password12345 password123! password1! passw0rd12 passw0rd123
		p@ssw0rd123 p@ssword123 passwordpassword mypassword mypassword1 newpassword changeme123 changeme1234
		letmein123 letmein1234 welcome123 welcome1234 welcome2024 welcome2025 welcome2026 qwerty1234 qwerty12345 qwerty123456
		1qaz2wsx3edc 1q2w3e4r5t 1q2w3e4r5t6y zaq12wsxcde qazwsxedcrfv q1w2e3r4t5 q1w2e3r4t5y6 asdfghjkl1 asdfghjkl123
		iloveyou12 iloveyou123 iloveyou1234 sunshine12 sunshine123 princess12 princess123 football12 football123
		baseball12 baseball123 superman123 batman12345 dragon1234 monkey1234 master1234 michael123 jennifer12 jordan2323
		charlie123 liverpool1 liverpool123 chelsea123 arsenal123 barcelona1 manchester1 administrator admin12345 admin123456
		administrator1 rootroot123 root123456 test123456 testtest123 testpassword user123456 guest12345 default123
		abcd123456 abc1234567 abc12345678 abcdef123456 abcdefg123 a123456789 a1234567890 123456789a 1234567890a 12345678910
		123456123456 1234512345 1212121212 1231231234 123123123123 1029384756 0987654321 9876543210 147258369a 1472583690
		0123456789 1111111111 qwertyuiop qwertyuiop1 qwertyuiop123 qwerty123! computer123 internet123 whatever123
		trustno1trustno1 starwars123 pokemon123 minecraft123 samsung123 google1234 facebook123 secret1234 secretpassword
	`) {
		set[word] = true
	}
	return set
}()
