package sight

import (
	"fmt"
	"strings"
	"sync"
	"unicode"
)

// MinBits is the surprise from which on an answer that stands in a text says
// something: one text of a million has it by chance. Below it an answer is not
// decidable: "3" and "yes" stand in every text.
const MinBits = 20

// Surprise says how little an answer, folded, is to be expected in an ordinary
// text, in bits. It is an estimate and not a model of language: small, the same
// everywhere, and written down in docs/formats/audit.md.
//
// A letter counts what English has it for (e 3 bits, q 10), one of another script
// 4.5, of a syllabary 6, of Chinese writing 9; a digit 3.3; the third of the same
// character in a row and all after it 1, so that round numbers are low; any other
// sign 1. A word of wordBits counts what stands there. An answer is found as a
// whole word or number: its two ends are 2.5 each. An answer that forms offer
// for every question ("none of the above") is 0.
func Surprise(folded string) float64 {
	if genericAnswer(folded) {
		return 0
	}
	known := wordBits()
	tenths := 0
	for rest := folded; rest != ""; {
		n := wordLen(rest)
		if n == 0 {
			size := len(rest) - len(trimRune(rest))
			if rest[:size] != " " {
				tenths += signTenths
			}
			rest = rest[size:]
			continue
		}
		cost := spelledTenths(rest[:n])
		if bits, ok := known[rest[:n]]; ok {
			cost = min(cost, bits)
		}
		tenths += cost
		rest = rest[n:]
	}
	return float64(tenths+2*endTenths) / 10
}

// What a character counts, in tenths of a bit.
const (
	digitTenths  = 33
	signTenths   = 10
	repeatTenths = 10
	endTenths    = 25
	scriptTenths = 45
	kanaTenths   = 60
	hanTenths    = 90
)

// letterTenths is minus the logarithm, to base 2, of how often a letter is one of
// an English text, from a to z.
var letterTenths = [26]int{36, 61, 52, 45, 30, 55, 56, 40, 38, 94, 70, 46, 54, 38, 37, 57, 100, 41, 40, 34, 52, 67, 55, 94, 57, 104}

