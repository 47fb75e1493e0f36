package cli

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/push"
	"github.com/ddtop/ddtop/push/datadog"
	"github.com/ddtop/ddtop/push/files"
	"github.com/ddtop/ddtop/push/otlp"
	"github.com/ddtop/ddtop/push/pyroscope"
	"github.com/ddtop/ddtop/push/spool"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

const (
	// defaultPeriod is how long a profile is, where nothing else is asked for; what most engines expect.
	defaultPeriod = time.Minute
	// defaultSpool is what the spool of one destination may take on disk, and maxInMemory in memory, in bytes; maxSpooled how
	// many profiles it may hold.
	defaultSpool = 256e6
	maxInMemory  = 64e6
	maxSpooled   = 100_000
)

// destinations make a push.Destination of a URL, by its scheme.
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
	return datadog.New(u, strings.TrimSpace(os.Getenv("DD_API_KEY")), Version) // one from a file often ends with a newline
}

func newPyroscope(u *url.URL) (push.Destination, error) {
	return pyroscope.New(u, pyroscope.Access{
		User: os.Getenv("PYROSCOPE_BASIC_AUTH_USER"), Password: strings.TrimSpace(os.Getenv("PYROSCOPE_BASIC_AUTH_PASSWORD")),
		Tenant: strings.TrimSpace(os.Getenv("PYROSCOPE_TENANT_ID")),
	}, Version)
}

// errParca: Parca's own protocol, WriteRaw, is not spoken: there is no module with it to be tested against.
var errParca = errors.New("use OTLP, which Parca takes on the same port: --to otlp+grpc://HOST:7070, with TLS otlp+grpcs://")

func noParca(*url.URL) (push.Destination, error) { return nil, errParca }

func newOTLP(u *url.URL) (push.Destination, error) {
	return otlp.New(u, os.Getenv("OTEL_EXPORTER_OTLP_HEADERS"), Version)
}

// pushFlags are the flags of `ddtop push`.
type pushFlags struct {
	target
	match     matchFlag
	user      userFlag
	to        []string
	period    duration
	spool     string
	spoolSize byteSize
	tags      []string
	status    string
}

// byteSize is a flag's value: a number of bytes.
type byteSize int64

// String returns the value in MB.
func (b *byteSize) String() string { return fmt.Sprintf("%gMB", float64(*b)/1e6) }

// Type is the word for the value in help texts.
func (b *byteSize) Type() string { return "size" }

// Set parses a value.
func (b *byteSize) Set(text string) error {
	n, err := push.ParseBytes(text)
	if err == nil {
		*b = byteSize(n)
	}
	return err
}

func newPush(std Streams) *cobra.Command {
	f := pushFlags{target: target{names: std.redact, ownCode: std.own}, period: duration{value: defaultPeriod, min: time.Second, max: time.Hour}, spoolSize: defaultSpool}
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
	f.addRates(cmd)
	f.addExact(cmd)
	std.own.addTo(cmd)
	return cmd
}

func (f *pushFlags) run(cmd *cobra.Command, words []string, std Streams) error {
	if err := f.check(cmd, words); err != nil {
		return err
	}
	tags, err := f.givenTags()
	if err != nil {
		return err
	}
	find, err := f.match.finder(f.user)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(std.Err, nil))
	warnOfOpenKeys(log)
	ctx := cmd.Context()
	routes, err := f.openRoutes(ctx)
	if err != nil {
		return err
	}
	defer closeRoutes(routes)
	listener, loopback, err := f.listen(log)
	if err != nil {
		return err
	}
	if listener != nil {
		defer listener.Close() // a second time, where it was served
	}
	processes, err := live.OpenGroup(ctx, f.pids, live.GroupOptions{Children: f.children, Find: find, LetGo: true, Options: live.Options{
		StackRate: f.stackRate, LockRate: f.lockRate, Overhead: float64(f.overhead), OverheadMost: f.overheadMost(), Window: f.period.value, OwnCode: f.ownCode.rules(), Progress: layoutProgress(f.names)}})
	if err != nil {
		return err
	}
	g, err := f.exact.group(ctx, processes, logExact(log), true)
	if err != nil {
		return err
	}
	defer g.Close()
	p := newPushing(push.New(routes, log), log, f.period.value, tags)
	if x, ok := g.(*exactGroup); ok {
		p.exact = x.figures
	}
	if listener != nil {
		stop := p.tellAt(listener, loopback)
		defer stop()
	}
	for _, r := range routes {
		log.Info("sending profiles", "to", r.String(), "period", f.period.value, "waiting", r.Queue.Stats().Count)
	}
	return p.run(ctx, g)
}

