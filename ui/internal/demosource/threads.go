package demosource

import (
	"fmt"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// kind is the kind of an activity of a simulated thread, such as computing or waiting.
type kind uint8

const (
	cpu    kind = iota // needs the GVL
	gc                 // needs the GVL, collects garbage
	stall              // keeps the GVL and sleeps in the kernel
	native             // runs without the GVL
	io
	park
	join
	sleep
	lock // waits for the Mutex, and then holds it
	unlock
)

type activity struct {
	kind    kind
	ns      int64
	stack   sampler.StackID
	peer    sampler.PeerID
	fd      int32
	syscall string
	// begins is the request or job that begins with this activity. statement is the database statement for whose answer
	// the thread waits during the activity.
	begins    sampler.Work
	statement string
}

type thread struct {
	id      sampler.ThreadID
	name    string
	main    bool
	script  func() activity
	do      activity
	left    int64
	waiting bool // true while the thread is in the queue for the GVL
	after   bool // true if the thread was in a blocking region before it queued
	cpuNS   int64
	gvl     sampler.GVLState // the state that the last sample showed
	serving sampler.Serving
	readNS  int64 // when the thread's stack was read last
	// asked is the activity that the simulated kernel reported last, at the time askedNS.
	asked   activity
	askedNS int64
	// turns is how often the thread got a CPU. The simulated kernel last reported the thread's counters at the time
	// countedNS. cpu0 and turns0 are the values of cpuNS and turns at that time.
	turns                   int64
	countedNS, cpu0, turns0 int64
}

// frame returns the ID of a frame in the Dictionary. If the frame has no ID yet, it gets one.
func (s *Source) frame(label, path string, line int32) sampler.FrameID {
	name := label
	for i := len(label) - 1; i >= 0; i-- {
		if label[i] == '#' || label[i] == '.' {
			name = label[i+1:]
			break
		}
	}
	f := sampler.Frame{Label: label, Name: name, Path: path, AbsolutePath: path, Line: line, FirstLine: line - 2, C: path == ""}
	return s.dict.InternFrame(f)
}

// stack returns the ID of the stack with these frames. The outermost frame comes first.
func (s *Source) stack(frames ...sampler.FrameID) sampler.StackID {
	var id sampler.StackID
	for _, f := range frames {
		id = s.dict.InternStack(id, f)
	}
	return id
}

// cast makes the threads and their scripts.
func (s *Source) cast() {
	const app, gems, lib = "/srv/app/", "/usr/local/bundle/gems/", "/usr/lib/ruby/3.4.0/"
	f := s.frame
	run := f("block in Server#start", app+"lib/server.rb", 31)
	handle := f("Server#handle", app+"lib/server.rb", 48)
	show := f("OrdersController#show", app+"app/controllers/orders.rb", 12)
	find := f("Order.find_open", app+"app/models/order.rb", 39)
	query := f("DB#query", app+"app/db.rb", 17)
	exec := f("PG::Connection#exec", "", 17)
	cart := f("Cart#add", app+"app/models/cart.rb", 22)
	cache := f("Cache#fetch", app+"app/cache.rb", 22)
	sync := f("Thread::Mutex#synchronize", "", 22)
	redis := f("Redis::Connection#read", gems+"redis-5.3.0/lib/redis/connection.rb", 204)
	render := f("View#render", app+"app/view.rb", 9)
	erb := f("ERB::Compiled#result", lib+"erb.rb", 429)
	each := f("Array#each", "", 9)
	esc := f("ERB::Escape.html_escape", "", 12)
	pop := f("Thread::Queue#pop", "", 31)
	pool := f("block in Workers#spawn", app+"lib/workers.rb", 14)
	build := f("Reports#build", app+"app/reports.rb", 41)
	load := f("Reports#load", app+"app/reports.rb", 19)
	amap := f("Array#map", "", 20)
	loop := f("Reports#loop", app+"app/reports.rb", 12)
	gen := f("JSON::Ext::Generator#generate", lib+"json/common.rb", 244)
	tos := f("Float#to_s", "", 244)
	mainFrames := s.stack(f("<main>", app+"bin/order-service", 61), f("Server#join", app+"lib/server.rb", 70), f("Thread#join", "", 70))
	refresh := f("Cache#refresh", app+"app/cache.rb", 58)
	ksleep := f("Kernel#sleep", "", 58)
	metrics := f("Metrics#flush", app+"app/metrics.rb", 27)
	udp := f("UDPSocket#send", "", 27)

	pg := s.dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Remote: "10.0.0.5:5432", Local: "10.0.0.9:40122", Service: "PostgreSQL"})
	rd := s.dict.InternPeer(sampler.Peer{Kind: sampler.PeerTCP, Remote: "10.0.0.7:6379", Local: "10.0.0.9:40188", Service: "Redis"})

	s.add("", true, func() activity { return activity{kind: join, ns: int64(time.Hour), stack: mainFrames} })
	for i := range s.opt.HTTP {
		s.add(fmt.Sprintf("http-%d", i+1), false, s.cycle(func() []activity {
			if s.idle() {
				return []activity{{kind: park, ns: s.ms(20, 120), stack: s.stack(run, pop)}}
			}
			return []activity{
				{kind: park, ns: s.ms(20, 120), stack: s.stack(run, pop)},
				{kind: cpu, ns: s.ms(1, 3), stack: s.stack(run, handle, show, find), begins: s.request()},
				{kind: io, ns: s.ms(8, 30), stack: s.stack(run, handle, show, find, query, exec), peer: pg, fd: 14, syscall: "read",
					statement: "SELECT orders WHERE user_id = ?"},
				{kind: cpu, ns: s.ms(1, 4), stack: s.stack(run, handle, show, find, query)},
				{kind: lock, stack: s.stack(run, handle, show, cart, cache, sync)},
				{kind: cpu, ns: s.ms(0, 1), stack: s.stack(run, handle, show, cart, cache, sync)},
				{kind: unlock},
				{kind: io, ns: s.ms(1, 3), stack: s.stack(run, handle, show, cart, cache, redis), peer: rd, fd: 11, syscall: "read", statement: "HGETALL"},
				{kind: cpu, ns: s.ms(1, 3), stack: s.stack(run, handle, show, render, erb, each)},
				{kind: cpu, ns: s.ms(1, 2), stack: s.stack(run, handle, show, render, erb, each, esc)},
			}
		}))
	}
	for i := range 4 {
		hog := i == 2
		s.add(fmt.Sprintf("worker-%d", i+1), false, s.cycle(func() []activity {
			if s.idle() {
				return []activity{{kind: park, ns: s.ms(100, 300), stack: s.stack(pool, pop)}}
			}
			if hog && s.opt.HogAfter >= 0 && s.now-startNS >= int64(s.opt.HogAfter) {
				return []activity{
					{kind: cpu, ns: s.ms(60, 120), stack: s.stack(pool, loop, build, load, amap), begins: job("ReportJob")},
					{kind: gc, ns: s.ms(15, 45), stack: s.stack(pool, loop, build, load, amap)},
					{kind: cpu, ns: s.ms(180, 420), stack: s.stack(pool, loop, build, gen)},
					{kind: cpu, ns: s.ms(80, 200), stack: s.stack(pool, loop, build, gen, tos)},
					{kind: cpu, ns: s.ms(20, 60), stack: s.stack(pool, loop, build)},
				}
			}
			if hog {
				return []activity{{kind: park, ns: s.ms(100, 300), stack: s.stack(pool, pop)}}
			}
			return []activity{
				{kind: park, ns: s.ms(300, 900), stack: s.stack(pool, pop)},
				{kind: cpu, ns: s.ms(2, 6), stack: s.stack(pool, loop, load), begins: job("ImportJob")},
				{kind: native, ns: s.ms(2, 8), stack: s.stack(pool, loop, load, f("Zlib.gunzip", "", 25))},
			}
		}))
	}
	s.add("cache-refresher", false, s.cycle(func() []activity {
		return []activity{
			{kind: sleep, ns: s.ms(1500, 2500), stack: s.stack(refresh, ksleep)},
			{kind: cpu, ns: s.ms(4, 9), stack: s.stack(refresh, cache)},
		}
	}))
	s.add("metrics", false, s.cycle(func() []activity {
		return []activity{
			{kind: sleep, ns: s.ms(900, 1100), stack: s.stack(metrics, ksleep)},
			{kind: stall, ns: s.ms(2, 6), stack: s.stack(metrics, udp), syscall: "sendto", fd: 9},
		}
	}))
	for _, n := range s.opt.ExtraNames {
		s.add(n, false, func() activity { return activity{kind: sleep, ns: int64(time.Hour), stack: s.stack(ksleep)} })
	}
}

