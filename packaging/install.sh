#!/bin/sh
# Installs ddtop: fetches the archive for this machine, verifies its checksum, and puts the binary, man pages and completions below
# a folder. It asks nothing and needs no root, unless the folder does. If a step fails, everything is as it was before.
#
#   sh install.sh [--prefix FOLDER] [--version VERSION] [--from URL]
#   sh install.sh --uninstall [--prefix FOLDER]
#
#   --prefix FOLDER     where bin, share/man and the completions go: /usr/local, or ~/.local without root
#   --version VERSION   the release, as in 0.1.0; the newest one if none is named
#   --from URL          where the files of a release are, without a slash behind it: another server's, or file:///path/to/dist
set -eu

repository=https://github.com/ddtop/ddtop
prefix='' version='' from='' uninstall='' work='' made=''

say() { printf '%s\n' "$*"; }
fail() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "$0" >&2; }

# quoted TEXT: as a shell takes it for one word.
quoted() {
  case "$1" in
    *[!A-Za-z0-9_./-]*) printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")" ;;
    *) printf '%s' "$1" ;;
  esac
}

# remove_files LIST: removes the files that a list names below the prefix. A line that ends with a slash is a folder.
remove_files() {
  while IFS= read -r name; do
    case "$name" in
      *..*) fail "$1 has a line that is no file of ddtop's: $name" ;;
      */) continue ;;
      bin/* | share/*) ;;
      *) fail "$1 has a line that is no file of ddtop's: $name" ;;
    esac
    [ -e "$prefix/$name" ] || continue
    rm -f "$prefix/$name" || fail "cannot remove $prefix/$name: run it as the user who installed it, or as root"
    say "removed $prefix/$name"
  done <"$1"
}

# remove_folders LIST: removes the folders that a list names below the prefix, those that are empty.
remove_folders() {
  sed -n 's,/$,,p' "$1" | LC_ALL=C sort -r | while IFS= read -r name; do rmdir "$prefix/$name" 2>/dev/null || true; done
}

# clean_up: removes what a run leaves when it ends: its own folder, and if it failed, new files and new folders.
clean_up() {
  if [ -n "$made" ]; then
    sed '/\/$/d' "$work/made" | while IFS= read -r name; do rm -f "$prefix/$name"; done
    remove_folders "$work/made"
    while IFS= read -r name; do rmdir "$name" 2>/dev/null || true; done <"$work/above"
  fi
  [ -z "$work" ] || rm -rf "$work"
}

# fetch URL FILE: with curl or wget, whichever is there. Only TLS, loopback and files are trusted to bring a file.
fetch() {
  case "$1" in
    file://*) cp "${1#file://}" "$2" || fail "cannot read ${1#file://}" ;;
    https://* | http://127.0.0.1[:/]* | http://localhost[:/]*)
      if command -v curl >/dev/null; then
        curl -fsSL --proto '=https,http' --proto-redir '=https' -o "$2" "$1" || fail "cannot fetch $1"
      elif command -v wget >/dev/null; then
        wget -q -O "$2" "$1" || fail "cannot fetch $1"
      else
        fail "this needs curl or wget"
      fi
      ;;
    *) fail "$1 is neither https:// nor file://" ;;
  esac
}

# folder NAME: makes a folder below the prefix, and those above it, and notes which of them were made.
folder() {
  [ ! -d "$prefix/$1" ] || return 0
  case "$1" in */*) folder "${1%/*}" ;; esac
  mkdir "$prefix/$1" || fail "cannot make $prefix/$1: choose another --prefix, or run it as root"
  say "$1/" >>"$work/made"
}

# put FILE TO MODE: puts a new file beside the one that it will replace.
put() {
  folder "${2%/*}"
  [ ! -d "$prefix/$2" ] || fail "$prefix/$2 is a folder: choose another --prefix"
  say "$2.new" >>"$work/made"
  cp "$work/files/$1" "$prefix/$2.new" || fail "cannot write $prefix/$2: choose another --prefix, or run it as root"
  chmod "$3" "$prefix/$2.new"
  say "$2" >>"$work/files.list"
}

