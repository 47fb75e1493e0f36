package push

import (
	"encoding/base64"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxLooked limits how much of a value is searched for secrets, in bytes. ddtop sends only the beginning of a value
// (maxTag), which is far shorter.
const maxLooked = 4096

// LooksSecret reports whether a tag's value looks like a key or a password, or whether the tag's key names a secret.
// If in doubt it returns true, because a missed secret is worse than a missing tag.
func LooksSecret(t Tag) bool {
	t.Key, t.Value = t.Key[:min(len(t.Key), maxLooked)], t.Value[:min(len(t.Value), maxLooked)]
	if secretName(t.Key, t.Value) || hasFormat(t.Key) || secretValue(t.Value) {
		return true
	}
	plain := t.Value
	for range maxDecoded {
		next := decoded(plain)
		if next == plain {
			break
		}
		if plain = next; secretValue(plain) {
			return true
		}
	}
	return inBase64(t.Value) || looksRandom(t.Key, t.Value)
}

// maxDecoded limits how many times a value is decoded. Once is not enough: a URL can contain an encoded URL, which can
// contain another encoded URL.
const maxDecoded = 3

// escaped matches a character that JSON writes as its code number, such as \u0026 for &.
var escaped = regexp.MustCompile(`\\u00[2-7][0-9A-Fa-f]`)

// decoded returns a value after decoding the escapes of JSON, of HTML and of URLs.
func decoded(value string) string {
	value = strings.ReplaceAll(html.UnescapeString(value), `\/`, "/")
	value = escaped.ReplaceAllStringFunc(value, func(code string) string {
		// no error is possible: escaped matches only 00 and two hexadecimal digits
		n, _ := strconv.ParseUint(code[2:], 16, 8)
		return string(rune(n))
	})
	if plain, err := url.QueryUnescape(value); err == nil {
		return plain
	}
	return value
}

// encoded matches text that may be a secret in base64.
var encoded = regexp.MustCompile(`[A-Za-z0-9+/_-]{16,}`)

// inBase64 reports whether a part of a value, decoded from base64, is a secret or a text like user:password.
func inBase64(value string) bool {
	for _, part := range encoded.FindAllString(value, -1) {
		text, err := base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(part))
		if err != nil || strings.ContainsFunc(string(text), func(r rune) bool { return r < ' ' || r > '~' }) {
			continue
		}
		if strings.Contains(string(text), ":") || secretValue(string(text)) {
			return true
		}
	}
	return false
}

// secretValue reports whether a value itself contains a secret. It does not consider the tag's key.
func secretValue(value string) bool { return hasFormat(value) || hasPair(value) || hasAccount(value) }