// check refuses what makes no sense.
func (f *pushFlags) check(cmd *cobra.Command, words []string) error {
	switch {
	case len(words) > 0:
		return usageErrorf("%s takes no argument %q: name processes with -p PID or --match REGEXP", cmd.CommandPath(), words[0])
	case len(f.pids) == 0 && f.match == "":
		return usageErrorf("%s needs -p PID or --match REGEXP; \"ddtop ps\" lists the Ruby processes", cmd.CommandPath())
	case len(f.to) == 0:
		return usageErrorf("%s needs --to URL, where profiles go", cmd.CommandPath())
	}
	if len(f.pids) > 0 {
		if err := f.checkPID(); err != nil {
			return err
		}
	}
	return errors.Join(f.checkRates(), f.checkExact(cmd, false))
}

// logExact tells of exact mode in the log.
func logExact(log *slog.Logger) exactTold {
	return exactTold{
		refused: func(p sampler.Process, why error) {
			log.Warn("a process is sampled only", "pid", p.PID, "program", p.Title, "why", why)
		},
		note: func(p sampler.Process, what, why string) {
			log.Warn(what, "pid", p.PID, "program", p.Title, "why", why)
		},
	}
}

func (f *pushFlags) givenTags() (push.Tags, error) {
	var tags push.Tags
	for _, text := range f.tags {
		t, err := push.ParseTag(text)
		if err != nil {
			return nil, usageErrorf("--tag: %w", err)
		}
		if push.LooksSecret(t) {
			return nil, usageErrorf("--tag: the value of %q looks like a key or a password, and would be sent to everybody who sees profiles", t.Key)
		}
		if t.Key == push.ContainerKey {
			return nil, usageErrorf("--tag: ddtop reads %s from the cgroup of each process: leave it out", t.Key)
		}
		if tags.Get(t.Key) != "" {
			return nil, usageErrorf("--tag: %q is given twice", t.Key)
		}
		tags = tags.With(t.Key, t.Value)
	}
	return tags, nil
}

// routes are the destinations with their queues.
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
			return routes, usageErrorf("--to %s is given twice", d)
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

// destinationOf makes a destination of a URL.
func destinationOf(text string) (push.Destination, error) {
	u, err := url.Parse(text)
	if err != nil {
		var named *url.Error // its text may have a password
		if errors.As(err, &named) {
			err = named.Err
		}
		return nil, usageErrorf("--to: %w", err)
	}
	make, ok := destinations[u.Scheme]
	if u.Scheme == "" {
		return nil, usageErrorf("--to: it takes a URL, as in file:///var/profiles or datadog://127.0.0.1:8126; \"ddtop push --help\" lists them")
	}
	if !ok {
		return nil, usageErrorf("--to: there is no destination %q; \"ddtop push --help\" lists them", u.Scheme+"://")
	}
	d, err := make(u)
	if err != nil {
		return nil, usageErrorf("--to %s://…: %w", u.Scheme, err)
	}
	return d, nil
}

// spoolName is the name of a destination's folder in the spool: one that says which it is, and is another one for another URL.
func spoolName(d push.Destination) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, d.String())
	return fmt.Sprintf("%.40s-%x", name, sha256.Sum256([]byte(d.String())))[:min(len(name), 40)+9]
}

// withinEnd is how long everything may take that comes after the signal to end.
const withinEnd = 4500 * time.Millisecond

// ending is the context of what comes after the end of another one.
func ending(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), withinEnd)
}
