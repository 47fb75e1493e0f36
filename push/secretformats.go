package push

import (
	"regexp"
	"slices"
)

type format struct {
	service string
	// The field like is a regular expression for the beginning of a secret. The rest of the secret does not matter.
	like string
}

// formats are the formats of the keys of well-known services. Such a key begins with characters that only this service
// uses, for example "aio_". ddtop finds the key anywhere in a value.
var formats = []format{
	{"Adafruit", `aio_[A-Za-z0-9]{20,}`},
	{"age", `AGE-SECRET-KEY-1`},
	{"Airtable", `pat[A-Za-z0-9]{14}\.[0-9a-f]{20,}`},
	{"Alibaba Cloud", `LTAI[A-Za-z0-9]{12,}`},
	{"Asana", `\d/\d{16}:[0-9a-f]{32}`},
	{"Atlassian", `ATATT3[\w=-]+`},
	{"Atlassian", `ATCTT3[\w=-]+`},
	{"Atlassian", `ATBB[A-Za-z0-9]{16,}`},
	{"Atlassian", `BBDC-[\w-]+`},
	{"AWS", `ABSK[A-Za-z0-9+/]{20,}`},
	{"AWS", `amzn\.mws\.`},
	{"AWS", `(?:FwoGZXIvYXdz|IQoJb3JpZ2lu)`},
	{"Azure", `[\w~.-]{3}\dQ~[\w~.-]{20,}`},
	{"Azure", `[\w-]*SharedAccessSignature\s+sr=`},
	{"Brevo", `x(?:key|smtp)sib-`},
	{"Buildkite", `bk(?:ua|at|pt|pat|ci)_[A-Za-z0-9]{10,}`},
	{"CircleCI", `CCI(?:PAT|PRJ)_`},
	{"Clojars", `CLOJARS_[0-9a-z]{10,}`},
	{"Cloudflare", `v1\.0-[0-9a-f]{24}-`},
	{"Contentful", `CFPAT-`},
	{"crates.io", `cio[A-Za-z0-9]{32}`},
	{"Databricks", `dapi[0-9a-f]{24,}`},
	{"Datadog", `dd[ap]_\w{4,}`},
	{"Datadog", `pub[0-9a-f]{32}`},
	{"DigitalOcean", `do[opr]_v1_`},
	{"Discord", `[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{20,}`},
	{"Discord", `discord(?:app)?\.com/api/webhooks/`},
	{"Docker", `dckr_(?:pat|oat)_`},
	{"Doppler", `dp\.(?:pt|st|ct|sa|scim|audit)\.`},
	{"Dropbox", `sl\.(?:u\.)?[\w-]{20,}`},
	{"Duffel", `duffel_(?:live|test)_`},
	{"Dynatrace", `dt0[a-z]\d{2}\.[A-Z0-9]{8,}`},
	{"EasyPost", `EZ[AT]K[A-Za-z0-9]{20,}`},
	{"Facebook", `EAA[A-Z][A-Za-z0-9]{20,}`},
	{"Fernet", `gAAAAA[\w-]{20,}`},
	{"Figma", `fig[dou]r?_[\w-]{10,}`},
	{"Firebase", `AAAA[\w-]{7}:APA91`},
	{"Flutterwave", `FLWSECK(?:_TEST)?-`},
	{"Fly.io", `(?:FlyV1 )?f[mo][12][ar]?_[\w+/=-]{10,}`},
	{"Frame.io", `fio-u-`},
	{"GitHub", `gh[pousr]_\w{4,}`},
	{"GitHub", `github_pat_`},
	{"GitLab", `gl(?:pat|oas|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|ffct|wt)-[\w-]{4,}`},
	{"GitLab", `GR1348941[\w-]+`},
	{"Google", `AIza[\w-]{10,}`},
	{"Google", `ya29\.`},
	{"Google", `GOCSPX-`},
	{"Google", `1//0[\w-]{20,}`},
	{"Grafana", `gl(?:c|sa)_[\w+/=-]{8,}`},
	{"Groq", `gsk_[A-Za-z0-9]{10,}`},
	{"Hashicorp Vault", `hv[sbr]\.[\w-]{4,}`},
	{"Hashicorp Vault", `[sb]\.[A-Za-z0-9]{24}\b`},
	{"Heroku", `HRKU-`},
	{"Honeybadger", `hb[px]_[A-Za-z0-9]{10,}`},
	{"Honeycomb", `hc[abx](?:ik|mk|lk)_`},
	{"HubSpot", `pat-(?:na|eu)\d-`},
	{"Hugging Face", `(?:hf|api_org)_[A-Za-z]{10,}`},
	{"Infracost", `ico-[A-Za-z0-9]{20,}`},
	{"JFrog", `AKCp\w{20,}`},
	{"JFrog", `cmVmdGtu[A-Za-z0-9]+`},
	{"JWT", `eyJ[\w-]+\.`},
	{"JWT", `eyJ[A-Za-z0-9+/_-]{16,}`},
	{"LaunchDarkly", `(?:sdk|mob|api)-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}`},
	{"Linear", `lin_(?:api|oauth)_`},
	{"Mailchimp", `[0-9a-f]{32}-us\d{1,2}`},
	{"Mailgun", `key-[0-9a-z]{24,}`},
	{"Mailgun", `[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}`},
	{"Mandrill", `md-[\w-]{20,}`},
	{"Mapbox", `sk\.eyJ`},
	{"Laravel", `base64:[A-Za-z0-9+/]{32,}`},
	{"Microsoft Teams", `outlook\.office(?:365)?\.com/webhook/`},
	{"Microsoft Teams", `[\w-]+\.webhook\.office\.com/`},
	{"Neon", `napi_[a-z0-9]{10,}`},
	{"Netlify", `nf[pcoub]_[A-Za-z0-9]{10,}`},
	{"New Relic", `NR(?:AK|JS|II|IQ|RA)-[A-Za-z0-9-]+`},
	{"New Relic", `[0-9a-f]{36}NRAL`},
	{"Notion", `secret_[A-Za-z0-9]{20,}`},
	{"Notion", `ntn_[A-Za-z0-9]{10,}`},
	{"npm", `npm_\w{4,}`},
	{"NuGet", `oy2[a-z0-9]{40,}`},
	{"Okta", `SSWS\s+\S{6,}`},
	{"1Password", `ops_eyJ`},
	{"1Password", `A3-[A-Z0-9]{6}-[A-Z0-9]{6,}-`},
	{"OpenAI and Anthropic", `sk-(?:proj|ant|svcacct|admin|or|live|test|None)\b`},
	{"OpenAI and Anthropic", `sk-[A-Za-z0-9]{20,}`},
	{"PayPal", `access_token\$(?:production|sandbox)\$`},
	{"Perplexity", `pplx-[A-Za-z0-9]{10,}`},
	{"Plaid", `access-(?:sandbox|development|production)-[0-9a-f]{8}-`},
	{"PlanetScale", `pscale_(?:tkn|pw|oauth)_`},
	{"PostHog", `ph[cx]_[A-Za-z0-9]{20,}`},
	{"Postman", `PMAK-`},
	{"Prefect", `pn[ub]_[A-Za-z0-9]{20,}`},
	{"Pulumi", `pul-[0-9a-f]{20,}`},
	{"PyPI", `pypi-[\w-]{4,}`},
	{"Razorpay", `rzp_(?:live|test)_`},
	{"ReadMe", `rdme_[a-z0-9]{20,}`},
	{"Render", `rnd_[A-Za-z0-9]{10,}`},
	{"Resend", `re_[A-Za-z0-9]{8}_[A-Za-z0-9]{16,}`},
	{"Replicate", `r8_[A-Za-z0-9]{10,}`},
	{"RubyGems", `rubygems_[0-9a-f]+`},
	{"Scaleway", `SCW[A-Z0-9]{17}`},
	{"SendGrid", `SG\.[\w-]{4,}`},
	{"Sentry", `sntr(?:ys|yu|ya)_`},
	{"Shippo", `shippo_(?:live|test)_`},
	{"Shopify", `shp(?:at|ca|pa|ss|ua|it|tka)_`},
	{"Slack", `xox[a-z](?:\.xox[bp])?-`},
	{"Slack", `xapp-\d-`},
	{"Slack", `hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/`},
	{"SonarQube", `sq[apu]_[0-9a-f]{20,}`},
	{"Square", `sq0[a-z]{3}-`},
	{"Square", `EAAA[\w-]{40,}`},
	{"Stripe", `[sr]k[_-](?:live|test)`},
	{"Stripe", `whsec_\w+`},
	{"Supabase", `(?:sbp|sb_secret)_[A-Za-z0-9_]{10,}`},
	{"Tailscale", `tskey-[a-z]+-`},
	{"Telegram", `(?:bot)?\d{8,10}:AA[\w-]{20,}`},
	{"Tencent Cloud", `AKID[A-Za-z0-9]{13,}`},
	{"Terraform", `[A-Za-z0-9]{14}\.atlasv1\.`},
	{"Twilio", `(?:SK|AC)[0-9a-f]{32}`},
	{"Twitter", `A{20,}[\w%]{10,}`},
	{"Typeform", `tfp_[\w-]{20,}`},
	{"Vercel", `vercel_blob_rw_`},
	{"Vercel", `vc[pciark]_[A-Za-z0-9]{10,}`},
	{"Webhooks of Zapier and IFTTT", `(?:hooks\.zapier\.com/hooks/catch/|maker\.ifttt\.com/trigger/)`},
	{"xAI", `xai-[A-Za-z0-9]{20,}`},
	{"Yandex Cloud", `(?:AQVN[\w-]{20,}|YC[\w-]{38})`},

	{"an Authorization header", `(?i:bearer|token|apikey|negotiate)\s+[\w.~+/=-]{8,}\s*$`},
	{"an Authorization header", `(?i:bearer)\s+\S{4,}`},
	{"an Authorization header", `(?i:basic)\s+[A-Za-z0-9+/]*(?:[a-z][A-Z0-9]|[0-9][A-Za-z]|=)[A-Za-z0-9+/=]*\s*$`},
	{"an Authorization header", `(?i:digest)\s+username=`},
	{"an Authorization header", `AWS4-HMAC-SHA256\s`},
}

