# backup FROM TO copies every text file of a folder into another one and tells
# how many it copied.
backup() {
	copied=0
	for file in $(ls "$1"); do
		case $file in
		*.txt) cp "$1/$file" "$2" && copied=$((copied + 1)) ;;
		esac
	done
	echo "$copied"
}
