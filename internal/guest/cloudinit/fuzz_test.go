package cloudinit

import (
	"encoding/base64"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// FuzzParse shows that user data, however they are packed, come apart into no more than they may.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		archive, zipped(archive), base64.StdEncoding.EncodeToString([]byte(zipped(archive))), "#!/bin/sh\necho\n",
		"#cloud-config\nruncmd: []\n", "#include\nhttp://example.com/\n",
		"---\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n--x\n",
		"Content-Type: multipart/mixed; boundary=x\n\n--x\n\n" + archive + "\n--x--\n",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\nContent-Transfer-Encoding: " +
			"quoted-printable\n\n=23=21/bin/sh\n--x\nContent-Type: application/x-gzip\n\n" + zipped("#!/bin/sh") +
			"\n--x--\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		parts, err := Parse(data)
		if err != nil {
			return
		}
		size := 0
		for _, p := range parts {
			if p.Filename == "" {
				t.Fatalf("a part without a name: %q", p.Content)
			}
			size += len(p.Content)
		}
		if size > maxUserData || len(parts) > maxParts {
			t.Fatalf("%d parts of %d bytes", len(parts), size)
		}
	})
}

// FuzzConfig shows that cloud-config documents that can be read can be merged, and that a command that is a list of
// words stays one.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{
		"#cloud-config\nhostname: a\nruncmd:\n- echo x\n- [echo, \"it's\", 1]\n",
		"write_files:\n- {path: /a, content: !!binary aGk=, permissions: '0644'}\n- {path: /b, permissions: 0644, " +
			"owner: a:b, append: true}\n",
		"users: [default, {name: x, ssh_authorized_keys: [k]}]\nbootcmd: [[a], b]\npackages: [x]\n",
		"a: &a [1]\nb: *a\n", "runcmd: {}\n", "[1]",
	} {
		f.Add([]byte(text), []byte("runcmd: [b]"))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		alone, err := mergeConfigs([][]byte{first})
		if err != nil {
			return
		}
		for _, c := range slices.Concat(alone.Bootcmd, alone.Runcmd) {
			if c.argv != nil && !slices.Equal(words(c.shellLine()), c.argv) {
				t.Fatalf("%q is the line %s", c.argv, c.shellLine())
			}
		}
		if _, err := mergeConfigs([][]byte{first, second}); err != nil {
			if _, err := mergeConfigs([][]byte{second}); err == nil {
				t.Fatalf("%q and %q can be read, but not together", first, second)
			}
		}
	})
}

// words splits a line, in which everything is in single quotes or is an escaped quote, as a shell does.
func words(line string) []string {
	all := []string{}
	var word strings.Builder
	open, quoted := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			quoted, open = !quoted, true
		case quoted:
			word.WriteByte(c)
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
		case c == ' ':
			all = append(all, word.String())
			word.Reset()
			open = false
		default:
			return nil // the shell would read it
		}
	}
	if open {
		all = append(all, word.String())
	}
	return all
}

func TestCommandsOfWordsAreNotReadByTheShell(t *testing.T) {
	t.Parallel()
	c := command{argv: []string{"printf", "%s|", "it's", "$HOME", "a b", "`id`", "", "\\'", "x\ny"}}
	out, err := exec.Command("sh", "-c", c.shellLine()).Output()
	if want := "it's|$HOME|a b|`id`||\\'|x\ny|"; err != nil || string(out) != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
}
