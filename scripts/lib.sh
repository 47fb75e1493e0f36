# shellcheck shell=bash
# Sourced by the other scripts: what has to be on the machine, and how to get it there.

say() { printf '%s\n' "$*" >&2; }

# as_root COMMAND…: runs it as root, with sudo where need be.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    say "this needs root and there is no sudo: $*"
    return 1
  fi
}

# install_package APT DNF APK BREW: installs a package by the name it has for the package manager of this machine.
install_package() {
  if command -v apt-get >/dev/null; then
    say "installing $1 with apt-get"
    # An image may come without package lists; a list that can't be fetched shows in the install.
    as_root apt-get -q update >&2 || true
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "$1" >&2
  elif command -v dnf >/dev/null; then
    say "installing $2 with dnf"
    as_root dnf -y install "$2" >&2
  elif command -v apk >/dev/null; then
    say "installing $3 with apk"
    as_root apk add "$3" >&2
  elif command -v brew >/dev/null; then
    say "installing $4 with brew"
    brew install "$4" >&2
  else
    say "no apt-get, dnf, apk or brew on this machine: install $1 by hand"
    return 1
  fi
}

# need_certificates: what TLS is checked with; a minimal image has none.
need_certificates() {
  [ "$(uname)" != Linux ] || [ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] ||
    install_package ca-certificates ca-certificates ca-certificates ca-certificates
}

# need_go: a Go that can build this module. Any Go since 1.21 downloads the version that go.mod names by itself.
need_go() {
  local wanted major minor version
  wanted=$(sed -n 's/^go //p' go.mod)
  PATH=$PATH:/usr/local/go/bin
  if ! command -v go >/dev/null; then
    if command -v apt-get >/dev/null; then
      as_root apt-get -q update >&2 || true
      version=$(apt-cache policy golang-go | sed -n 's/^ *Candidate: 2:\([0-9]*\.[0-9]*\).*/\1/p')
      major=${version%%.*} minor=${version#*.}
      if [ -z "$version" ] || [ "$major" -lt 1 ] || { [ "$major" = 1 ] && [ "$minor" -lt 21 ]; }; then
        say "Go is missing, and this machine's packages have ${version:-none}: 1.21 or later is needed (it downloads"
        say "Go $wanted by itself). Get it from https://go.dev/dl/ and put its bin folder on PATH."
        return 1
      fi
    fi
    install_package golang-go golang go go || {
      say "Go is missing. Get Go $wanted or later from https://go.dev/dl/ and put its bin folder on PATH."
      return 1
    }
  fi
  need_certificates || return 1
  if ! version=$(go version 2>&1); then
    say "Go $wanted or later is needed, and the Go on PATH ($(command -v go)) is not and can't get it: $version"
    say "Get it from https://go.dev/dl/ and put its bin folder on PATH."
    return 1
  fi
  # Before 1.21 go took no notice of a newer version in go.mod but to fail in the middle of the build.
  version=${version#go version go}
  version=${version%% *}
  major=${version%%.*} minor=${version#*.} minor=${minor%%.*}
  if [ "$major" = 1 ] && [ "$minor" -lt 21 ]; then
    say "Go $wanted or later is needed; $(command -v go) is $version. Get it from https://go.dev/dl/."
    return 1
  fi
}

# need_modules: the modules that go.mod names, fetched where they are not yet. Go does not try again by itself.
need_modules() {
  go mod download || go mod download || {
    say "Go's modules could not be downloaded; check the network, and GOPROXY (now $(go env GOPROXY))"
    return 1
  }
}

# one_build: vet, staticcheck, the tests and ddtop itself are built in the same way, so each package is compiled once. No path of
# this folder is in what is compiled, so other clones of the same commit find it in Go's cache.
one_build() {
  export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:+$GOFLAGS }-trimpath"
}

# need_ruby: any Ruby, to run the bundled workload.
need_ruby() {
  command -v ruby >/dev/null && return
  install_package ruby ruby ruby ruby || return 1
  command -v ruby >/dev/null || { say "ruby was installed and is not on PATH"; return 1; }
}

# need_emulator: qemu-user, which runs arm64 programs on other machines. A static build, since it also runs in the roots
# of Debian's arm64 Rubies, which have no libraries of this machine.
need_emulator() {
  command -v qemu-aarch64-static >/dev/null && return
  install_package qemu-user-static qemu-user-static qemu-aarch64 qemu || return 1
  command -v qemu-aarch64-static >/dev/null || { say "qemu-aarch64-static is not on PATH: install qemu-user-static"; return 1; }
}

# What tests run beside ddtop: the command, and the package of Debian's that has it. A test that misses one is skipped, and says
# so with the package's name (internal/rubytest, Program).
readonly test_programs='
ruby                 ruby
puma                 puma
sidekiq              ruby-sidekiq
redis-server         redis-server
/usr/lib/postgresql  postgresql
/usr/share/doc/ruby-pg ruby-pg
/usr/share/doc/ruby-rails ruby-rails
/usr/share/doc/ruby-sinatra ruby-sinatra
/usr/share/doc/ruby-webrick ruby-webrick
rackup               ruby-rack
/usr/share/doc/ruby-sequel ruby-sequel
/usr/share/doc/ruby-sqlite3 ruby-sqlite3
/usr/share/doc/ruby-mysql2 ruby-mysql2
/usr/sbin/mariadbd   mariadb-server-core
/usr/share/doc/ruby-dalli ruby-dalli
memcached            memcached
/usr/share/doc/ruby-grape ruby-grape
/usr/share/doc/ruby-delayed-job-active-record ruby-delayed-job-active-record
thin                 thin
unicorn              unicorn
passenger            passenger
wrk                  wrk
chromium             chromium
qemu-aarch64-static  qemu-user-static
gcore                gdb
eu-stack             elfutils
strace               strace
gcc                  gcc
/usr/include/stdlib.h libc6-dev
objcopy              binutils
musl-gcc             musl-tools
make                 make
callgrind_annotate   valgrind
tmux                 tmux
unshare              util-linux
shellcheck           shellcheck
/var/lib/dpkg/info/ruby-async.list ruby-async
/usr/share/doc/ruby-async-http ruby-async-http
'

# need_test_programs: installs those that are missing, where there is apt-get and root without a password. Elsewhere it says
# what to install, and that is not a failure. Services that a package brings along are not started.
need_test_programs() {
  local command package missing=()
  while read -r command package; do
    [ -n "$command" ] || continue
    [ -e "$command" ] || command -v "$command" >/dev/null || missing+=("$package")
  done <<<"$test_programs"
  [ "${#missing[@]}" -gt 0 ] || return 0
  if ! command -v apt-get >/dev/null || { [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; }; then
    say "tests of what is missing here are skipped; as root: apt-get install ${missing[*]}"
    return 0
  fi
  say "installing ${missing[*]} with apt-get"
  as_root apt-get -q update >&2 || true
  # invoke-rc.d starts nothing in run level 1.
  as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -q -y install --no-install-recommends "${missing[@]}" >&2
}

# mirror: the Debian mirror that this machine takes packages from.
mirror() {
  local address
  address=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    awk '$1 == "deb" { sub(/\[[^]]*\] */, ""); print $2 } tolower($1) == "uris:" { print $2 }' | grep -E '/debian/?$' | head -n 1 || true)
  echo "${address:-http://deb.debian.org/debian}"
}

# machine: what a figure has to be read with: commit, time, kernel, CPUs and who else uses them.
machine() {
  echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(date -u +%FT%TZ), $(uname -sr), $(nproc) CPUs:" \
    "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1); load $(cut -d ' ' -f 1-3 /proc/loadavg)"
}
