package push

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// BasicAuth returns the value of the Authorization header for a user and a password.
func BasicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// plainHeaders are headers of ddtop's requests that hold no secrets.
var plainHeaders = []string{
	"Accept", "Connect-Protocol-Version", "Content-Encoding", "Content-Type", "Datadog-Container-Id", "Dd-Evp-Origin", "Dd-Evp-Origin-Version", "Grpc-Accept-Encoding",
	"Grpc-Encoding", "Grpc-Timeout", "Otlp-Profiles-Development-Version", "Te", "User-Agent", "X-Scope-Orgid",
}

// concealed is the text that replaces a secret.
const concealed = "[secret]"

// Conceal replaces the secrets of a request in the server's answer, because a server may repeat the request there. The
// secrets are the values of the request's headers.
func Conceal(answer string, header http.Header) string {
	for key, values := range header {
		if slices.Contains(plainHeaders, http.CanonicalHeaderKey(key)) {
			continue
		}
		for _, value := range values {
			answer = concealValue(answer, value)
		}
	}
	return answer
}

// conceal is like Conceal, and also replaces the secret parts of the request's URL (hidden).
func conceal(text string, header http.Header, hidden []string) string {
	text = Conceal(text, header)
	for _, s := range hidden {
		text = concealSecret(text, s)
	}
	return text
}

// concealSecret replaces a secret in a text. It also replaces the form of the secret that strconv.Quote makes, with its
// escapes.
func concealSecret(text, secret string) string {
	quoted := strconv.Quote(secret)
	return strings.NewReplacer(secret, concealed, quoted[1:len(quoted)-1], concealed).Replace(text)
}

func concealValue(answer, value string) string {
	secrets := []string{value}
	if kind, rest, ok := strings.Cut(value, " "); ok {
		secrets = append(secrets, rest)
		if plain, err := base64.StdEncoding.DecodeString(rest); err == nil && strings.EqualFold(kind, "Basic") {
			_, password, _ := strings.Cut(string(plain), ":")
			secrets = append(secrets, string(plain), password)
		}
	}
	for _, s := range secrets {
		if s != "" {
			answer = concealSecret(answer, s)
		}
	}
	return answer
}

// ParseHeaders parses "name=value,name=value", with %xx for special characters, as OpenTelemetry does.
func ParseHeaders(text string) (http.Header, error) {
	out := make(http.Header)
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || name == "" || strings.ContainsFunc(name, noHeaderName) || strings.ContainsFunc(plain, isControl) {
			// the error does not quote the text, because it may be secret
			return nil, errors.New("it is not name=value,name=value")
		}
		out.Add(name, plain)
	}
	return out, nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// noHeaderName reports whether a character is not allowed in a header's name.
func noHeaderName(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`():<>@,;\"/[]?={}`, r)
}
