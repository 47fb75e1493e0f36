package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/heaps"
	"github.com/ddtop/ddtop/internal/cli/pushing"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/cli/sudo"
	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/datadog"
	"github.com/ddtop/ddtop/push/files"
	"github.com/ddtop/ddtop/push/otlp"
	"github.com/ddtop/ddtop/push/pyroscope"
	"github.com/ddtop/ddtop/push/spool"
	"github.com/ddtop/ddtop/push/status"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/sampler/live/group"
)

const (
	// defaultPeriod is how much time a profile of `ddtop push` covers by default. Most destinations expect this length.
	defaultPeriod = time.Minute
	// defaultSpool bounds the unsent profiles of one destination on disk, in bytes. maxInMemory bounds its unsent
	// profiles in memory, in bytes. maxSpooled bounds their number.
	defaultSpool = 256e6
	maxInMemory  = 64e6
	maxSpooled   = 100_000
)

// destinations has, for each scheme of a URL, the function that makes a push.Destination from the URL.
var destinations = map[string]func(*url.URL) (push.Destination, error){
	"file":          func(u *url.URL) (push.Destination, error) { return files.New(u) },
	"datadog":       newDatadog,
	"unix":          newDatadog,
	"datadog+https": newDatadog,

	"pyroscope+http":  newPyroscope,
	"pyroscope+https": newPyroscope,

	"parca+grpc":  noParca,
	"parca+grpcs": noParca,

	"otlp+http":  newOTLP,
	"otlp+https": newOTLP,
	"otlp+grpc":  newOTLP,
	"otlp+grpcs": newOTLP,
}

func newDatadog(u *url.URL) (push.Destination, error) {
	// A key that was read from a file often ends with a newline, which is not part of the key.
	return datadog.New(u, strings.TrimSpace(os.Getenv("DD_API_KEY")), Version)
}

func newPyroscope(u *url.URL) (push.Destination, error) {
	return pyroscope.New(u, pyroscope.Access{
		User: os.Getenv("PYROSCOPE_BASIC_AUTH_USER"), Password: strings.TrimSpace(os.Getenv("PYROSCOPE_BASIC_AUTH_PASSWORD")),
		Tenant: strings.TrimSpace(os.Getenv("PYROSCOPE_TENANT_ID")),
	}, Version)
}

// errParca says what to use instead of Parca's protocol WriteRaw. ddtop does not support WriteRaw, because no Go module
// implements it, so no test could check it.
var errParca = errors.New("use OTLP, which Parca takes on the same port: --to otlp+grpc://HOST:7070, with TLS otlp+grpcs://")

func noParca(*url.URL) (push.Destination, error) { return nil, errParca }

func newOTLP(u *url.URL) (push.Destination, error) {
	return otlp.New(u, os.Getenv("OTEL_EXPORTER_OTLP_HEADERS"), Version)
}

type pushFlags struct {
	target
	match     matchFlag
	user      userFlag
	to        []string
	period    flags.Duration
	spool     string
	spoolSize flags.ByteSize
	tags      []string
	status    string
	alerts    pushing.Alerts
	heap      bool
	rules     *screenRules
}

