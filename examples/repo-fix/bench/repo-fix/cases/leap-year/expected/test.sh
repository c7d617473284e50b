# Tests of calendar.sh. Exits with 1 if one fails.
. ./calendar.sh
failed=0
check() { # WHAT GOT WANT
	if [ "$2" = "$3" ]; then
		echo "ok    $1"
	else
		echo "FAIL  $1: got $2, want $3"
		failed=1
	fi
}
check "an ordinary year" "$(days 2026 2)" 28
check "every fourth year" "$(days 2028 2)" 29
check "a century" "$(days 2100 2)" 28
check "every fourth century" "$(days 2000 2)" 29
check "a long month" "$(days 2100 1)" 31
check "a short month" "$(days 2100 4)" 30
exit $failed
