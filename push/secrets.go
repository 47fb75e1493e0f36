package push

import (
	"regexp"
	"strings"
)

// identifiers are keys of tags whose values look like keys and are none.
var identifiers = map[string]bool{"git.commit.sha": true, "container_id": true, "pod_uid": true, "runtime-id": true, "version": true}

// secretKey matches the keys of tags whose values are nobody else's business.
var secretKey = regexp.MustCompile(`(?i)passw|passphrase|pwd|secret|token|api[_.-]?key|access[_.-]?key|private[_.-]?key|credential|authorization|cookie`)

// secretValue matches what keys of well-known services look like, private keys, and a password in a URL.
var secretValue = regexp.MustCompile(`(?i)^(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|sk[_-](?:live|test|ant|proj)|rk_live_|AKIA[0-9A-Z]{12}|ASIA[0-9A-Z]{12}|AIza|eyJ[\w-]+\.|ya29\.|SG\.|npm_|pypi-|dd[ap]_|glc_|hvs\.|Bearer |Basic )|-----BEGIN|://[^/@\s]*:[^/@\s]*@|passw(?:or)?d=|[?&;](?:key|token|secret|sig)=`)

// random matches a run of letters and digits as keys are made of.
var random = regexp.MustCompile(`^[A-Za-z0-9+/=_-]{24,}$`)

// LooksSecret reports whether a tag's value looks like a key or a password, or its key says that it is one. It is rather wrong
// about a value that is none than about one that is.
func LooksSecret(t Tag) bool {
	if secretKey.MatchString(t.Key) || secretValue.MatchString(t.Value) {
		return true
	}
	return !identifiers[t.Key] && random.MatchString(t.Value) && mixed(t.Value)
}

// mixed reports whether a text has letters and digits as chance puts them: hexadecimal digits alone, or a part without "-" and
// "_" of 20 characters or more in which every third is of another kind than the one before.
func mixed(text string) bool {
	plain := strings.NewReplacer("-", "", "_", "").Replace(text)
	if len(plain) >= 24 && strings.Trim(strings.ToLower(plain), "0123456789abcdef") == "" {
		return true
	}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '-' || r == '_' }) {
		if len(part) >= 20 && changes(part)*3 >= len(part) {
			return true
		}
	}
	return false
}

// changes counts the characters that are of another kind than the one before; 0 where there are no digits.
func changes(text string) int {
	kind := func(c byte) int {
		switch {
		case c >= 'a' && c <= 'z':
			return 1
		case c >= 'A' && c <= 'Z':
			return 2
		case c >= '0' && c <= '9':
			return 3
		}
		return 0
	}
	n, digits := 0, strings.ContainsAny(text, "0123456789")
	for i := 1; i < len(text); i++ {
		if kind(text[i]) != kind(text[i-1]) {
			n++
		}
	}
	if !digits {
		return 0
	}
	return n
}