func (s *Source) add(name string, isMain bool, script func() activity) {
	t := &thread{id: sampler.ThreadID(len(s.threads) + 1), name: name, main: isMain, script: script}
	s.threads = append(s.threads, t)
	s.dict.SetThread(sampler.ThreadInfo{ID: t.id, Name: name, HasName: name != "", Main: isMain, Ractor: 1,
		TID: 4241 + int32(t.id), FirstSeenNS: startNS})
	t.do = activity{kind: sleep, ns: 0}
}

// routes are the routes of the simulated requests, which use them one after the other.
var routes = [...]string{"GET orders#show", "GET orders#index", "GET orders#show", "POST carts#create", "GET orders#show"}

// request returns the next request.
func (s *Source) request() sampler.Work {
	return sampler.Work{Kind: sampler.WorkRequest, Endpoint: routes[int(s.served)%len(routes)]}
}

func job(class string) sampler.Work { return sampler.Work{Kind: sampler.WorkJob, Endpoint: class} }

// idle reports whether no new requests come, because the time Options.IdleAfter is over.
func (s *Source) idle() bool { return s.opt.IdleAfter > 0 && s.now-startNS >= int64(s.opt.IdleAfter) }

// cycle returns a function that returns the next activity at each call. It takes the activities from a list, which the
// function in the parameter make returns. At the end of the list it calls this function again.
func (s *Source) cycle(make func() []activity) func() activity {
	var round []activity
	return func() activity {
		if len(round) == 0 {
			round = make()
		}
		a := round[0]
		round = round[1:]
		return a
	}
}

func (s *Source) ms(from, to int) int64 {
	return int64(from+s.rng.IntN(to-from+1)) * int64(time.Millisecond)
}
