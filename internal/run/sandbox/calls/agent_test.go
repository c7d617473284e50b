package calls

import "testing"

// What a shown file makes Python ask for is noted, and only the asking.
func TestAskedForIsNoted(t *testing.T) {
	l := AgentLog([]string{"/opt"}, nil, "/opt/@/src", "/etc/shadow")
	l.named("stat", "/opt/@/src")
	if got := l.Attempts(); len(got) != 1 || got[0].Act != "" {
		t.Errorf("asking is %v", got)
	}
	l.named("stat", "/opt/@/src/secret")
	l.named("stat", "/opt/@")
	l.named("chdir", "/opt/@/src")
	l.named("stat", "/etc/shadow")
	l.open("/", "/opt/@/src", 0)
	for _, a := range l.Attempts()[1:] {
		if a.Act != HiddenFile {
			t.Errorf("no act: %v", a)
		}
	}
	if n := len(l.Attempts()); n != 6 {
		t.Errorf("%d attempts", n)
	}
}

// Python asks for its library in every folder above its program, and for nothing
// else there.
func TestPythonLooksForItsLibrary(t *testing.T) {
	l := AgentLog([]string{"/srv", "/opt"}, []string{"/srv/.pyenv/versions/3.11.7"})
	for name, hides := range map[string]bool{
		"/srv":                                             false,
		"/srv/.pyenv/versions":                             false,
		"/srv/lib/python311.zip":                           false,
		"/srv/.pyenv/lib64/python314t.zip":                 false,
		"/srv/.pyenv/versions/lib/python3.11/os.py":        false,
		"/srv/.pyenv/versions/lib/python3.11/os.pyc":       false,
		"/srv/.pyenv/versions/lib/python3.13t/lib-dynload": false,
		"/srv/.pyenv/versions/3.11.7/lib/python311.zip":    false,

		"/opt/lib/python311.zip":                         true, // above nothing that was shown
		"/srv/.pyenv/versions/3.12.1/lib/python312.zip":  true,
		"/srv/.ssh/lib/python311.zip":                    true,
		"/srv/lib":                                       true,
		"/srv/lib/python.zip":                            true,
		"/srv/lib/python3.zip":                           true,
		"/srv/lib/python3keys.zip":                       true,
		"/srv/lib/python311.zip/key":                     true,
		"/srv/lib/python3.11/key":                        true,
		"/srv/lib/python3.11/lib-dynload/key.so":         true,
		"/srv/lib/python3.11/site-packages/os.py":        true,
		"/srv/lib/python3.11/../../.ssh/id_rsa":          true,
		"/srv/.ssh/id_rsa":                               true,
		"/srv/.pyenv/versions/secret":                    true,
		"/srv/lib/python311.zip/lib/python3.11/other.py": true,
	} {
		if l.Hides(name) != hides {
			t.Errorf("%s: hidden is %v", name, !hides)
		}
	}
}