install() {
  case "$(uname -s)" in
    Linux) os=linux ;;
    Darwin) os=darwin ;;
    *) fail "there is no ddtop for $(uname -s)" ;;
  esac
  case "$(uname -m)" in
    x86_64 | amd64) arch=amd64 ;;
    aarch64 | arm64) arch=arm64 ;;
    *) fail "there is no ddtop for $(uname -m)" ;;
  esac
  if [ -z "$from" ]; then
    if [ -n "$version" ]; then from=$repository/releases/download/v$version; else from=$repository/releases/latest/download; fi
  fi

  fetch "$from/checksums.txt" "$work/checksums.txt"
  # A line is a checksum, two spaces and a name.
  archive=$(sed -n "s/^[0-9a-f]\{64\}  \(ddtop_[0-9A-Za-z.+~-]*_${os}_${arch}\.tar\.gz\)\$/\1/p" "$work/checksums.txt" | head -n 1)
  [ -n "$archive" ] || fail "$from/checksums.txt names no archive for $os $arch"
  if [ -n "$version" ] && [ "$archive" != "ddtop_${version}_${os}_${arch}.tar.gz" ]; then
    fail "$from has $archive, not version $version"
  fi
  fetch "$from/$archive" "$work/$archive"
  wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p" "$work/checksums.txt" | head -n 1)
  if command -v sha256sum >/dev/null; then
    got=$(sha256sum <"$work/$archive")
  elif command -v shasum >/dev/null; then
    got=$(shasum -a 256 <"$work/$archive")
  else
    fail "this needs sha256sum or shasum, to verify what was fetched"
  fi
  got=${got%% *}
  [ "$got" = "$wanted" ] || fail "$archive is not the file of the release: its checksum is $got, not $wanted. Nothing was installed"
  say "fetched $from/$archive"
  say "its SHA-256 is that of checksums.txt: $got"
  mkdir "$work/files"
  tar -xzf "$work/$archive" -C "$work/files" || fail "cannot unpack $archive: this needs tar and gzip"

  # All new files are put beside the old ones first. What can fail (rights, space, a binary that does not run here) fails then.
  : >"$work/made"
  above=$prefix
  while [ ! -d "$above" ]; do
    say "$above"
    above=$(dirname "$above")
  done >"$work/above"
  made=yes
  mkdir -p "$prefix" || fail "cannot make $prefix: choose another --prefix, or run it as root"
  folder share/ddtop
  put ddtop bin/ddtop 755
  put completions/ddtop.bash share/bash-completion/completions/ddtop 644
  put completions/_ddtop share/zsh/site-functions/_ddtop 644
  put completions/ddtop.fish share/fish/vendor_completions.d/ddtop.fish 644
  for page in "$work/files/man/"*.1.gz; do
    page=${page##*/}
    put "man/$page" "share/man/man1/$page" 644
  done
  "$prefix/bin/ddtop.new" version >"$work/version" || fail "the new $prefix/bin/ddtop does not run"
  # Folders that an earlier installation made stay its own. Until the end the list has its files, too.
  touch "$work/old"
  [ ! -f "$manifest" ] || cp "$manifest" "$work/old"
  grep -h '/$' "$work/made" "$work/old" >>"$work/files.list" || true
  LC_ALL=C sort -u "$work/files.list" >"$work/installed"
  say "share/ddtop/installed.new" >>"$work/made"
  LC_ALL=C sort -u "$work/installed" "$work/old" >"$manifest.new" || fail "cannot write $manifest: choose another --prefix, or run it as root"
  mv -f "$manifest.new" "$manifest"

  # By renaming, so that a ddtop that runs keeps its own.
  while IFS= read -r name; do
    case "$name" in */) continue ;; esac
    mv -f "$prefix/$name.new" "$prefix/$name"
    say "installed $prefix/$name"
  done <"$work/installed"
  made=''
  grep -vxF -f "$work/installed" "$work/old" >"$work/gone" || true
  remove_files "$work/gone"
  cp "$work/installed" "$manifest"

  cat "$work/version"
  say "to remove it: sh install.sh --uninstall --prefix $(quoted "$prefix")"
  case ":$PATH:" in
    *":$prefix/bin:"*)
      first=$(command -v ddtop || true)
      [ "$first" = "$prefix/bin/ddtop" ] || say "another ddtop comes first on your PATH: $first"
      ;;
    *) say "$prefix/bin is not on your PATH: run $(quoted "$prefix/bin/ddtop"), or add it" ;;
  esac
}

main() {
  while [ $# -gt 0 ]; do
    case "$1" in
      --prefix | --version | --from)
        if [ $# -lt 2 ] || [ -z "$2" ]; then fail "$1 needs a value"; fi
        case "$1" in
          --prefix) prefix=$2 ;;
          --version) version=${2#v} ;;
          --from) from=${2%/} ;;
        esac
        shift 2
        ;;
      --uninstall) uninstall=yes && shift ;;
      -h | --help) usage && exit 0 ;;
      *) usage && fail "there is no option $1" ;;
    esac
  done
  if [ -z "$prefix" ]; then
    if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=${HOME:?is not set: name a folder with --prefix}/.local; fi
  fi
  case "$prefix" in /*) ;; *) prefix=$PWD/$prefix ;; esac
  case "$prefix" in ?*/) prefix=${prefix%/} ;; esac
  # The files and folders of an installation, below the prefix.
  manifest=$prefix/share/ddtop/installed
  umask 022
  trap clean_up EXIT
  trap 'exit 1' HUP INT TERM
  if [ -n "$uninstall" ]; then
    [ -f "$manifest" ] || fail "install.sh has installed nothing below $prefix ($manifest is not there)"
    work=$(mktemp -d)
    cp "$manifest" "$work/installed"
    remove_files "$work/installed"
    rm -f "$manifest" || fail "cannot remove $manifest: run it as the user who installed it, or as root"
    remove_folders "$work/installed"
  else
    work=$(mktemp -d)
    install
  fi
}

# Only a script that has come whole reaches this line: sh may read it from a pipe that breaks.
main "$@"
