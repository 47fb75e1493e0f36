# What people and CI run. Each target is a script or a Go command that works alone, too.

staticcheck = honnef.co/go/tools/cmd/staticcheck@v0.8.2
actionlint = github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

# scripts/lib.sh is for bash, as the scripts are.
SHELL = bash

# Says what to do where Go is missing or too old, as the scripts do.
need_go = . scripts/lib.sh && need_go

.PHONY: build demo test test-rest test-all check bench bench-cost bench-exact verify screenshots release clean

build:
	@$(need_go) && need_modules && CGO_ENABLED=0 go build -o ddtop .

# Builds ddtop, installs Ruby if missing, and opens the live screen on the bundled program.
demo:
	@scripts/demo

# Unit, golden and fuzz-seed tests, and those of real processes that are short. Its budget is six minutes on 2 free CPUs, once
# scripts/rubies has fetched Debian's Rubies.
test:
	@scripts/test

# What `make test` left out, and nothing that it ran. CI runs it after `make test`.
test-rest:
	@scripts/test rest

# Everything that has to hold before a change goes in.
test-all:
	@scripts/test all

# CI runs `make test` next, which has the tests of archtest.
check:
	@$(need_go) && unformatted=$$(git ls-files -z '*.go' | xargs -0 gofmt -l) && { test -z "$$unformatted" || \
		{ echo "gofmt -w these files:"; echo "$$unformatted"; exit 1; }; }
	@$(need_go) && one_build && go vet ./... && go run $(staticcheck) ./... && go run $(actionlint)
	@test "$$CI" = true || { $(need_go) && one_build && go test ./internal/archtest -run 'PlainEnglish|PagesSay|LinksLead'; }

# One line a benchmark, with its allocations. BENCH=regexp chooses; DDTOP_BENCH_BEFORE=FILE names an older ddtop to measure along.
BENCH ?= .
bench:
	@scripts/bench '$(BENCH)'

# Prints the table of docs/cost.md, and one of cost and quality by source.
bench-cost:
	@scripts/bench cost

# The tables of what exact mode costs, of docs/reference/exact.md.
bench-exact:
	@scripts/bench exact

# The long tests (accuracy at all rates, races, kills, soak); the figures are left in verify-report.txt.
verify:
	@scripts/test verify

# The pictures of the README, from a recording of a real process.
screenshots:
	go run ./screenshots

# Binaries, packages, image, checksums and SBOMs of the commit that is checked out, in dist/. Nothing is published.
release:
	@scripts/release build

clean:
	rm -f ddtop coverage.out
	rm -rf dist
	find . -name '*.test' -o -name '*.prof' | xargs rm -f
