package pushing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/alert"
	"github.com/ddtop/ddtop/push/datadog"
	"github.com/ddtop/ddtop/push/files"
	"github.com/ddtop/ddtop/push/otlp"
	"github.com/ddtop/ddtop/push/spool"
)

const (
	// maxAlertBytes bounds the messages of a destination that wait in memory, in bytes, maxAlerts their number.
	maxAlertBytes = 4e6
	maxAlerts     = 1000
	// maxCaptureBytes bounds the captures that wait in memory, in bytes.
	maxCaptureBytes = 64e6
	// alertsVariable has URLs like --alert, the others headers that requests get.
	alertsVariable         = "DDTOP_ALERTS"
	alertHeadersVariable   = "DDTOP_ALERT_HEADERS"
	captureHeadersVariable = "DDTOP_CAPTURE_HEADERS"
)

// Alerts are the destinations of messages and captures, as flags and the environment name them.
type Alerts struct {
	To      []string
	Capture string
}

// urls are the destinations of messages that were given.
func (f *Alerts) urls() []string {
	return append(append([]string{}, f.To...), strings.Fields(os.Getenv(alertsVariable))...)
}

// Given reports whether there are any.
func (f *Alerts) Given() bool { return len(f.urls()) > 0 || f.Capture != "" }

// Open makes what watches findings. It is nil if they are not wanted. profiles are the destinations of profiles. Some
// take messages, too. figures is true if findings are wanted as figures. version is ddtop's.
func (f *Alerts) Open(ctx context.Context, rules *findings.Rules, profiles []push.Route, figures bool, version string,
	log *slog.Logger) (w *Watch, err error) {
	list, err := f.destinations(profiles, version)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 && f.Capture == "" && !figures {
		return nil, nil
	}
	w = &Watch{Rules: rules}
	if f.Capture != "" {
		to, err := openCaptures(ctx, f.Capture, version)
		if err != nil {
			return nil, err
		}
		q := spool.InMemory(spool.Limits{Bytes: maxCaptureBytes, Count: maxAlerts})
		w.Captures = push.NewOf(push.Captures, []push.Route{{Destination: to, Queue: q}}, log)
		w.Place = to.Place
		log.Info("keeping captures", "to", to.String())
	}
	if len(list) > 0 {
		var routes []push.Route
		for _, d := range list {
			q := spool.InMemory(spool.Limits{Bytes: maxAlertBytes, Count: maxAlerts})
			routes = append(routes, push.Route{Destination: d, Queue: q})
			log.Info("sending alerts", "to", d.String())
		}
		w.Alerts = push.NewOf(push.Alerts, routes, log)
	}
	w.begin()
	return w, nil
}

// destinations are the ones of messages: those that were given, and the ones of profiles that take messages, too.
func (f *Alerts) destinations(profiles []push.Route, version string) (list []alert.Destination, err error) {
	given := make(map[string]bool)
	names := make(map[string]int)
	for _, text := range f.urls() {
		if given[text] {
			return nil, flags.Usagef("--alert: a URL is given twice")
		}
		given[text] = true
		u, err := url.Parse(text)
		if err != nil || u.Scheme == "" {
			return nil, flags.Usagef("--alert: it takes a URL, as in https://alerts.example/ddtop or slack+https://hooks.slack.com/services/…")
		}
		d, err := alert.NewWebhook(u, os.Getenv(alertHeadersVariable), version)
		if err != nil {
			return nil, flags.Usagef("--alert %s://…: %w", u.Scheme, err)
		}
		names[d.String()]++
		d.Number(names[d.String()])
		list = append(list, d)
	}
	for _, r := range profiles {
		switch d := r.Destination.(type) {
		case *otlp.Collector:
			list = append(list, d.Alerts())
		case *datadog.Intake:
			if events := d.Alerts(); events != nil {
				list = append(list, events)
			}
		}
	}
	return list, nil
}

// openWithin is how long folders may take to open after ddtop was told to end.
const openWithin = time.Second

// Overdue returns a channel that is closed openWithin after ctx has ended. A folder that has not opened by then is on a
// disk that hangs.
func Overdue(ctx context.Context) <-chan struct{} {
	over := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(openWithin, func() { close(over) }) })
	return over
}

// openCaptures opens the destination of captures until it is overdue, because a disk that hangs may never answer.
func openCaptures(ctx context.Context, text, version string) (files.Captures, error) {
	type opened struct {
		to  files.Captures
		err error
	}
	result := make(chan opened, 1)
	attach.OnOwnThread(func() {
		to, err := files.NewCaptures(text, os.Getenv(captureHeadersVariable), version)
		result <- opened{to, err}
	})
	select {
	case o := <-result:
		if o.err != nil {
			return nil, fmt.Errorf("--capture: %w", o.err)
		}
		return o.to, nil
	case <-Overdue(ctx):
		return nil, errors.New("--capture: opening the folder has not come back: does its disk answer?")
	}
}
