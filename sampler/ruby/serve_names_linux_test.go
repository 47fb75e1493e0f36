package ruby

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// envNames is a program with threads that serve requests. ddtop learns the name of a request in a different way for
// each thread.
const envNames = `
module ActionController; class RoutingError < StandardError; end; end
def base(path, verb = "GET")
  {"REQUEST_METHOD" => verb, "PATH_INFO" => path.dup, "SCRIPT_NAME" => "",
   "REQUEST_URI" => path.dup, "HTTP_HOST" => "h"}
end
def route(env, controller, action)
  env["action_dispatch.request.path_parameters"] = {controller: controller, action: action}
end
def fails(env, status, verb: nil)
  env["action_dispatch.original_path"] = env["PATH_INFO"]
  env["action_dispatch.original_request_method"] = env["REQUEST_METHOD"] if verb
  env["REQUEST_METHOD"] = verb if verb
  env["PATH_INFO"] = "/#{status}"
end
def serve(env)
  yield env
end
KINDS = {
  "routed" => -> { serve(base("/report")) { |e| sleep 0.005; route(e, "reports", "show"); sleep 0.005 } },
  "unrouted" => -> { serve(base("/report")) { |e| sleep 0.005 } },
  "early" => -> { serve(base("/orders/8")) { |e| sleep 0.005 } },
  "failed" => -> { serve(base("/orders/7")) { |e|
    route(e, "orders", "show"); sleep 0.005; fails(e, 404); route(e, "errors", "missing"); sleep 0.005 } },
  "nosuch" => -> { serve(base("/nosuch")) { |e| sleep 0.005; fails(e, 404); sleep 0.005 } },
  "posted" => -> { serve(base("/gone", "POST")) { |e| sleep 0.005; fails(e, 404, verb: "GET"); sleep 0.005 } },
  "raised" => -> { serve(base("/lost")) { |e|
    begin; raise ActionController::RoutingError, "no"; rescue; sleep 0.005; end; sleep 0.005 } },
}
KINDS.each { |name, how| Thread.new { Thread.current.name = name; loop(&how) } }
puts "ready"; $stdout.flush; $stdin.gets`

// TestNameOfARequest: ddtop reports the same name of a request from its beginning to its end. If no route matches the
// request, its name begins with "404". This is also true if the program answers the request with a page of its own. If
// another route handles the request's exception, the request keeps the name of its own route.
func TestNameOfARequest(t *testing.T) {
	rubytest.OftenEnough(t)
	names := map[string]string{"routed": "GET reports#show", "unrouted": "GET reports#show", "early": "GET orders#show",
		"failed": "GET orders#show", "nosuch": "404 GET /nosuch", "posted": "404 POST /gone", "raised": "404 GET /lost"}
	guesses := map[string]string{"routed": "GET /report", "unrouted": "GET /report", "early": "GET /orders/:id", "failed": "GET /orders/:id",
		"nosuch": "GET /nosuch", "posted": "POST /gone", "raised": "GET /lost"}
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, envNames, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReaderWith(t, p.PID, Options{})
		const want = 8
		told := map[string]map[sampler.WorkNumber]bool{}
		ids := map[sampler.WorkID]string{}
		var s sampler.Sample
		enough := func() bool {
			for name := range names {
				if len(told[name]) < want {
					return false
				}
			}
			return true
		}
		for deadline := time.Now().Add(rubytest.Timeout); !enough() && time.Now().Before(deadline); {
			if err := rd.Read(sampler.StackTick, &s); notNow(err) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			for i := range s.Threads {
				info, _ := rd.dict.Thread(s.Threads[i].ID)
				id, name := s.Threads[i].Serving.Work, info.Name
				w := rd.dict.Work(id)
				if w.Number == 0 || names[name] == "" {
					continue
				}
				ids[id] = name
				switch {
				case w.Endpoint == names[name]:
					if told[name] == nil {
						told[name] = map[sampler.WorkNumber]bool{}
					}
					told[name][w.Number] = true
				// the name is the error page's route if ddtop saw the request only while this page answered it
				case w.Endpoint == "GET errors#missing" && name == "failed" && !told[name][w.Number]:
				case w.Endpoint != guesses[name] || told[name][w.Number]:
					t.Fatalf("%s: %+v", name, w)
				}
			}
		}
		for name := range names {
			if rubytest.Report(t, "%s: %d requests with their name", name, len(told[name])); len(told[name]) < want {
				rubytest.TooSeldom(t, "%s: %d requests with their name", name, len(told[name]))
			}
		}
		for id, name := range ids { // check all IDs, also the IDs from readings before the name was known
			if w := rd.dict.Work(id); told[name][w.Number] && w.Endpoint != names[name] {
				t.Errorf("%s was request %d and is %+v", name, id, w)
			}
		}
	})
}
