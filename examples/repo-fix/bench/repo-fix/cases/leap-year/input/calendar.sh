# days YEAR MONTH tells how many days a month has.
days() {
	case $2 in
	4 | 6 | 9 | 11) echo 30 ;;
	2) if leap "$1"; then echo 29; else echo 28; fi ;;
	*) echo 31 ;;
	esac
}

# leap YEAR succeeds if the year has a 29th of February.
leap() {
	[ $(($1 % 4)) -eq 0 ]
}