// These are words in a tag's key that show that the tag's value is a secret. wordsOf splits a key into words. For
// example, DB_Pass, dbPass and db.pass all have the words db and pass.
var (
	// secretParts are parts of words. A key shows a secret if one of them occurs anywhere in a word of the key:
	// dbpassword, myapikeys.
	secretParts = []string{
		"passw", "passphrase", "passcode", "secret", "credential", "apikey", "accesskey", "privatekey", "secretkey",
		"accountkey", "signingkey", "encryptionkey", "masterkey", "authkey", "authtoken", "accesstoken",
		"sharedkey", "sshkey", "cookie", "connstr", "connectionstring", "sessid", "sessionid", "pgpass", "kennwort",
		"contrasena", "motdepasse", "bearer", "authoriz", "mnemonic", "contribsys",
		"privkey", "basicauth", "httpauth", "redisauth", "masterauth", "dockerconfig", "wachtwoord", "losenord",
		"salasana", "adgangskode",
	}
	// secretEnds are ends of words. A key shows a secret if a word of the key ends with one of them: dbpwd, usertoken.
	secretEnds = []string{"pass", "pwd", "pswd", "pw", "token", "tokens", "creds"}
	// secretWords are whole words. A key shows a secret if its last word is one of them.
	secretWords = setOf(
		"auth", "pw", "psw", "cred", "jwt", "otp", "totp", "senha", "sig", "signature", "hmac", "webhook",
		"netrc", "cvv", "cvc", "pat", "pem", "pfx", "p12", "psk", "pincode", "pkey", "sas", "oauth", "csrf", "xsrf",
		"pepper", "salt", "ssn", "dek", "kek", "jks", "parola", "heslo", "haslo", "sifre",
	)
	// harmlessKeys are words before "key" at the end of a tag's key. With such a word, the value is no secret:
	// primary_key, cache_key.
	harmlessKeys = setOf(
		"alias", "answer", "attribute", "blob", "bucket", "business", "cache", "column", "composite", "config",
		"context", "correlation", "dedup", "dedupe", "deduplication", "dictionary", "distribution", "env", "event",
		"feature", "field", "flag", "foreign", "group", "hot", "idempotency", "index", "issue", "item", "job",
		"jira", "label", "lock", "lookup", "map", "message", "metric", "natural", "object", "order", "ordering",
		"parent", "partition", "primary", "project", "pub", "public", "queue", "range", "record", "ref",
		"registry", "resource", "return", "route", "routing", "row", "s3", "search", "setting", "shard", "sort",
		"sorting", "space", "surrogate", "tag", "team", "tenant", "throttle", "tracking", "translation", "unique",
		"user",
	)
	// keyKinds are words before "key". With such a word, the value is a secret: api_key, or as one word licensekey.
	keyKinds = setOf(
		"access", "account", "activation", "admin", "aes", "algolia", "anthropic", "api", "apns", "app",
		"application", "auth", "aws", "azure", "bot", "bugsnag", "cert", "certificate", "client", "cloudflare",
		"cohere", "consumer", "cosmos", "crypt", "datadog", "dd", "decryption", "deploy", "digitalocean", "dsa",
		"ecdsa", "ed25519", "encrypt", "encryption", "encryptor", "fcm", "firebase", "functions", "gcp",
		"github", "gitlab", "gpg", "hmac", "honeybadger", "honeycomb", "ingest", "ingestion", "integration",
		"jwt", "licence", "license", "mailgun", "pass", "unseal", "mapbox", "maps", "master", "mistral", "newrelic", "openai",
		"paypal", "pgp", "plaid", "postmark", "preshared", "priv", "private", "push", "recovery", "rollbar",
		"root", "rsa", "sas", "secret", "segment", "sendgrid", "sentry", "server", "service", "session",
		"shared", "shopify", "sign", "signing", "slack", "square", "ssh", "ssl", "storage", "stripe",
		"subscription", "tls", "twilio", "unlock", "vapid", "vault", "webhook", "write",
	)
	// codeKinds are words before "code" or "phrase". With such a word, the value is a secret: recovery_code.
	codeKinds = setOf(
		"access", "activation", "auth", "backup", "confirm", "confirmation", "invitation", "invite", "login",
		"magic", "mfa", "otp", "pass", "pin", "recovery", "reset", "security", "seed", "unlock", "unsubscribe",
		"verification", "verify",
	)
	// harmlessParts are ordinary words that show no secret, although they contain one of secretParts or end with one of
	// secretEnds.
	harmlessParts = setOf(
		"bypass", "compass", "encompass", "overpass", "passwordless", "secretariat", "secretary", "surpass",
		"trespass", "underpass", "detoken",
	)
	// propertyWords are words at the end of a key. Such a key names only a property of a secret, and not the secret
	// itself: token_type, password_policy.
	propertyWords = setOf(
		"age", "alg", "algorithm", "arn", "audience", "backend", "bits", "bucket", "budget", "consent", "count",
		"dir", "disabled", "domain", "enabled", "endpoint", "engine", "expiration", "expires", "expiry", "file",
		"format", "hasher", "helper", "httponly", "issuer", "kind", "length", "limit", "manager", "max", "method", "min", "mode",
		"name", "path", "policy", "provider", "rate", "ratio", "region", "required", "reset", "rotation",
		"samesite", "scheme", "secure", "server", "service", "size", "source", "state", "status", "store",
		"strategy", "strength", "ttl", "type", "usage", "version",
	)
	// plainWords are values that are never secrets.
	plainWords = setOf("true", "false", "yes", "no", "on", "off", "enabled", "disabled", "none", "null", "nil")
)