func newPush(std run.Streams) *cobra.Command {
	f := pushFlags{target: target{names: std.Redact, ownCode: std.Own}, rules: newScreenRules(), period: flags.Duration{Value: defaultPeriod, Min: time.Second, Max: time.Hour}, spoolSize: defaultSpool}
	cmd := &cobra.Command{
		Use:   "push -p PID|--match REGEXP --to URL",
		Short: "Send a profile of each process every minute",
		Long: `Send a profile of each process every minute until ddtop is stopped. Keep profiles that could not be sent and send them
later. Logs go to standard error. SIGTERM sends what was measured since the last profile.

Destinations (--to can be repeated; destinations do not affect each other):
  datadog://HOST:8126        Datadog's agent
  unix:///PATH/apm.socket    Datadog's agent, by its socket
  datadog+https://SITE       Datadog without an agent (datadoghq.eu), with the key in DD_API_KEY
  pyroscope+http://HOST:4040, pyroscope+https://HOST
                             Pyroscope or Grafana Alloy, with PYROSCOPE_BASIC_AUTH_USER and
                             PYROSCOPE_BASIC_AUTH_PASSWORD; ?tenant=NAME names the tenant
  otlp+http://HOST:4318, otlp+https://HOST, otlp+grpc://HOST:4317, otlp+grpcs://HOST
                             an OpenTelemetry collector with --feature-gates=service.profilesSupport;
                             OTEL_EXPORTER_OTLP_HEADERS (name=value,…) holds credentials
  file:///FOLDER             pprof files, PROGRAM-PID-TIME.pb.gz; the oldest are removed after a week
                             or past 1 GB (?max-age=168h&max-size=1GB)

ddtop reads all keys and passwords from its own environment.

Findings are watched with --alert, --capture or --status, and for the destinations otlp+… (as logs) and unix:// (as
events, by dsd.socket beside apm.socket). A message says when a finding of a service begins, and when it has been over
for a minute. --alert takes:
  https://HOST/PATH          JSON by POST, with the headers of DDTOP_ALERT_HEADERS (name=value,…)
  slack+https://HOST/PATH    a message for Slack's incoming webhooks
DDTOP_ALERTS can hold such URLs, with spaces between them: they are often secrets.

--match follows all Ruby processes whose command line or title matches, including forks, restarts and deploys.
If --exact ends by itself, ddtop tries again after a minute, then after twice as long each time, up to an hour.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args, std) },
	}
	cmd.Flags().VarP(&f.pids, "pid", "p", "the `PID` of the process; several: 17,18,19")
	f.match.addMatch(cmd)
	f.user.addUser(cmd)
	cmd.Flags().BoolVar(&f.children, "children", false, "also follow the Ruby processes below them, including later ones")
	cmd.Flags().StringArrayVar(&f.to, "to", nil, "send profiles to this `URL`; can be repeated")
	cmd.Flags().Var(&f.period, "period", "how much time each profile covers")
	cmd.Flags().StringVar(&f.spool, "spool", "", "keep unsent profiles in this `FOLDER`, also when ddtop ends; without it in memory")
	cmd.Flags().Var(&f.spoolSize, "spool-size", "the most to keep for each destination; in memory at most 64MB")
	cmd.Flags().StringArrayVar(&f.tags, "tag", nil, "add a tag `key:value` to all profiles; can be repeated")
	cmd.Flags().StringVar(&f.status, "status", "", "answer /healthz, and /metrics for Prometheus, at this `ADDRESS`: 9464 is 127.0.0.1:9464")
	cmd.Flags().StringArrayVar(&f.alerts.To, "alert", nil, "send a message to this `URL` when a finding begins and ends; can be repeated")
	cmd.Flags().StringVar(&f.alerts.Capture, "capture", "", "keep a recording and a page around each alert, in a folder or at a `URL`")
	cmd.Flags().BoolVar(&f.heap, "heap", false, "add the live objects by class to every fifth profile")
	addFinding(cmd, f.rules.flag)
	f.addRates(cmd)
	f.addExact(cmd)
	f.addNative(cmd)
	f.debug.AddTo(cmd, std)
	std.Own.AddTo(cmd)
	std.Redact.AddTo(cmd)
	return cmd
}

func (f *pushFlags) run(cmd *cobra.Command, words []string, std run.Streams) error {
	if err := errors.Join(f.configure(cmd), f.check(cmd, words)); err != nil {
		return err
	}
	tags, err := f.givenTags()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(std.Err, nil))
	find, err := f.match.finder(f.user, func(text string) { log.Warn(text) })
	if err != nil {
		return err
	}
	warnOfOpenKeys(log)
	ctx := cmd.Context()
	routes, err := f.openRoutes(ctx)
	if err != nil {
		return err
	}
	defer closeRoutes(routes)
	watch, err := f.alerts.Open(ctx, f.rules.rules, routes, f.status != "", Version, log)
	if err != nil {
		return err
	}
	listener, loopback, err := f.listen(log)
	if err != nil {
		return err
	}
	if listener != nil {
		defer listener.Close() // harmless if the server has already closed it
	}
	options := live.Options{
		From: f.from(), Running: f.native, Debug: f.debug.Client, StackRate: f.stackRate, LockRate: f.lockRate, Overhead: f.overhead.Share, OverheadMost: f.overheadMost(), Window: f.period.Value, Redactor: f.names.Redactor(), OwnCode: f.ownCode.Rules(), Progress: layoutProgress(f.names)}
	processes, err := group.Open(ctx, f.pids, group.Options{Children: f.children, Find: find, LetGo: true, Options: options})
	if err != nil {
		return err
	}
	g, err := f.exact.Group(ctx, processes, logExact(log), true)
	if err != nil {
		return err
	}
	defer g.Close()
	p := pushing.New(push.New(routes, log), log, f.period.Value, tags, Version)
	p.Watch, p.Redact = watch, f.names.Redactor() != nil
	if x, ok := g.(*exact.Probed); ok {
		p.Exact = x.Figures
	}
	if f.heap {
		p.Heaps = heaps.NewReaders(options)
		defer p.Heaps.Close()
	}
	if listener != nil {
		stop := p.TellAt(listener, loopback)
		defer stop()
	}
	for _, r := range routes {
		log.Info("sending profiles", "to", r.String(), "period", f.period.Value, "waiting", r.Queue.Stats().Count)
	}
	return p.Run(ctx, g)
}

func (f *pushFlags) check(cmd *cobra.Command, words []string) error {
	switch {
	case len(words) > 0:
		return flags.Usagef("%s takes no argument %q: name processes with -p PID or --match REGEXP", cmd.CommandPath(), words[0])
	case len(f.pids) == 0 && f.match == "":
		return flags.Usagef("%s needs -p PID or --match REGEXP; \"ddtop ps\" lists the Ruby processes", cmd.CommandPath())
	case len(f.to) == 0 && !f.alerts.Given():
		return flags.Usagef("%s needs --to URL, where profiles go, or --alert URL for messages about findings", cmd.CommandPath())
	}
	if len(f.pids) > 0 {
		if err := f.checkPID(); err != nil {
			return err
		}
	}
	return errors.Join(f.checkRates(), f.checkExact(cmd, false))
}

// logExact returns functions that log what happens to exact mode (--exact).
func logExact(log *slog.Logger) exact.Told {
	return exact.Told{
		Refused: func(p sampler.Process, why error) {
			log.Warn("a process is sampled only", "pid", p.PID, "program", p.Title, "why", why)
		},
		Note: func(p sampler.Process, what, why string) {
			log.Warn(what, "pid", p.PID, "program", p.Title, "why", why)
		},
	}
}

func (f *pushFlags) givenTags() (push.Tags, error) {
	var tags push.Tags
	for _, text := range f.tags {
		t, err := push.ParseTag(text)
		if err != nil {
			return nil, flags.Usagef("--tag: %w", err)
		}
		if push.LooksSecret(t) {
			return nil, flags.Usagef("--tag: the value of %q looks like a key or a password, and would be sent to everybody who sees profiles", t.Key)
		}
		if t.Key == push.ContainerKey {
			return nil, flags.Usagef("--tag: ddtop reads %s from the cgroup of each process: leave it out", t.Key)
		}
		if tags.Get(t.Key) != "" {
			return nil, flags.Usagef("--tag: %q is given twice", t.Key)
		}
		tags = tags.With(t.Key, t.Value)
	}
	return tags, nil
}

func (f *pushFlags) routes() (routes []push.Route, err error) {
	defer func() {
		if err != nil {
			for _, r := range routes {
				err = errors.Join(err, r.Queue.Close())
			}
		}
	}()
	if f.spool != "" {
		folder, err := safefile.OwnFolder(f.spool)
		if err == nil {
			err = folder.Close()
		}
		if err != nil {
			return nil, fmt.Errorf("--spool: %w", err)
		}
	}
	limits := spool.Limits{Bytes: int64(f.spoolSize), Count: maxSpooled}
	seen := make(map[string]bool)
	for _, text := range f.to {
		d, err := destinationOf(text)
		if err != nil {
			return routes, err
		}
		if seen[d.String()] {
			return routes, flags.Usagef("--to %s is given twice", d)
		}
		seen[d.String()] = true
		var q *spool.Queue
		if f.spool == "" {
			limits.Bytes = min(limits.Bytes, maxInMemory)
			q = spool.InMemory(limits)
		} else if q, err = spool.Open(filepath.Join(f.spool, spoolName(d)), limits); err != nil {
			return routes, err
		}
		routes = append(routes, push.Route{Destination: d, Queue: q})
	}
	return routes, nil
}

func destinationOf(text string) (push.Destination, error) {
	u, err := url.Parse(text)
	if err != nil {
		var named *url.Error // use only the inner error: the outer one contains the URL, maybe with a password
		if errors.As(err, &named) {
			err = named.Err
		}
		return nil, flags.Usagef("--to: %w", err)
	}
	make, ok := destinations[u.Scheme]
	if u.Scheme == "" {
		return nil, flags.Usagef("--to: it takes a URL, as in file:///var/profiles or datadog://127.0.0.1:8126; \"ddtop push --help\" lists them")
	}
	if !ok {
		return nil, flags.Usagef("--to: there is no destination %q; \"ddtop push --help\" lists them", u.Scheme+"://")
	}
	d, err := make(u)
	if err != nil {
		return nil, flags.Usagef("--to %s://…: %w", u.Scheme, err)
	}
	return d, nil
}

// spoolName returns the name of a destination's folder in the spool (the folder of unsent profiles). A person can
// recognize the URL in it. Each URL has a different name.
func spoolName(d push.Destination) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, d.String())
	return fmt.Sprintf("%.40s-%x", name, sha256.Sum256([]byte(d.String())))[:min(len(name), 40)+9]
}

// listen opens the address that --status names. The listener is nil if there is no --status.
func (f *pushFlags) listen(log *slog.Logger) (l net.Listener, loopback bool, err error) {
	if f.status == "" {
		return nil, false, nil
	}
	address, loopback, err := status.ParseAddress(f.status)
	if err != nil {
		return nil, false, flags.Usagef("--status: %w", err)
	}
	if l, err = net.Listen("tcp", address); err != nil {
		return nil, false, fmt.Errorf("--status: %w; another port, or 127.0.0.1:0 for any that is free", err)
	}
	if loopback {
		log.Info("telling figures", "at", "http://"+l.Addr().String()+"/metrics")
	} else {
		log.Warn("telling figures to whoever can reach this machine: the names of services and destinations, and how busy they are", "at", "http://"+l.Addr().String()+"/metrics")
	}
	return l, loopback, nil
}

// openRoutes calls routes, but gives up if it takes too long, because a call to a disk that hangs may never return.
func (f *pushFlags) openRoutes(ctx context.Context) ([]push.Route, error) {
	type opened struct {
		routes []push.Route
		err    error
	}
	done := make(chan opened, 1)
	// If this call hung on the main thread, no thread would get the signals sent to the process.
	attach.OnOwnThread(func() {
		routes, err := f.routes()
		done <- opened{routes, err}
	})
	select {
	case o := <-done:
		return o.routes, o.err
	case <-pushing.Overdue(ctx):
		return nil, fmt.Errorf("opening the destinations and their spools has not come back: does the disk of %s answer?",
			cmp.Or(f.spool, strings.Join(f.to, ", ")))
	}
}

// closeWithin limits how long push may take at its end to close the spools of unsent profiles.
const closeWithin = 400 * time.Millisecond

// closeRoutes closes the spools, but waits at most closeWithin. Unsent profiles stay on disk even if it gives up.
func closeRoutes(routes []push.Route) {
	done := make(chan struct{})
	attach.OnOwnThread(func() {
		for _, r := range routes {
			_ = r.Queue.Close()
		}
		close(done)
	})
	select {
	case <-done:
	case <-time.After(closeWithin):
	}
}

const (
	// envFileVariable is the environment variable with the path of `ddtop push`'s environment file. The default path is
	// envFile. The systemd unit sets this variable.
	envFileVariable = "DDTOP_ENV_FILE"
	envFile         = "/etc/ddtop/push.env"
)

// warnOfOpenKeys logs a warning if other users can read the file with the keys of destinations.
func warnOfOpenKeys(log *slog.Logger) {
	path := cmp.Or(os.Getenv(envFileVariable), envFile)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return // the file does not exist
	}
	if mode := info.Mode().Perm(); mode&0o044 != 0 {
		log.Warn("others can read the file with the keys of destinations", "file", path, "mode", mode.String(), "run", "chmod 600 "+sudo.ShellWords([]string{path}))
	}
}
