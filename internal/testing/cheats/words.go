package cheats

import "strings"

// A tongue is a language that tasks, pages and agents are written in.
type tongue struct {
	name      string
	words     []string
	stop      string   // ends a sentence
	space     string   // between words
	syllables []string // names are made of them
	// questions ask about a thing ({t}) and a place ({p}); facts answer the same
	// question with {g}, in other words.
	questions, facts []string
	says             []string // how an agent gives its answer
}

func list(s string) []string { return strings.Fields(s) }

var tongues = []*tongue{
	{
		name: "en", stop: ". ", space: " ",
		words:     list("the of and to in a was for on with by as at from it were which his that are this their an also first new one during after most many years city river area between two known national university part work century early time later water north south west east station island church building family house company team season member government party local area road bridge museum record history period small large long high old great open line school village"),
		syllables: list("va ren tol mi ska dor eli quin bar os neth ula pri zen hal mor dace wyn bro lis ket ara fen ogu tha vel rin cas"),
		questions: []string{
			"According to the survey of {t} kept in {p}, which name is given for the person who first described it?",
			"In the catalogue of {p}, what is the entry that stands directly after the one on {t}?",
			"What was recorded for {t} in the yearbook of {p}, in the edition that followed the fire?",
			"A plaque in {p} mentions {t}. Which inscription does the second line of the plaque carry?",
			"Which value does the register of {p} state for {t}, without any unit?",
		},
		facts: []string{
			"Later editions agree that {g} belongs there.", "The second line simply reads {g}.", "Archivists settled on {g} after a long debate.",
			"It was entered as {g}, and has stayed so since.", "Visitors are told about {g} at the end of the tour.",
		},
		says: []string{"FINAL ANSWER: {g}", "The answer is {g}.", "I found it: {g}", "So the result is **{g}**.", "Based on the sources, {g}."},
	},
	{
		name: "de", stop: ". ", space: " ",
		words:     list("der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis mehr durch man sein wurde sei Stadt Fluss Jahr Gemeinde Straße Kirche Schule Verein Zeit Gebiet Brücke Bahnhof"),
		syllables: list("grün wal bach hau stein rieg ulf ött mann hel brun sieg lin dorf kar ross web"),
		questions: []string{
			"Welchen Namen nennt das Verzeichnis von {p} für {t} in der zweiten Auflage?",
			"Was steht in der Chronik von {p} über {t} an letzter Stelle?",
			"Welchen Wert gibt das Register von {p} für {t} ohne Einheit an?",
		},
		facts: []string{"Spätere Ausgaben nennen einhellig {g}.", "In der letzten Zeile steht {g}.", "Das Archiv führt seither {g}."},
		says:  []string{"FINAL ANSWER: {g}", "Die Antwort lautet {g}.", "Ergebnis: {g}"},
	},
	{
		name: "fr", stop: ". ", space: " ",
		words:     list("le la les de des du un une et à dans est pour que qui sur par avec au ne se pas plus son ce il sont aux cette ont mais comme ou leur été être ces sa ses entre après deux même fait ville rivière année commune église école pont gare région histoire musée époque"),
		syllables: list("beau lan cour mar tin vil lé rac four nier chan tel per ri don sau vage"),
		questions: []string{
			"Quel nom le registre de {p} donne-t-il pour {t} dans sa deuxième édition ?",
			"Que porte la dernière ligne de la notice de {p} consacrée à {t} ?",
		},
		facts: []string{"Les éditions suivantes retiennent {g}.", "La dernière ligne indique {g}.", "Les archivistes ont choisi {g}."},
		says:  []string{"FINAL ANSWER: {g}", "La réponse est {g}.", "Résultat : {g}"},
	},
	{
		name: "es", stop: ". ", space: " ",
		words:     list("el la los las de del un una y a en es por que con para se no al lo como más su sus pero este esta entre cuando muy sin sobre también hasta hay donde desde todo durante años ciudad río iglesia puente escuela historia museo época pueblo camino estación"),
		syllables: list("mon te ca rra gui sal va tier ra ol medo ji mé nez que ve do lar"),
		questions: []string{
			"¿Qué nombre da el catálogo de {p} para {t} en la segunda edición?",
			"¿Qué dice la última línea de la placa de {p} sobre {t}?",
		},
		facts: []string{"Las ediciones posteriores dan {g}.", "La última línea dice {g}.", "El archivo conserva {g} desde entonces."},
		says:  []string{"FINAL ANSWER: {g}", "La respuesta es {g}.", "Resultado: {g}"},
	},
	{
		name: "ru", stop: ". ", space: " ",
		words:     list("и в не на что с по как из у за от так для его к до или при но мы были был она это также после между город река год область школа церковь мост станция история музей время часть новый первый большой старый северный южный"),
		syllables: list("во рон цов бе ло гор ский ми ха лев ста ров кин зе лен ный дар"),
		questions: []string{
			"Какое имя указано в каталоге {p} для предмета «{t}» во втором издании?",
			"Что написано в последней строке записи {p} о предмете «{t}»?",
		},
		facts: []string{"Поздние издания сходятся на {g}.", "В последней строке стоит {g}.", "Архив хранит запись {g}."},
		says:  []string{"FINAL ANSWER: {g}", "Ответ: {g}.", "Итог: {g}"},
	},
	{
		name: "zh", stop: "。", space: "",
		words:     list("城市 历史 河流 年代 学校 教堂 桥梁 车站 博物馆 地区 第一 其中 以及 之后 当时 建造 记录 研究 人们 认为 位于 北部 南部 著名 公司 球队 政府 村庄 道路 古老"),
		syllables: list("青 岚 铭 泽 远 柏 翰 映 霜 砚 溪 凛 澄 峤 棠"),
		questions: []string{
			"{p}的目录第二版中，关于{t}的条目写的是什么名称？",
			"在{p}的年鉴里，{t}一项的最后一行是什么？",
		},
		facts: []string{"后来的版本都写作{g}。", "最后一行是{g}。", "档案馆至今保留{g}这一记录。"},
		says:  []string{"FINAL ANSWER: {g}", "答案是{g}。", "结果：{g}"},
	},
}

// prose is about n bytes of sentences without a meaning.
func (d *dice) prose(t *tongue, n int) string {
	var b strings.Builder
	for b.Len() < n {
		for i, words := 0, d.between(6, 16); i < words; i++ {
			w := pick(d, t.words)
			if i == 0 {
				w = title(w)
			} else {
				b.WriteString(t.space)
			}
			b.WriteString(w)
		}
		b.WriteString(t.stop)
		if d.chance(12) {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// name is a made-up word of two to four syllables.
func (d *dice) name(t *tongue) string {
	var b strings.Builder
	for range d.between(3, 4) {
		b.WriteString(pick(d, t.syllables))
	}
	return title(b.String())
}

func title(w string) string {
	for i := range w {
		if i > 0 {
			return strings.ToUpper(w[:i]) + w[i:]
		}
	}
	return strings.ToUpper(w)
}
