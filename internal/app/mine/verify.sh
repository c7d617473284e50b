# Runs the tests of a Harbor or Terminal-Bench task and says whether it is solved. What it
# takes for a verdict is stricter than the original: an empty summary, an empty set of
# rewards and a coloured summary are none.
mkdir -p /tmp/logs/verifier /tmp/logs/agent
cd /work || exit 70
shell=sh
command -v bash >/dev/null 2>&1 && shell=bash
export TEST_DIR=/tests

none() {
    echo "tally: no verdict: $1"
    exit 70
}

case "$1" in
reward)
    rm -f /tmp/logs/verifier/reward.txt /tmp/logs/verifier/reward.json
    $shell /tests/test.sh
    echo "tally: test.sh ended with $?"
    if [ -f /tmp/logs/verifier/reward.json ]; then
        said=$(tr -d ' \t\r\n' < /tmp/logs/verifier/reward.json)
        one='"[^"]*":-\{0,1\}[0-9][0-9.eE+-]*'
        echo "$said" | grep -q "^{$one\(,$one\)*}\$" || none "reward.json is $said"
        perfect='"[^"]*":1\(\.0*\)\{0,1\}'
        echo "$said" | grep -q "^{$perfect\(,$perfect\)*}\$" || exit 1
    elif [ -f /tmp/logs/verifier/reward.txt ]; then
        said=$(tr -d ' \t\r\n' < /tmp/logs/verifier/reward.txt)
        echo "$said" | grep -q '^[-+]\{0,1\}[0-9][0-9.eE+-]*$' || none "reward.txt is '$said'"
        echo "$said" | grep -q '^+\{0,1\}1\(\.0*\)\{0,1\}$' || exit 1
    else
        none "test.sh wrote neither /logs/verifier/reward.txt nor reward.json"
    fi
    ;;
pytest)
    $shell /tests/run-tests.sh > /tmp/logs/said 2>&1
    echo "tally: run-tests.sh ended with $?"
    cat /tmp/logs/said
    sed -n '/short test summary info/,$p' /tmp/logs/said > /tmp/logs/summary
    [ -s /tmp/logs/summary ] || none "no short test summary info"
    grep -q '^\(FAILED\|ERROR\|XPASS\) ' /tmp/logs/summary && exit 1
    grep -q '^PASSED ' /tmp/logs/summary || none "no test is reported as passed"
    ;;
*)
    none "$1 is not a kind of verdict"
    ;;
esac
echo
echo "tally: passed"