// passwordLike matches a word that mixes letters with digits or signs, like most passwords. It does not match a port, a
// path or a name.
const passwordLike = `(?:[A-Za-z]+[0-9]|[A-Za-z]*[0-9]+[A-Za-z]|\w+[!$%&*#?@+~^]\w?)[\w!$%&*#?@+~^-]*`

// others are further formats of secrets, which do not fit into the variable formats. Some of these secrets can be in
// the middle of a word. Others can be recognized only by the words around them.
var others = []format{
	{"AWS", `(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{12,}`},
	{"a private key", `-----BEGIN`},
	{"a private key", `PuTTY-User-Key-File`},
	{"a private key in base64", `LS0tLS1CRUdJTi`},
	{"a password in a URL, which may have a slash or an @ in it", `://[^\s/@]*:\S*@`},
	{"a password in a URL without its scheme", `(?:^|[\s"'=])//[^\s/@]*:\S*@`},
	{"a key as the user of a URL", `://[^\s/@:]{16,}@`},
	{"a token of a URL of NATS", `\bnats(?:\+?tls|s)?://[^\s/@:]+@`},
	{"a password of a URL without its scheme", `^[^\s:/@]+:[^\s@/][^\s@]*@(?:[\w-]+\.)*[\w-]+(?:[:/(]|$)`},
	{"a user and a password for curl", `\s(?:-u|--user)[\s=]+[^\s:]+:\S`},
	{"a password for a client of a database", `\b(?:mysql(?:dump|admin)?|mariadb)\s(?:.*\s)?-p[^\s-]`},
	{"a password for a client of a database", `\bmongo\S*\s(?:.*\s)?-p\s*[^\s-]`},
	{"a password for a client of a database", `\bredis-cli\s(?:.*\s)?-a\s`},
	{"a password for a client without its name", `(?:^|\s)-p\s*["']?` + passwordLike + `["']?(?:\s|$)`},
	{"a line of a netrc", `\b(?:machine\s+\S+|default)\s+login\s+\S+\s+password\s`},
	{"a password for sshpass", `sshpass\s+-p`},
	{"a user and a password for Oracle", `:thin:[^\s/]+/\S+@`},
	{"a hash of a password", `\{(?i:s?sha\d*|s?md5|crypt)\}`},
	{"a hash of a password", `\b(?:pbkdf2_sha\d+|scrypt:\d+:\d+:\d+)\$`},
	{"a hash of a password", `\$(?:2[abxy]|[156y]|apr1|argon2(?:id|i|d)|scrypt|pbkdf2(?:-\w+)?)\$`},
}

