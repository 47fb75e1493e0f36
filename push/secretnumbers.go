package push

import (
	"regexp"
	"strings"
)

var (
	// card matches what may be the number of a payment card: a number with the first digits and the length of a card
	// brand. A blank or a hyphen may separate the number's groups of digits. card matches no part of a longer number or
	// of a UUID.
	card = regexp.MustCompile(`(?:^|[^\w-])((?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6(?:011|4[4-9]\d|5\d\d))[ -]?\d{4}[ -]?\d{4}[ -]?\d{4}` +
		`|3[47]\d\d[ -]?\d{6}[ -]?\d{5})(?:$|[^\w-])`)
	// iban matches what may be the number of a bank account (ISO 13616). It is written without blanks, or in groups of
	// four.
	iban = regexp.MustCompile(`\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b`)
)

// hasAccount reports whether a value contains the number of a payment card or of a bank account. A number counts only
// if its check digits are right.
func hasAccount(value string) bool {
	for _, text := range card.FindAllStringSubmatch(value, -1) {
		if luhn(withoutSigns.Replace(text[1])) {
			return true
		}
	}
	for _, text := range iban.FindAllString(value, -1) {
		if validIBAN(withoutSigns.Replace(text)) {
			return true
		}
	}
	return false
}

// withoutSigns removes blanks and hyphens, which separate groups of digits.
var withoutSigns = strings.NewReplacer(" ", "", "-", "")

// luhn reports whether the check digit of a card's number, its last digit, is right (ISO 7812).
func luhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		n := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

// minIBAN is the length of the shortest bank account numbers, Norway's, in characters.
const minIBAN = 15

// validIBAN reports whether the two check digits of a bank account number are right. To check them, it moves the first
// four characters to the end, and reads letters as 10 to 35. The resulting number modulo 97 must be 1.
func validIBAN(text string) bool {
	if len(text) < minIBAN {
		return false
	}
	rest := 0
	for _, c := range []byte(text[4:] + text[:4]) {
		if c >= 'A' {
			rest = (rest*100 + int(c-'A') + 10) % 97
		} else {
			rest = (rest*10 + int(c-'0')) % 97
		}
	}
	return rest == 1
}
