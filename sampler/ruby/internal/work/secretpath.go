package work

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// following is the kind of private text that can come after a part of a URL's path. For example, a name comes after
// "users" in "/users/alice". Such a text must be hidden even if it looks like a word.
type following uint8

const (
	nothing following = iota
	// aName is the name of a person or thing: "/users/alice".
	aName
	// secret is a secret that gives access: "/password_reset/abcdefgh".
	secret
)

// maxPartWords limits how many words are examined in one part of a path.
const maxPartWords = 12

// namePathWords are parts of a path after which a name follows: "/users/alice". Read-only.
var namePathWords = wordSet(`user users people person member members profile profiles account accounts customer customers client clients
tenant tenants company companies organization organizations org orgs team teams author authors patient patients shops coupon coupons
voucher vouchers`)

// secretPathWords are words after which a secret follows in a path. They can be anywhere in a part of the path:
// "reset-password", "email_verification". Read-only.
var secretPathWords = wordSet(`reset resets token tokens invite invites invited invitation invitations confirm confirms confirmation
confirmations verify verifies verification verifications verifier activate activates activation activations reactivate reactivation
unsubscribe unsubscribes optout magic unlock unlocks password passwords passwd pwd passphrase passcode passcodes secret secrets
credential credentials otp totp mfa nonce jwt recover recovery impersonate apikey apikeys redeem authorize forgot forgotten bearer sid csrf
xsrf passkey passkeys validate validation webhook webhooks signed presigned unsub enroll enrollment passwort kennwort contrasena senha
einladung einladungen invitacion blobs representations pwreset pwdreset restore rescue deactivate deactivation masquerade sudo presign
referral referrals refer invitee invitees capability`)

// secretPathEnds are words after which a secret follows if they are a whole part of a path, or the last word of a part:
// "api_keys", "share_link", but not "key-features". Read-only.
var secretPathEnds = wordSet(`share shares shared sharing join joins key keys code codes pin pins link links hook hooks webhook webhooks
session sessions callback callbacks accept accepts acceptance access auth claim claims approve approval approvals ticket signature
signatures cookie cookies login logins logout signin signup register registration onboarding sso saml oauth pat preview previews embed guest
guests download downloads ical ics private disk rsvp sign esign consent pair pairing incoming inbound ingest heartbeat heartbeats gift gifts
promo promos subscribe receipt receipts cancel cancellation invoice invoices attachment attachments shortlink shortlinks track tracking
click clicks contract contracts agreement agreements survey surveys ballot vote license licenses licence licences serial qr feed webcal device`)

// secretPathBegins are words after which a secret follows if they are the first word of a part: "join-team". Read-only.
var secretPathBegins = wordSet(`join accept claim approve pair cancel`)

// secretPathJoins are words that are also recognized within a longer word: "resetpassword", "authtoken", "magiclink".
// They can be at the end of the longer word. A word of more than six letters can also be at its beginning. In a path, a
// secret follows such a longer word. Read-only.
var secretPathJoins = []string{"password", "passwords", "passwd", "passphrase", "passcode", "token", "tokens", "secret", "secrets", "apikey",
	"apikeys", "accesskey", "accesskeys", "magiclink", "magiclinks", "invitation", "invitations", "credentials", "unsubscribe"}

// secretPathTwo are whole parts after which a secret follows. They are recognized with and without separators:
// "sign-in", "signin". Read-only.
var secretPathTwo = wordSet(`signin signup signout onetime optout optin sharelink sharelinks giftcard giftcards sessionid motdepasse
acceptinvite userinvite emailconfirm emailverify emailpreferences emailsettings emailchange changeemail twofactor twostep doubleoptin
managesubscription deleteaccount directupload`)

// secretPathVerbs are verbs that are recognized at the beginning of a longer word, if the text after the verb is its
// object: "verifyemail", "inviteuser". In a path, a secret follows such a word. Read-only.
var secretPathVerbs = []string{"verify", "confirm", "invite", "activate", "unlock"}

// minObject is the least length in bytes of the text that must follow one of secretPathVerbs, such as "user" in
// "inviteuser". Shorter text is only an ending of the verb, as in "confirmed" and "activates".
const minObject = 4

func beginsWithVerb(word string) bool {
	for _, v := range secretPathVerbs {
		if strings.HasPrefix(word, v) && len(word) >= len(v)+minObject {
			return true
		}
	}
	return false
}

// behind returns what kind of private text can follow a part of a path. It recognizes any spelling: "password_reset",
// "Password-Reset", "passwordReset", "passwordreset", "password%5Freset".
func behind(part string) following {
	if len(part) == 1 {
		return aName
	}
	if p, err := url.PathUnescape(part); err == nil {
		part = p
	}
	if strings.ContainsFunc(part, func(r rune) bool { return r >= utf8.RuneSelf }) {
		// the word is of another language, or has letters that only look like ASCII letters: a name may follow it
		return aName
	}
	words := partWords(part)
	if whole := strings.ToLower(part); secretPathWords[whole] || whole == "2fa" {
		return secret
	}
	if n := len(words); n == 2 && secretPathTwo[words[0]+words[1]] || n == 3 && secretPathTwo[words[0]+words[1]+words[2]] ||
		n == 1 && secretPathTwo[words[0]] {
		return secret
	}
	for i, w := range words {
		if secretPathWords[w] || i == len(words)-1 && secretPathEnds[w] || i == 0 && secretPathBegins[w] {
			return secret
		}
		for _, join := range secretPathJoins {
			if strings.HasSuffix(w, join) || beginsWithVerb(w) || strings.HasPrefix(w, join) && len(join) > len("tokens") {
				return secret
			}
		}
	}
	if len(words) == 1 && namePathWords[words[0]] {
		return aName
	}
	return nothing
}

// partWords returns the words of a part of a path in lower case, at most the last maxPartWords of them. A character
// that is no letter separates words, and a capital begins a new word. Several capitals in a row are one word: "APIKeys"
// is "api" and "keys".
func partWords(part string) (words []string) {
	from := -1
	end := func(to int) {
		if from >= 0 && to > from {
			if len(words) == maxPartWords {
				words = words[1:]
			}
			words = append(words, strings.ToLower(part[from:to]))
		}
	}
	capital := func(i int) bool { return i < len(part) && part[i] >= 'A' && part[i] <= 'Z' }
	small := func(i int) bool { return i < len(part) && part[i] >= 'a' && part[i] <= 'z' }
	for i := range len(part) {
		switch {
		case !letter(part[i]):
			end(i)
			from = -1
		case from < 0:
			from = i
		case capital(i) && (small(i-1) || small(i+1) && i-1 >= from && capital(i-1)):
			end(i)
			from = i
		}
	}
	if from >= 0 {
		end(len(part))
	}
	return words
}
