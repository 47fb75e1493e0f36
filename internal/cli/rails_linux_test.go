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

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/servertest"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/ui"
)

// TestRailsShowsItsOwnCode: the first screen of a Rails application under load has its controller and its model in the
// flamegraph, below and above some hundred frames of Puma, Rack and Rails. No key is pressed.
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
						return // the server was ended
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
	run(t, "record", "-p", strconv.Itoa(app.Workers[0]), "-d", "15s", "--overhead", "off", "--format", "ddtop", "-o", file).want(t, 0)
	close(stop)
	clients.Wait()
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
		if size[0] >= 120 { // the model's cell may be too narrow for its class
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
