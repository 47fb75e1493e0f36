package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/ddtop/ddtop/push"
)

var (
	errNoPeriods = errors.New("it takes alerts, not profiles")
	errUserInURL = errors.New("a URL has no user and no password: every user who lists processes would see them")
)

const contentType = "application/json"

// maxBody limits the text of a message for Slack, in bytes. Slack accepts 40,000 characters.
const maxBody = 8000

// Webhook is a Destination that posts JSON, or a message for Slack.
type Webhook struct {
	NoPeriods
	name, to string
	slack    bool
	header   http.Header
	web      *push.Web
}

// NewWebhook returns the destination of a URL. https://HOST/PATH gets JSON, and slack+https://HOST/PATH gets a message
// in Slack's form. The path may be a secret, so the webhook's name does not contain it. headers has the form of
// push.ParseHeaders. ddtop sends these headers with each message, except to Slack. version is ddtop's version.
func NewWebhook(u *url.URL, headers, version string) (*Webhook, error) {
	d := &Webhook{web: push.NewWeb("").NoRedirects().StatusOnly(), header: make(http.Header)}
	scheme, slack := strings.CutPrefix(u.Scheme, "slack+")
	d.slack = slack
	switch {
	case scheme != "https" && scheme != "http":
		return nil, fmt.Errorf("%s:// is no webhook", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("it takes a URL with a host, as in https://alerts.example/ddtop")
	case u.User != nil:
		return nil, errUserInURL
	}
	if !slack {
		var err error
		if d.header, err = push.ParseHeaders(headers); err != nil {
			return nil, fmt.Errorf("DDTOP_ALERT_HEADERS: %w", err)
		}
	}
	d.header.Set("Content-Type", contentType)
	d.header.Set("User-Agent", "ddtop/"+version)
	to := *u
	to.Scheme, to.Fragment = scheme, ""
	d.to = to.String()
	d.web.Hide(&to)
	d.name = u.Scheme + "://" + u.Host
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		d.name += "/…"
	}
	return d, nil
}

// String returns the URL without its path, which may be a secret.
func (d *Webhook) String() string { return d.name }

// Number appends the number n to the webhook's name, if n is above 1. So two webhooks on the same host have different
// names.
func (d *Webhook) Number(n int) {
	if n > 1 {
		d.name += fmt.Sprintf(" (%d)", n)
	}
}

// slackText escapes the characters that would be markup in Slack's messages.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// EncodeAlert makes the body of a message.
func (d *Webhook) EncodeAlert(m *Message) (push.Payload, error) {
	var v any = m
	if d.slack {
		text := m.Body()
		v = map[string]string{"text": "*" + slackText.Replace(m.Headline()) + "*\n" + slackText.Replace(text[:min(len(text), maxBody)])}
	}
	var body bytes.Buffer
	to := json.NewEncoder(&body)
	to.SetEscapeHTML(false)
	err := to.Encode(v)
	return push.Payload{ContentType: contentType, Body: body.Bytes()}, err
}

// Send posts a payload.
func (d *Webhook) Send(ctx context.Context, p *push.Payload) error {
	_, err := d.web.Post(ctx, d.to, d.header, p.Body)
	return err
}