// secretName reports whether a tag's key is the name of a secret. It returns false if the value cannot be a secret.
func secretName(key, value string) bool {
	words := wordsOf(key)
	if len(words) == 0 || value == "" || plainWords[strings.ToLower(value)] {
		return false
	}
	last := words[len(words)-1]
	if last == "otp" && len(value) < 4 && strings.Trim(value, "0123456789") == "" {
		return false // the value is a release of Erlang/OTP, such as 27, and not a one-time password
	}
	if propertyWords[last] && len(words) > 1 || strings.HasSuffix(last, "pwd") && strings.HasPrefix(value, "/") {
		return false // token_type is only a property of a secret, and PWD=/app is a folder
	}
	if last == "tokens" && strings.Trim(value, "0123456789.") == "" {
		return false // the value is a number of tokens for a language model, as in max_tokens: 4096
	}
	for i, w := range words {
		if plain := strings.TrimRight(w, "0123456789"); plain != "" && plain != "p" && plain != "ed" {
			w = plain // password2 is treated like password
		}
		before := ""
		if i > 0 {
			before = words[i-1]
		}
		switch {
		case namesSecret(w, i == len(words)-1):
			return true
		case (w == "key" || w == "keys") && before != "" && (keyKinds[before] || strings.Contains(strings.ToLower(key), "crypt") ||
			i == len(words)-1 && !harmlessKeys[before]):
			return true
		case strings.HasSuffix(w, "key") && keyKinds[strings.TrimSuffix(w, "key")]:
			return true
		case w == "id" && (before == "session" || before == "sess"):
			return true
		case w == "sid" && (len(words) == 1 || before == "connect" || before == "session" || before == "cookie"):
			return true
		case w == "passe" && before == "de", w == "answer" && slices.Contains(words, "security"):
			return true
		case w == "verifier" && (before == "code" || before == "oauth"):
			return true
		case (w == "word" || w == "wd") && before == "pass":
			return true
		case (w == "code" || w == "codes" || w == "phrase" || w == "link") && codeKinds[before]:
			return true
		case (w == "header" || w == "string" || w == "data" || w == "info" || w == "value") && before == "auth":
			return true
		case w == "seed" && codeKinds[strings.TrimPrefix(before, "t")]:
			return true
		case w == "dsn" && strings.Contains(value, "@"):
			return true
		case (w == "string" || w == "str") && (before == "connection" || before == "conn"):
			return true
		case w == "url" && before == "webhook", w == "salt" && before != "":
			return true
		case (w == "rsa" || w == "dsa" || w == "ecdsa" || w == "ed25519") && before == "id":
			return true
		}
	}
	return len(words) == 1 && last == "pin"
}

// digitsAsLetters replaces each digit by the letter that looks similar, so that pa55word is found as password.
var digitsAsLetters = strings.NewReplacer("0", "o", "1", "i", "3", "e", "4", "a", "5", "s", "7", "t")

// namesSecret reports whether a word of a key shows that the value is a secret. last is true for the key's last word.
func namesSecret(word string, last bool) bool {
	if harmlessParts[word] || strings.HasPrefix(word, "tokeniz") {
		return false
	}
	letters := digitsAsLetters.Replace(word)
	for _, part := range secretParts {
		if strings.Contains(word, part) || strings.Contains(letters, part) {
			return true
		}
	}
	for _, end := range secretEnds {
		if strings.HasSuffix(word, end) && (last || end != "pass" && end != "tokens") {
			return true
		}
	}
	return last && secretWords[word]
}

// wordsOf splits a key into its words, in lower case. A new word begins where the case of the letters changes, and
// after each character that is neither a letter nor a digit.
func wordsOf(key string) []string {
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		upper := c >= 'A' && c <= 'Z'
		if upper && i > 0 && (isLower(key[i-1]) || i+1 < len(key) && isLower(key[i+1])) {
			b.WriteByte(' ')
		}
		if upper || isLower(c) || c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			b.WriteByte(' ')
		}
	}
	return joined(strings.Fields(strings.ToLower(b.String())))
}

// joined joins consecutive single letters to one word, so that the key p_a_s_s is found as pass.
func joined(words []string) []string {
	var all []string
	single := false
	for _, w := range words {
		if len(w) == 1 && isLower(w[0]) && single {
			all[len(all)-1] += w
			continue
		}
		single = len(w) == 1 && isLower(w[0])
		all = append(all, w)
	}
	return all
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }

var (
	// assigned matches name=value in a connection string, in a URL's query or in a command line. It also matches
	// "--name value".
	assigned = regexp.MustCompile(`([A-Za-z][\w.-]*(?: ?[A-Za-z][\w.-]*)?)["'\\]{0,2}\s*=\s*["'\\]{0,2}([^\s&;,|"'\\]+)` +
		`|--([A-Za-z][\w-]*) +([^\s-]\S*)`)
	// named matches name: value in JSON and YAML, but not the tag of an image (shop/token:1.2).
	named = regexp.MustCompile(`(?:^|[\s{,;|"'])([A-Za-z][\w-]*)["'\\]{0,2}\s*:\s*["'\\]{0,2}([^\s"',}|\\]+)`)
	// element matches <name>value in XML, up to the next tag.
	element = regexp.MustCompile(`<([A-Za-z][\w.-]*)[^<>]*>([^<]+)`)
	// ofQuery matches a parameter in a URL's query, such as key=… or code=…. In a URL the value of such a parameter is
	// a secret, but elsewhere such a name does not show a secret.
	ofQuery = regexp.MustCompile(`(?i)[?&;](?:key|code|sig|signature|x-amz-\w*)=[^&\s]`)
)

