#!/bin/sh
# Installs tally, tally-verify and tally-fleet from a release, after checking what it installs.
# docs/install.md describes it.
#
#   sh install.sh --from FOLDER|URL [--version V] [--prefix DIR] [--signers FILE] [--require-signature]
#
# --version    install this version and no other, such as 1.0.0: a mirror that offers an
#              older or newer release, however well signed, is refused
# --from       where the files of a release are: a folder, or an https URL before the names
# --prefix     where the programs go (default: ~/.local/bin)
# --signers    an allowed_signers file with the key of the people who release, as ssh-keygen(1)
#              has it (default: ~/.config/tallystick/release_signers, if it is there)
# --require-signature  refuse if the signature cannot be checked
# --system     allow running as root
#
# Exit codes: 0 installed; 1 could not; 2 asked wrongly; 3 something is not what it
# should be. In every case but 0 nothing is installed.
set -eu

from='' version='' prefix=${HOME:-}/.local/bin signers='' need_signature=no system=no
say() { printf 'install: %s\n' "$*"; }
stop() { code=$1; shift; printf 'install: error: %s\n' "$*" >&2; exit "$code"; }
value() { [ $# -ge 2 ] || stop 2 "$1 needs a value"; }

while [ $# -gt 0 ]; do
	case $1 in
	--from) value "$@"; from=$2; shift 2 ;;
	--version) value "$@"; version=${2#v}; shift 2
		case $version in '' | *[!A-Za-z0-9.+~-]*) stop 2 "--version $version: expected a version such as 1.0.0" ;; esac ;;
	--prefix) value "$@"; prefix=$2; shift 2 ;;
	--signers) value "$@"; signers=$2; shift 2
		[ -r "$signers" ] || stop 2 "--signers $signers: cannot be read" ;;
	--require-signature) need_signature=yes; shift ;;
	--system) system=yes; shift ;;
	-h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
	*) stop 2 "unknown option $1; see --help" ;;
	esac
done
[ -n "$from" ] || stop 2 "--from is missing: name the folder or the URL of a release"
if [ "$(id -u)" = 0 ] && [ "$system" = no ]; then
	stop 2 "this is root; give --system if that is meant"
fi
case $from in
http://*) stop 2 "--from $from: use https, or download the files and name the folder" ;;
esac

work=$(mktemp -d) || stop 1 "no temporary folder"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# fetch NAME: false if it is not there.
fetch() {
	case $from in
	https://*)
		if command -v curl >/dev/null 2>&1; then
			curl --proto '=https' --proto-redir '=https' -fsSL -o "$work/$1" "${from%/}/$1"
		elif command -v wget >/dev/null 2>&1; then
			wget --https-only -q -O "$work/$1" "${from%/}/$1"
		else
			stop 1 "neither curl nor wget is there; download the files and name the folder with --from"
		fi ;;
	*) [ -f "$from/$1" ] && cp "$from/$1" "$work/$1" ;;
	esac
}

# digest FILE: its SHA-256 in hexadecimal.
digest() {
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum <"$1" | cut -d' ' -f1
	elif command -v shasum >/dev/null 2>&1; then
		shasum -a 256 <"$1" | cut -d' ' -f1
	elif command -v openssl >/dev/null 2>&1; then
		openssl dgst -sha256 -r <"$1" | cut -d' ' -f1
	else
		stop 1 "none of sha256sum, shasum and openssl is there, so nothing can be checked"
	fi
}

case $(uname -s) in
Linux) os=linux ;;
Darwin) os=darwin ;;
*) stop 1 "there is no release for $(uname -s); docs/install.md says how to build it" ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) stop 1 "there is no release for $(uname -m); docs/install.md says how to build it" ;;
esac

fetch SHA256SUMS || stop 1 "$from has no SHA256SUMS"

# Who vouches for the list comes first: without that it only says that the files
# came whole.
checked='' unchecked=''
[ -n "$signers" ] || signers=${XDG_CONFIG_HOME:-${HOME:-}/.config}/tallystick/release_signers
if [ ! -r "$signers" ]; then
	unchecked="who made this release: no key is known (--signers)"
