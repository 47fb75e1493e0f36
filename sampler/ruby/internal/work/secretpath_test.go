package work

import (
	"strings"
	"testing"
)

// TestSecretsInPaths passes paths with a part that can let a user in, such as a token. This part must never be shown,
// even if it looks like a word. The path before it must be shown, unless it has capitals.
func TestSecretsInPaths(t *testing.T) {
	const token = "banana"
	for _, c := range []string{
		"password_reset", "reset-password", "passwordReset", "PasswordReset", "password-reset", "password%5Freset", "password.reset", "passwordreset",
		"resetpassword", "password_resets", "password/reset", "password/edit", "users/password", "account/reset-password", "set_password",
		"api_keys", "api-key", "apiKeys", "APIKeys", "apikey", "api/v1/api_keys", "access-tokens", "accessToken", "auth_token", "authtoken",
		"magic-link", "magic_links", "magicLink", "magiclink", "magic/login", "sign-in-link", "login_links",
		"invite/accept", "invite", "invites/accept", "accept-invite", "acceptInvitation", "invitations/accept/confirm", "team-invitations",
		"users/invitation/accept", "accept", "join", "join-team", "claim",
		"confirm", "confirm-email", "confirmEmail", "email_confirmation", "users/confirmation", "confirm/email", "confirm/account",
		"verify", "verify-email", "email-verification", "verify/phone", "verification/sms", "unlock", "users/unlock", "account_unlock",
		"activation", "activations", "activate-account", "account/activate", "session", "sessions", "user_sessions", "oauth/callback",
		"oauth_callback", "auth/github/callback", "share", "shared", "share-link", "shares", "file_share", "unsubscribe", "email/unsubscribe",
		"sign_in", "signin", "login", "sso", "2fa", "one-time", "onboarding", "register", "validate-email", "verifyemail", "inviteuser",
		"emailconfirm", "acceptinvite", "oauth/authorize", "bearer", "presigned", "signed-url", "sharelink", "unsub", "opt-out", "optOut",
		"session-id", "passkey", "private", "ical", "preview", "embed", "guest", "sign", "pair", "download", "files/download",
		"rails/active_storage/blobs", "rails/active_storage/blobs/redirect", "rails/active_storage/disk", "webhookReceiver", "webhooks/github",
		"gift-card", "ReSeT", "passwort", "mot-de-passe", "einladung", "r\u0435set", "invitations/42", "invitations/42/43", "reset/", "reset/..",
		"otp", "one-time-password", "secrets", "client-secret", "webhooks", "incoming-webhook", "recovery-codes", "recover", "sso/callback", "approve",
		"pwreset", "email-change", "change_email", "rescue", "restore-account", "deactivate", "cancel", "cancel-subscription", "manage-subscription",
		"email_settings", "double-opt-in", "track", "order/tracking", "click", "shortlink", "invitee", "referral", "attachments", "invoice", "pay/invoice",
		"receipts", "feed", "calendar/feed", "webcal", "device", "pair-device", "qr", "masquerade", "sudo", "delete-account", "survey", "ballot", "vote",
		"license", "serial", "direct_upload", "presign", "contract", "agreement", "capability", "two-factor", "two_factor",
	} {
		for _, path := range []string{"/" + c + "/" + token, "/app/" + c + "/" + token + "/edit"} {
			got := Pattern(path)
			if strings.Contains(got, token) {
				t.Errorf("%s: %s shows the secret", path, got)
			}
			alike := strings.ToLower(c) != c || strings.ContainsAny(c, ".%0123456789\u0435") || strings.HasPrefix(c, "users/") || strings.HasPrefix(c, "account/") ||
				// in these paths, ddtop can also hide a part before the secret, because this part may be a name, or is
				// no word
				c == "auth/github/callback"
			if shown := strings.Replace(path, token, ID, 1); !alike && got != shown {
				t.Errorf("%s: %s hides more than the secret, want %s", path, got, shown)
			}
		}
	}
	if got := Pattern("/reset/newsletter/banana"); got != "/reset/:id/:id" {
		t.Errorf("behind a part that may be the secret: %s", got)
	}
}

// TestHarmlessPathsStay passes paths without a secret and without a person's name. Their words must stay readable.
func TestHarmlessPathsStay(t *testing.T) {
	for _, path := range []string{
		"/", "/orders", "/orders/new", "/orders/search", "/admin/dashboard", "/admin/orders/export", "/api/v1/orders", "/api/v2/products/search",
		"/health", "/healthz", "/up", "/assets/application.js", "/packs/main.css", "/.well-known/openid", "/rails/mailers", "/cable",
		"/password/new", "/password/edit", "/password_resets/new", "/login", "/logout", "/sessions/new", "/users/password/new",
		"/invitations/new", "/api_keys/new", "/tokens/refresh", "/oauth/authorize", "/oauth/token", "/settings/notifications", "/settings/security",
		"/blog/archive", "/docs/guides/install", "/pricing/plans", "/about/careers", "/search/advanced", "/cart/checkout", "/checkout/payment",
		"/presets/list", "/presets/colors", "/keyboards/layouts", "/monkeys/feeding", "/linkedin/posts", "/coder/jobs", "/pinboard/recent",
		"/key-features/pricing", "/code-review/open", "/link-building/tips", "/sharepoint/files", "/shareholders/meeting", "/hookups/cables", "/confirmed",
		"/authors", "/authentic/goods", "/accessories/bags", "/joinery/tools", "/sessionless/demo", "/magical/places",
		"/users/sign_in", "/users/sign_up", "/webhooks/stripe", "/auth/google/callback", "/users/invitation/accept", "/teams/members",
		"/user/sign_in", "/admins/sign_in", "/users/sign_out", "/surveys/new", "/licenses/all", "/invoices/search", "/feeds/rss", "/trackers/list",
		"/contractors/open", "/devices/all", "/voters/list", "/clickers/daily",
		"/oauth/applications", "/downloads/latest", "/signs/road", "/assignments/open", "/designs/new", "/reports/daily", "/metrics",
	} {
		if got := Pattern(path); got != path {
			t.Errorf("%s became %s", path, got)
		}
	}
}

// TestPartWords cuts parts of paths into words.
func TestPartWords(t *testing.T) {
	for part, want := range map[string]string{
		"": "", "a": "a", "password_reset": "password reset", "passwordReset": "password reset", "APIKeys": "api keys", "API": "api", "resetPW2": "reset pw",
		"Reset-Password.html": "reset password html", "__x__": "x", "oauth2Callback": "oauth callback", "ÄpfelKey": "pfel key",
	} {
		if got := strings.Join(partWords(part), " "); got != want {
			t.Errorf("%q: %q, want %q", part, got, want)
		}
	}
	if n := len(partWords(strings.Repeat("a-", 1000))); n != maxPartWords {
		t.Errorf("%d words", n)
	}
}
