package calls

import "testing"

// Python asks for its library in every folder above its program, and for nothing
// else there.
func TestPythonLooksForItsLibrary(t *testing.T) {
	l := AgentLog([]string{"/root", "/home"}, []string{"/root/.pyenv/versions/3.11.7"})
	for name, hides := range map[string]bool{
		"/root":                                             false,
		"/root/.pyenv/versions":                             false,
		"/root/lib/python311.zip":                           false,
		"/root/.pyenv/lib64/python314t.zip":                 false,
		"/root/.pyenv/versions/lib/python3.11/os.py":        false,
		"/root/.pyenv/versions/lib/python3.11/os.pyc":       false,
		"/root/.pyenv/versions/lib/python3.13t/lib-dynload": false,
		"/root/.pyenv/versions/3.11.7/lib/python311.zip":    false,

		"/home/lib/python311.zip":                         true, // above nothing that was shown
		"/root/.pyenv/versions/3.12.1/lib/python312.zip":  true,
		"/root/.ssh/lib/python311.zip":                    true,
		"/root/lib":                                       true,
		"/root/lib/python.zip":                            true,
		"/root/lib/python3.zip":                           true,
		"/root/lib/python3keys.zip":                       true,
		"/root/lib/python311.zip/key":                     true,
		"/root/lib/python3.11/key":                        true,
		"/root/lib/python3.11/lib-dynload/key.so":         true,
		"/root/lib/python3.11/site-packages/os.py":        true,
		"/root/lib/python3.11/../../.ssh/id_rsa":          true,
		"/root/.ssh/id_rsa":                               true,
		"/root/.pyenv/versions/secret":                    true,
		"/root/lib/python311.zip/lib/python3.11/other.py": true,
	} {
		if l.Hides(name) != hides {
			t.Errorf("%s: hidden is %v", name, !hides)
		}
	}
}
