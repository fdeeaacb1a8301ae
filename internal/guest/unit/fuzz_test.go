package unit

import (
	"strings"
	"testing"
)

// FuzzParse shows that a unit file, which user data write as they like, is read into options, and those into commands
// and variables, whatever is in it.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"[Unit]\nDescription=a\nAfter=network-online.target\n\n[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo \"$A\" ${B}'\nEnvironment=\"A=b c\" B=d\n\n[Install]\nWantedBy=multi-user.target\n",
		"[Service]\nExecStart=-@/bin/a b \\\n  c\n# comment\nExecStart=\nExecStart=!!/bin/x %i %% %H\nTimeoutStartSec=1min 30s\nRestart=on-failure\n",
		"[Service]\nEnvironmentFile=-/etc/none\nEnvironment='A=\\x41\\u00e9\\101'\nLimitNOFILE=1024:2048\n", "A=b\n", "[", "[Unit]\nA", "[Unit]\n\\\n", "\xef\xbb\xbf[Unit]\r\nA=b\r\n",
		"[Service]\nTimeoutStopSec=infinity\nRestartSec=99999999999999999999h\nKillMode=none\n", "[Service]\nExecStart=\"/bin/a\nEnvironment=\"A=b\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		options, err := Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		u := &Unit{Name: "a@b.service", Options: options}
		for _, o := range options {
			if o.Name == "" || strings.ContainsAny(o.Name, "\n=") {
				t.Fatalf("%q has the option %+v", text, o)
			}
			u.Names(o.Section, o.Name)
			u.Bool(o.Section, o.Name, true)
			if d := u.Duration(o.Section, o.Name, 1); d < 0 {
				t.Fatalf("%s is %v", o.Name, d)
			}
			commands, err := u.Commands(o.Name)
			if err != nil {
				continue
			}
			for _, c := range commands {
				if c.Path == "" || len(c.Args) == 0 {
					t.Fatalf("%q has the command %+v", text, c)
				}
				_ = c.String()
				c.Argv(map[string]string{"A": "b c", "B": ""})
			}
		}
		variables, err := Assignments(strings.Join(strings.Fields(text), " "))
		if err != nil {
			return
		}
		for name := range variables {
			if name == "" || strings.Contains(name, "=") {
				t.Fatalf("%q has the variable %q", text, name)
			}
		}
	})
}
