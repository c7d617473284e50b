# sum FILE adds the numbers in a file, one a line.
sum() {
	total=0
	while read -r n; do
		total=$((total + n))
	done <"$1"
	echo "$total"
}
