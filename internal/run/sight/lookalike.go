package sight

import (
	"sync"
	"unicode/utf8"
)

// LookAlikes are letters that are taken for an ASCII letter in common fonts. Each
// row has the characters and, in the same order, what stands for them. Capitals
// come before their small letters where the two look like different letters. The
// table is a part of the rules: it is small on purpose, and stated in
// docs/formats/audit.md.
var LookAlikes = []struct{ What, From, To string }{
	{"Cyrillic", "аАвВеЕѕЅіІјЈкКмМнНоОрРсСтТуУхХһҺԁԛԝѡгґүӏӀԍѵԌ", "aabbeessiijjkkmmhhooppccttyyxxhhdqwwrryllgvg"},
	{"Greek", "αΑΒεΕΖηΗιΙκΚΜΝνοΟρΡτΤΥυΧχγΥϲϳωϹ", "aabeezhhiikkmnvooppttyuxxyycjwc"},
	{"Armenian", "օսհոց", "ouhng"},
	{"Latin", "ɑɡıȷʟɪɴʀʏꜱᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢℓʙꜰɢʜɩǀ", "agijlinrysacdejkmoptuvwzlbfghil"},
	{"Cherokee", "ᎪᏟᎬᏀᎻᏆᎫᏦᏞᎷᏢᎡᏚᎢᏙᎳᏃ", "aceghijklmprstvwz"},
	{"enclosed", "🅐🅑🅒🅓🅔🅕🅖🅗🅘🅙🅚🅛🅜🅝🅞🅟🅠🅡🅢🅣🅤🅥🅦🅧🅨🅩🅰🅱🅲🅳🅴🅵🅶🅷🅸🅹🅺🅻🅼🅽🅾🅿🆀🆁🆂🆃🆄🆅🆆🆇🆈🆉", "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"},
	{"dashes", "‐‑‒–—―−﹘－", "---------"},
	{"quotation marks", "‘’‚‛′＇“”„‟″＂«»", "''''''\"\"\"\"\"\"\"\""},
	{"signs", "∕⁄։∶⋅·", "//::.."},
}

// FoldsToMore are characters that stand for more than one letter.
var FoldsToMore = map[rune]string{'ß': "ss", 'ẞ': "ss", 'æ': "ae", 'Æ': "ae", 'œ': "oe", 'Œ': "oe", 'ø': "o", 'Ø': "o", 'đ': "d", 'Đ': "d", 'ł': "l", 'Ł': "l", 'ς': "σ"}

// lookAlike is the table by character.
var lookAlike = sync.OnceValue(func() map[rune]string {
	t := map[rune]string{}
	for _, row := range LookAlikes {
		to := row.To
		for _, r := range row.From {
			if to == "" {
				panic("sight: LookAlikes: " + row.What + " has more characters than letters")
			}
			c, size := utf8.DecodeRuneInString(to)
			if _, there := t[r]; !there {
				t[r] = string(c)
			}
			to = to[size:]
		}
		if to != "" {
			panic("sight: LookAlikes: " + row.What + " has more letters than characters")
		}
	}
	for r, s := range FoldsToMore {
		t[r] = s
	}
	return t
})