// minSession is the shortest length of a session cookie's value that is a secret, in bytes.
const minSession = 8

// hasPair reports whether a value contains a name and a value, such as "Pwd=hunter2", and the name shows a secret.
func hasPair(value string) bool {
	for _, m := range assigned.FindAllStringSubmatch(value, -1) {
		name, of := m[1]+m[3], m[2]+m[4]
		if secretName(name, of) || len(of) >= minSession && strings.HasSuffix(strings.ToLower(name), "session") {
			return true
		}
	}
	for _, m := range named.FindAllStringSubmatch(value, -1) {
		if secretName(m[1], m[2]) && !strings.HasPrefix(m[2], "//") {
			return true
		}
	}
	for _, m := range element.FindAllStringSubmatch(value, -1) {
		if secretName(m[1], m[2]) {
			return true
		}
	}
	return ofQuery.MatchString(value)
}

var (
	// identifiers are keys of tags whose values look random, but are no secrets.
	identifiers = setOf("git.commit.sha", "container_id", "pod_uid", "runtime-id", "version", "host", "traceparent")
	// identifierWords are last words of tags' keys, such as image_digest or node_uid. If the value of such a tag has
	// only hexadecimal digits, it is no secret.
	identifierWords = setOf(
		"alloc", "allocation", "build", "checksum", "commit", "container", "digest", "etag", "fingerprint", "guid", "hash", "id", "image", "md5",
		"md5sum", "release", "rev", "revision", "sha", "sha1", "sha256", "tag", "uid", "uuid", "version",
	)
	// random matches a value that looks like a key: 24 or more characters, which are only letters, digits and the signs
	// of base64.
	random = regexp.MustCompile(`^[A-Za-z0-9+/=_-]{24,}$`)
	// randomPart matches a run of letters, digits and the signs of base64 in a value. The minimum of 32 characters is
	// the length of a key of 24 bytes in base64.
	randomPart = regexp.MustCompile(`[A-Za-z0-9+/_]{32,}`)
	// path matches the beginning of a path or a URL. Paths often have long runs of letters that are no keys.
	path = regexp.MustCompile(`^(?:[a-zA-Z][a-zA-Z0-9+.-]*:/)?/`)
)

// looksRandom reports whether a value looks like random letters and digits, as a secret key does. It returns false if
// the tag's key says that the value is a harmless identifier.
func looksRandom(key, value string) bool {
	if identifiers[key] {
		return false
	}
	words := wordsOf(key)
	identifier := len(words) > 0 && identifierWords[words[len(words)-1]] && !slices.Contains(words, "session")
	if random.MatchString(value) && !(identifier && isHex(value)) && mixed(value) {
		return true
	}
	if path.MatchString(value) {
		return false
	}
	for _, part := range randomPart.FindAllString(value, -1) {
		if !isHex(part) && strings.ContainsAny(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") && changes(part)*3 >= len(part) {
			return true
		}
	}
	return false
}

// isHex reports whether a value has only hexadecimal digits and "-", as a UUID has.
func isHex(text string) bool { return strings.Trim(strings.ToLower(text), "0123456789abcdef-") == "" }

// mixed reports whether a text looks like a random mix of letters and digits. Such a text has one of two forms. The
// first form is 24 or more hexadecimal digits. The second form is a part of 20 or more characters without "-" and "_",
// in which lower case, upper case and digits alternate often: at least one change for every three characters.
func mixed(text string) bool {
	plain := strings.NewReplacer("-", "", "_", "").Replace(text)
	if len(plain) >= 24 && isHex(plain) {
		return true
	}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '-' || r == '_' }) {
		if len(part) >= 20 && changes(part)*3 >= len(part) {
			return true
		}
	}
	return false
}

// changes counts the places in a text where the kind of character changes between lower case, upper case and digit, as
// in aB3. It returns zero for a text without digits.
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