elif ! command -v ssh-keygen >/dev/null 2>&1; then
	unchecked="who made this release: ssh-keygen is not there"
elif ! fetch SHA256SUMS.sig 2>/dev/null; then
	stop 3 "a key is known ($signers), and the release has no signature; nothing was installed"
else
	who=$(ssh-keygen -Y find-principals -s "$work/SHA256SUMS.sig" -f "$signers" 2>/dev/null | head -n 1) || true
	[ -n "$who" ] || stop 3 "the signature is not by a signer in $signers; nothing was installed"
	ssh-keygen -Y verify -f "$signers" -I "$who" -n tallystick-release -s "$work/SHA256SUMS.sig" <"$work/SHA256SUMS" >/dev/null 2>&1 ||
		stop 3 "the signature over SHA256SUMS does not verify; nothing was installed"
	checked="signature over SHA256SUMS by $who"
fi
[ "$need_signature" = no ] || [ -n "$checked" ] || stop 3 "could not be checked: $unchecked; nothing was installed"

# Exactly one line for this platform, of the shape that we write.
line=$(grep -E "^[0-9a-f]{64}  tally_[A-Za-z0-9.+~-]+_${os}_${arch}\.tar\.gz\$" "$work/SHA256SUMS") ||
	stop 1 "SHA256SUMS has no archive for $os on $arch"
[ "$(printf '%s\n' "$line" | wc -l)" -eq 1 ] || stop 3 "SHA256SUMS has several archives for $os on $arch; nothing was installed"
want=${line%% *} name=${line##* }
if [ -n "$version" ]; then
	case $name in
	"tally_${version}_${os}_${arch}.tar.gz" | "tally_v${version}_${os}_${arch}.tar.gz") ;;
	*) stop 3 "--version asks for $version, and the release has $name; nothing was installed" ;;
	esac
fi
fetch "$name" || stop 1 "$from has no $name"
got=$(digest "$work/$name")
[ "$got" = "$want" ] || stop 3 "$name is sha256:$got, SHA256SUMS says sha256:$want; nothing was installed"
checked="SHA-256 of $name${checked:+, $checked}"

top=${name%.tar.gz}
programs="tally tally-verify"
# Releases of before November 2026 have no tally-fleet.
if tar -tzf "$work/$name" | grep -qx "$top/tally-fleet"; then programs="$programs tally-fleet"; fi
(cd "$work" && for program in $programs; do tar -xzf "$name" "$top/$program" || exit 1; done) || stop 1 "$name cannot be unpacked; nothing was installed"
said=$("$work/$top/tally" version) || stop 1 "the program does not start on this machine; nothing was installed"
# The name of an archive says nothing of what is in it.
if [ -n "$version" ]; then
	case " $(printf '%s' "$said" | head -n 1) " in
	*" $version "* | *" v$version "*) checked="version $version, $checked" ;;
	*) stop 3 "--version asks for $version, and the program says: $(printf '%s' "$said" | head -n 1); nothing was installed" ;;
	esac
fi

mkdir -p "$prefix" || stop 1 "cannot make $prefix"
# All are there before any gets its name: a full disk leaves what was there.
for program in $programs; do
	if ! { cp "$work/$top/$program" "$prefix/.$program.new" && chmod 755 "$prefix/.$program.new"; }; then
		rm -f "$prefix/.tally.new" "$prefix/.tally-verify.new" "$prefix/.tally-fleet.new"
		stop 1 "cannot write to $prefix; nothing was installed"
	fi
done
for program in $programs; do mv -f "$prefix/.$program.new" "$prefix/$program"; done
say "installed $programs in $prefix"
say "checked: $checked"
[ -z "$unchecked" ] || say "NOT checked: $unchecked"
[ -n "$version" ] || say "NOT checked: that this is the version you want (--version)"
case :${PATH:-}: in
*:"$prefix":*) ;;
*) say "$prefix is not on your PATH" ;;
esac