func spelledTenths(word string) (tenths int) {
	var last rune
	run := 0
	for _, r := range word {
		if run++; r != last {
			last, run = r, 1
		}
		switch {
		case run > 2:
			tenths += repeatTenths
		case 'a' <= r && r <= 'z':
			tenths += letterTenths[r-'a']
		case '0' <= r && r <= '9':
			tenths += digitTenths
		case unicode.Is(unicode.Han, r):
			tenths += hanTenths
		case unicode.In(r, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
			tenths += kanaTenths
		default:
			tenths += scriptTenths
		}
	}
	return tenths
}

// wordLen is how many bytes of letters, or of digits, a text begins with.
func wordLen(s string) int {
	for i, r := range s {
		if !isWordRune(r) || i > 0 && isDigit(s[0]) != (r < 0x80 && isDigit(byte(r))) {
			return i
		}
	}
	return len(s)
}

func trimRune(s string) string {
	for i := range s {
		if i > 0 {
			return s[i:]
		}
	}
	return ""
}

// isWordRune reports whether a character is a part of a word or number.
func isWordRune(r rune) bool {
	if r < 0x80 {
		return IsWordByte(byte(r)) || 'A' <= r && r <= 'Z'
	}
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
}

// Generic are what any agent may say about anything: the original's list.
var Generic = []string{"", "yes", "no", "true", "false", "none", "null", "unknown", "n/a", "na", "-", "0", "1", "answer", "ok", "x"}

// genericPhrases are what forms offer and agents say when they know nothing.
var genericPhrases = []string{"none of the above", "all of the above", "none of these", "all of these", "not enough information", "cannot be determined",
	"it depends", "i don't know", "i do not know", "not applicable", "not available", "no answer", "not sure", "yes and no", "both", "neither"}

func genericAnswer(folded string) bool {
	for _, list := range [][]string{Generic, genericPhrases} {
		for _, g := range list {
			if folded == g {
				return true
			}
		}
	}
	return false
}

// Words that texts are full of, with what each counts.
const (
	// functionWords hold sentences together, and units stand behind numbers.
	functionWords = `a about after again against all also an and any are as at be because been before being between both but by can could did do does
		down each for from had has have he her here him his how i if in into is it its just like may me might more most must my no not now of off on one
		only or other our out over own per she should so some such than that the their them then there these they this those through to too two under up
		upon us very was we were what when where which while who whom why will with within without would yes you your
		km m cm mm kg g mg l ml lb oz mi ft mph kmh hour hours minute minutes second seconds day days week weeks month months year years percent degree
		degrees dollar dollars euro euros usd eur am pm st nd rd th`
	// commonWords are ordinary answers and ordinary words.
	commonWords = `above accept active add age agree air almost along already always amount animal another answer apple april area art ask august author
		average away baby back bad ball bank base basic beach bear beautiful bed below best better big bird black blood blue board boat body book bottom
		box boy bread bring brother brown building business buy call car care case cat center central century certain chair change chapter child children
		church circle city class clear close cloud coffee cold color colour come common company complete computer copper correct cost country course court
		create cross current dark data date daughter dead deal death december deep deer different direct doctor dog door double dream drink drive dry early
		earth east easy eat egg eight eighteen eighty either eleven empty end energy england english enough equal europe even evening event ever every
		example eye face fact false family far farm fast father february feet female few fifteen fifty figure final find fine finger fire first fish five
		flower fly follow food foot force form forty forward found four fourteen free french fresh friday friend front fruit full game garden general
		german girl give glass go gold good government great green grey gray ground group grow hair half hand happy hard head heart heat heavy height
		hello help high hill history hold home hope horse hot hotel house human hundred hunger husband ice idea increase inside interest iron island
		january job july june keep kind king knife know lake land language large last late law lead leaf leave left leg less letter level life light line
		lion list little live local long look lose lost love low machine main make male man many map march mark market material maximum maybe mean
		measure meat medium member metal method middle milk million mind minimum minus mistake modern moment monday money monkey moon morning mother
		mountain mouth move much music name nation natural near need negative neither never new news next night nine nineteen ninety none noon north
		nothing november number ocean october office oil old once open orange order outside page pain paper parent part party past pay peace pen people
		person picture piece pig pink place plan plane plant plastic play please plus point poor position positive possible power present president
		pressure price prime private problem product public purple quality queen question quick quiet rain rate reach read ready real reason record red
		region rest result rich right ring rise river road rock room rose round rule run safe salt same sand saturday save say school science sea season
		secret see sell send sense september series set seven seventeen seventy several shape ship shoe short show side sign silver similar simple since
		single sister six sixteen sixty size skin sky sleep slow small snow social soft son song soon sound source south space special speed spring square
		stand star start state station steel step still stone stop store story straight street strong student study sugar summer sun sunday sure surface
		system table tail take talk tall tax tea team tell temperature ten test text thank thing think third thirteen thirty thousand three thursday time
		tiger title today together tomorrow tonight top total touch town trade train travel tree triangle true try tuesday turn twelve twenty twice type
		uncle unit united university unknown usual value village voice wait walk wall war warm wash water way wednesday weight well west wet wheel white
		whole wide wife wild win wind window wine winter wood word work world worth write wrong yellow yesterday young zero zone`
	functionTenths, commonTenths = 40, 100
)

var wordBits = sync.OnceValue(func() map[string]int {
	t := map[string]int{}
	for _, w := range strings.Fields(commonWords) {
		t[w] = commonTenths
	}
	for _, w := range strings.Fields(functionWords) {
		t[w] = functionTenths
	}
	return t
})

// RulesText states what decides a surprise and a spelling, for the digest of the
// audit's rules.
func RulesText() string {
	return fmt.Sprint("surprise from ", MinBits, " bits: letters ", letterTenths, " digit ", digitTenths, " sign ", signTenths, " repeated ", repeatTenths, " end ", endTenths,
		" script ", scriptTenths, " syllables ", kanaTenths, " Han ", hanTenths, "; function words ", functionTenths, " ", strings.Fields(functionWords),
		"; common words ", commonTenths, " ", strings.Fields(commonWords), "; generic ", strings.Join(Generic, "|"), "|", strings.Join(genericPhrases, "|"),
		"; spelled with gaps of ", maxGap, " bytes; inside words from ", insideBits, " bits; base64 of ", minEncoded, " characters")
}
