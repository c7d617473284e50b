# Tests of backup.sh. Exits with 1 if one fails.
. ./backup.sh
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

mkdir "$dir/from" "$dir/to" "$dir/nothing"
echo one >"$dir/from/one.txt"
echo two >"$dir/from/two words.txt"
echo three >"$dir/from/three.dat"
check "files are counted" "$(backup "$dir/from" "$dir/to" 2>&1)" 2
check "a plain name" "$(cat "$dir/to/one.txt" 2>&1)" one
check "a name with a blank" "$(cat "$dir/to/two words.txt" 2>/dev/null)" two
check "other files are left alone" "$(ls "$dir/to" | grep -c dat)" 0
check "a folder without files" "$(backup "$dir/nothing" "$dir/to" 2>&1)" 0
exit $failed
