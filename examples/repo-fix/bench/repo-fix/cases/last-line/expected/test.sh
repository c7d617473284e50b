# Tests of sum.sh. Exits with 1 if one fails.
. ./sum.sh
failed=0
check() { # WHAT GOT WANT
	if [ "$2" = "$3" ]; then
		echo "ok    $1"
	else
		echo "FAIL  $1: got $2, want $3"
		failed=1
	fi
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

printf '1\n2\n3\n' >"$dir/whole"
check "every line ends in a newline" "$(sum "$dir/whole")" 6
printf '1\n2\n3' >"$dir/cut"
check "the last line does not" "$(sum "$dir/cut")" 6
: >"$dir/empty"
check "an empty file" "$(sum "$dir/empty")" 0
exit $failed
