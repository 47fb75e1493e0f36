package ruby

import (
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// envCopies is a program with threads that serve requests with a copy of their environment (the Hash with a request's
// data). A framework stores the route in this copy. In some cases the framework gets a deep copy or the environment of
// another request, and stores the route "GET /wrong" in it.
const envCopies = `
def app(env, route)
  sleep 0.003
  env["sinatra.route"] = route
  sleep 0.02
end
def mounted(env, route)
  env = env.merge("SCRIPT_NAME" => env["PATH_INFO"][0, 5], "PATH_INFO" => env["PATH_INFO"][5..-1])
  app(env, route)
end
def base(first, n)
  path = "/#{first}/#{n}"
  {"REQUEST_METHOD" => "GET", "PATH_INFO" => path.dup, "SCRIPT_NAME" => "", "QUERY_STRING" => "", "REQUEST_URI" => path.dup, "HTTP_HOST" => "h"}
end
# Others of the same path would say which route these have.
FIRST = {"asks another" => "asks", "copied deeply" => "deep", "logs another" => "logs", "by itself" => "self",
  "error page" => "page"}
OTHERS = Array.new(50) { |i| base("shop", 1000 + i).merge("sinatra.route" => "GET /wrong") }
KINDS = {
  "copied" => ->(env) { app(env.dup, "GET /shop/:number") },
  "mounted" => ->(env) { mounted(env, "GET /:number") },
  "asks another" => ->(env) { app(env.merge("PATH_INFO" => "/wrong/#{rand(9)}"), "GET /wrong") },
  "copied deeply" => ->(env) { app(env.to_h { |k, v| [k, v.dup] }, "GET /wrong") },
  "logs another" => ->(env) { app(OTHERS.sample, "GET /wrong") },
  "by itself" => ->(env) { app(env, "GET /self/:own") },
  "error page" => ->(env) {
    env["action_dispatch.original_path"] = env["PATH_INFO"]; env["PATH_INFO"] = "/404"; app(env.dup, "GET /wrong") },
}
def serve(env, how)
  how.call(env)
end
KINDS.each do |name, how|
  Thread.new { Thread.current.name = name; n = 0; loop { serve(base(FIRST.fetch(name, "shop"), n += 1), how) } }
end
Thread.new { loop { sleep 0.002; GC.start } }
puts "ready"; $stdout.flush; $stdin.gets`

// TestRouteOfACopy: a middleware can go on with a shallow copy of a request's environment. ddtop then reports the route
// that is stored in the copy. It never reports the route of a deep copy, of another request or of an error page.
func TestRouteOfACopy(t *testing.T) {
	rubytest.OftenEnough(t)
	routes := map[string]string{"copied": "GET /shop/:number", "mounted": "GET /shop/:number", "asks another": "", "copied deeply": "", "logs another": "",
		"by itself": "GET /self/:own", "error page": "404 GET /page/:id"}
	firsts := map[string]string{"copied": "GET /shop/", "mounted": "GET /shop/", "asks another": "GET /asks/",
		"copied deeply": "GET /deep/", "logs another": "GET /logs/", "by itself": "GET /self/", "error page": "GET /page/"}
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		p := r.Start(t, envCopies, rubytest.Options{})
		p.Expect(t, "ready")
		rd := openReaderWith(t, p.PID, Options{Values: true})
		const want = 8
		var s sampler.Sample
		told, all := map[string]map[sampler.WorkNumber]bool{}, map[string]map[sampler.WorkNumber]bool{}
		for name := range routes {
			told[name], all[name] = map[sampler.WorkNumber]bool{}, map[sampler.WorkNumber]bool{}
		}
		enough := func() bool {
			for name, route := range routes {
				if len(all[name]) < want || route != "" && len(told[name]) < want {
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
				w, name := rd.dict.Work(s.Threads[i].Serving.Work), info.Name
				if w.Number == 0 || all[name] == nil {
					continue
				}
				all[name][w.Number] = true
				switch {
				case w.Endpoint == routes[name]:
					told[name][w.Number] = true
				case w.Endpoint != firsts[name]+":id" || told[name][w.Number]:
					t.Fatalf("%s: %+v", name, w)
				}
				if !strings.HasPrefix("GET "+w.Values, firsts[name]) {
					t.Fatalf("%s: %+v", name, w)
				}
			}
		}
		for name, route := range routes {
			rubytest.Report(t, "%s: %d requests, %d with the framework's route", name, len(all[name]), len(told[name]))
			if len(all[name]) < want || route != "" && len(told[name]) < want {
				rubytest.TooSeldom(t, "%s: %d requests, %d with the framework's route", name, len(all[name]), len(told[name]))
			}
		}
	})
}