// beginnings and anywhere are compiled from the lists formats and others. The expressions in the list beginnings match
// only at the beginning of a text. The expressions in the list anywhere match at any place.
var beginnings, anywhere = compiled(formats, "^(?:", ")"), compiled(others, "", "")

func compiled(list []format, before, after string) []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, f := range list {
		all = append(all, regexp.MustCompile(before+f.like+after))
	}
	return all
}

// harmless matches values that only look like user:password@host. There are three kinds: an image with its digest
// (shop:1.2@sha256:…), a mail address, and a package (pkg:gem/rails@8.0.1).
var harmless = regexp.MustCompile(`^(?:[\w./:-]+@sha\d+:[0-9a-f]+|mailto:[\w.+-]+@[\w.-]+|pkg:[\w./%-]+@[\w.+-]+)$`)

// hasFormat reports whether a text contains the key of a well-known service, or a password in a typical form.
func hasFormat(text string) bool {
	if harmless.MatchString(text) {
		return false
	}
	for i := range len(text) {
		if isAlnum(text[i]) && (i == 0 || !isAlnum(text[i-1])) && anyMatches(beginnings, text[i:]) {
			return true
		}
	}
	return anyMatches(anywhere, text)
}

func anyMatches(list []*regexp.Regexp, text string) bool {
	return slices.ContainsFunc(list, func(like *regexp.Regexp) bool { return like.MatchString(text) })
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
