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
	// maxAlertBytes and maxAlerts limit the unsent alert messages of one destination in memory. The first limits their
	// total size in bytes, the second their number.
	maxAlertBytes = 4e6
	maxAlerts     = 1000
	// maxCaptureBytes limits the unsent captures in memory, in bytes. A capture is a recording and a page about an
	// alert.
	maxCaptureBytes = 64e6
	// alertsVariable is the name of the environment variable with further URLs for --alert. The other two are names of
	// variables with headers for the requests to these URLs.
	alertsVariable         = "DDTOP_ALERTS"
	alertHeadersVariable   = "DDTOP_ALERT_HEADERS"
	captureHeadersVariable = "DDTOP_CAPTURE_HEADERS"
)

// Alerts has the destinations that the user named: To for alert messages, and Capture for captures (a recording and a
// page).
type Alerts struct {
	To      []string
	Capture string
}

// urls returns the URLs of the destinations of alert messages, from the flags and the environment.
func (f *Alerts) urls() []string {
	return append(append([]string{}, f.To...), strings.Fields(os.Getenv(alertsVariable))...)
}

// Given reports whether the user has named any destination.
func (f *Alerts) Given() bool { return len(f.urls()) > 0 || f.Capture != "" }

// Open returns a Watch for findings. It returns nil if neither messages nor the status page need findings. profiles are
// the destinations of profiles. Open needs them because some of them also accept messages. figures is true if the
// status page shows findings. version is ddtop's version.
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

// destinations returns the destinations of alert messages. These are the ones that the user named for messages, and
// destinations of profiles that also accept messages.
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

// openWithin is how long opening a folder may still take after the user has told ddtop to end.
const openWithin = time.Second

// Overdue returns a channel that is closed openWithin after ctx has ended. If a folder is still not open at this time,
// its disk hangs.
func Overdue(ctx context.Context) <-chan struct{} {
	over := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(openWithin, func() { close(over) }) })
	return over
}

// openCaptures opens the destination of captures. It gives up when Overdue's channel is closed, because a call to a
// disk that hangs may never return.
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
