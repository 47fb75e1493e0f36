package cli_test

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/ui"
)

// TestRailsShowsItsOwnCode: ddtop watches a Rails application under load, and the user presses no key. The flamegraph
// on the first screen shows the application's own controller and model. This is not easy, because each stack also has
// about a hundred frames of Puma, Rack and Rails.
func TestRailsShowsItsOwnCode(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	app := servertest.StartRails(t, 1, 5)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 5 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					answer, err := http.Get(app.URL + "/orders?page=3")
					if err != nil {
						return // the test has ended the server
					}
					if _, err := io.Copy(io.Discard, answer.Body); err != nil {
						t.Error(err)
					}
					answer.Body.Close()
				}
			}
		})
	}
	file := filepath.Join(t.TempDir(), "rails.ddtop")
	run(t, "record", "-p", strconv.Itoa(app.Workers[0]), "-d", "15s", "--overhead", "off",
		"--native", "--format", "ddtop", "-o", file).want(t, 0)
	close(stop)
	clients.Wait()
	if live.MayRun() == nil {
		extensionsFit(t, file)
	}
	for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 50}} {
		src, err := recording.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ui.TakePicture(t.Context(), ui.Options{Source: src, NoColor: true}, size[0], size[1])
		if err != nil {
			t.Fatal(err)
		}
		_, flame, _ := strings.Cut(p.Text, "wall time")
		flame, _, _ = strings.Cut(flame, "hottest functions")
		want := []string{`Orders\S*#index`, `⋯ .*puma`}
		if size[0] >= 120 { // only then is the model's cell wide enough for its class
			want = []string{`OrdersController#index`, `⋯ .*puma`, `(Ord\S*)?\.page`}
		}
		for _, label := range want {
			if !regexp.MustCompile(label).MatchString(flame) {
				t.Errorf("at %dx%d the flamegraph has no %s:\n%s", size[0], size[1], label, p.Text)
			}
		}
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}
}

// extensions has the Ruby extensions that implement methods in C. The key is the beginning of the methods' names, and
// the value is the name of the extension.
var extensions = map[string]string{"PG::": "pg_ext", "StringIO": "stringio", "StringScanner": "strscan", "Monitor#": "monitor",
	"JSON::Ext::Generator": "generator", "JSON::Ext::Parser": "parser", "Puma::HttpParser#": "puma_http11", "NIO::": "nio4r_ext"}

// extensionsFit checks the stacks of running threads in a recording. If the innermost Ruby method is implemented by a C
// extension, the first C function that it calls must be in this extension. It may also be in Ruby itself, which can do
// other work while the method's frame is still on the stack.
func extensionsFit(t *testing.T, file string) {
	t.Helper()
	r, err := recording.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d := r.Dictionary()
	all, fit := 0, 0
	_ = r.Run(t.Context(), func(s *sampler.Sample) { // Run returns an error at the end of the recording
		for i := range s.Runs {
			all++
			var outermost sampler.Frame
			for _, id := range d.Frames(s.Runs[i].Stack, nil) {
				f := d.Frame(id)
				if f.IsNative() {
					outermost = f
					continue
				}
				for begin, library := range extensions {
					if !f.C || !strings.HasPrefix(f.Label, begin) || !outermost.IsNative() {
						continue
					}
					if got := outermost.Native.Library; got != library && !strings.HasPrefix(got, "libruby") {
						t.Errorf("%s has called %s of %s", f.Label, outermost.Label, got)
					}
					fit++
				}
				break
			}
		}
	})
	if t.Logf("%d stacks, %d of extensions", all, fit); all == 0 || fit < odds.AtLeast(all, 0.02) {
		t.Errorf("%d stacks of running threads, %d of extensions", all, fit)
	}
}
