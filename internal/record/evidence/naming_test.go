package evidence

import "testing"

func TestNamesThatCouldBeTakenForSomethingElseAreRefused(t *testing.T) {
	for _, name := range []string{"", " ", " v9", "v9 ", "a  b", "latest", "LATEST~2", "latest one", "7", "0x1f", "1e9", "NaN", "inf", "-3", "sums.default.4", "Sums.X.12",
		"a:b", "a/b", "a~1", `a\b`, "a\nb", "a\tb", "рrompt", "prompt v９", "ｐｒｏｍｐｔ", "prompt\u200bv9", "prom\u0301pt", "𝐩rompt", "p\u202ermopt", "Ωmega", string(make([]byte, 81))} {
		if CheckName(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
	for _, name := range []string{"prompt v9", "v9", "Entwurf für März", "промпт 9", "提示 九", "a.b", "sums.default", "release-1.2 (final)", "it's #7"} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
