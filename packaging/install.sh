#!/bin/sh
# Installs ddtop: fetches the archive for this machine, verifies its checksum, and puts the binary, man pages and completions below
# a folder. It asks nothing and needs no root, unless the folder does.
#
#   sh install.sh [--prefix FOLDER] [--version VERSION] [--from URL]
#   sh install.sh --uninstall [--prefix FOLDER]
#
#   --prefix FOLDER     where bin, share/man and the completions go: /usr/local, or ~/.local without root
#   --version VERSION   the release, as in 0.1.0; the newest one if none is named
#   --from URL          where the files of a release are, without a slash behind it: another server's, or file:///path/to/dist
set -eu

repository=https://github.com/ddtop/ddtop
prefix='' version='' from='' uninstall=''

say() { printf '%s\n' "$*"; }
fail() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p;}' "$0" >&2; }

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
  if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi
fi
case "$prefix" in /*) ;; *) prefix=$PWD/$prefix ;; esac

# installed: the files of an installation, below the prefix.
manifest=$prefix/share/ddtop/installed

if [ -n "$uninstall" ]; then
  [ -f "$manifest" ] || fail "install.sh has installed nothing below $prefix ($manifest is not there)"
  while IFS= read -r file; do
    case "$file" in bin/* | share/*) ;; *) fail "$manifest has a line that is no file of ddtop's: $file" ;; esac
    case "$file" in *..*) fail "$manifest has a line that is no file of ddtop's: $file" ;; esac
    rm -f "$prefix/$file"
    say "removed $prefix/$file"
  done <"$manifest"
  rm -f "$manifest"
  # Folders that are empty now go, too, but not the prefix.
  for dir in share/ddtop share/man/man1 share/man share/bash-completion/completions share/bash-completion share/zsh/site-functions share/zsh \
    share/fish/vendor_completions.d share/fish share bin; do
    rmdir "$prefix/$dir" 2>/dev/null || true
  done
  exit 0
fi

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

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

fetch "$from/checksums.txt" "$work/checksums.txt"
# A line is a checksum, two spaces and a name.
archive=$(sed -n "s/^[0-9a-f]\{64\}  \(ddtop_[0-9A-Za-z.+~-]*_${os}_${arch}\.tar\.gz\)\$/\1/p" "$work/checksums.txt" | head -n 1)
[ -n "$archive" ] || fail "$from/checksums.txt names no archive for $os $arch"
if [ -n "$version" ] && [ "$archive" != "ddtop_${version}_${os}_${arch}.tar.gz" ]; then
  fail "$from has $archive, not version $version"
fi
fetch "$from/$archive" "$work/$archive"

wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p" "$work/checksums.txt")
if command -v sha256sum >/dev/null; then
  got=$(sha256sum "$work/$archive")
elif command -v shasum >/dev/null; then
  got=$(shasum -a 256 "$work/$archive")
else
  fail "this needs sha256sum or shasum, to verify what was fetched"
fi
got=${got%% *}
[ "$got" = "$wanted" ] || fail "$archive is not the file of the release: its checksum is $got, not $wanted. Nothing was installed"
say "fetched $from/$archive"
say "its SHA-256 is that of checksums.txt: $got"

mkdir "$work/files"
tar -xzf "$work/$archive" -C "$work/files"

# put FILE TO MODE: installs a file below the prefix, by renaming, so that a ddtop that runs keeps its own.
put() {
  mkdir -p "$prefix/$(dirname "$2")" 2>/dev/null || fail "cannot make $prefix/$(dirname "$2"): choose another --prefix, or run it as root"
  cp "$work/files/$1" "$prefix/$2.new" 2>/dev/null || fail "cannot write $prefix/$2: choose another --prefix, or run it as root"
  chmod "$3" "$prefix/$2.new"
  mv -f "$prefix/$2.new" "$prefix/$2"
  printf '%s\n' "$2" >>"$work/installed"
  say "installed $prefix/$2"
}
put ddtop bin/ddtop 755
put completions/ddtop.bash share/bash-completion/completions/ddtop 644
put completions/_ddtop share/zsh/site-functions/_ddtop 644
put completions/ddtop.fish share/fish/vendor_completions.d/ddtop.fish 644
for page in "$work/files/man/"*.1.gz; do
  page=${page##*/}
  put "man/$page" "share/man/man1/$page" 644
done
mkdir -p "$prefix/share/ddtop"
cp "$work/installed" "$manifest"

"$prefix/bin/ddtop" version || fail "$prefix/bin/ddtop does not run"
say "to remove it: sh install.sh --uninstall --prefix $prefix"
case ":$PATH:" in
  *":$prefix/bin:"*) ;;
  *) say "$prefix/bin is not on your PATH: run $prefix/bin/ddtop, or add it" ;;
esac
