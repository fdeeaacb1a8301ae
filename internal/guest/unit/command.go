package unit

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Command is one command line of an Exec setting.
type Command struct {
	Path string
	Args []string // as typed, with variables; Args[0] is the name that the program gets
	// IgnoreFailure is the prefix "-": a failure is noted and does not count. NoEnvironment is ":".
	IgnoreFailure, NoEnvironment bool
}

// String returns the command as systemctl status shows it.
func (c Command) String() string { return strings.Join(append([]string{c.Path}, c.Args[1:]...), " ") }

// Commands returns the command lines of ExecStart, ExecStartPre and the like.
func (u *Unit) Commands(name string) ([]Command, error) {
	var commands []Command
	for _, line := range u.All("Service", name) {
		words, err := splitWords(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %s=%s: %w", u.Name, name, line, err)
		}
		for len(words) > 0 {
			end := len(words)
			for i, w := range words {
				if w.text == ";" && !w.quoted {
					end = i
					break
				}
			}
			if end > 0 {
				c, err := u.command(words[:end])
				if err != nil {
					return nil, fmt.Errorf("%s: %s=%s: %w", u.Name, name, line, err)
				}
				commands = append(commands, c)
			}
			words = words[min(end+1, len(words)):]
		}
	}
	return commands, nil
}

func (u *Unit) command(words []word) (Command, error) {
	var c Command
	first, argv0 := words[0].text, false
prefixes:
	for first != "" {
		switch first[0] {
		case '-':
			c.IgnoreFailure = true
		case '@':
			argv0 = true
		case ':':
			c.NoEnvironment = true
		case '+', '!', '|': // privileges: everything runs as root here unless User= says otherwise
		default:
			break prefixes
		}
		first = first[1:]
	}
	if first == "" {
		return c, fmt.Errorf("no program to run")
	}
	c.Path = u.Expand(first)
	if !strings.HasPrefix(c.Path, "/") {
		c.Path = findProgram(c.Path)
	}
	words = words[1:]
	c.Args = []string{c.Path}
	if argv0 {
		if len(words) == 0 {
			return c, fmt.Errorf("@ wants the program's name after its path")
		}
		c.Args[0], words = u.Expand(words[0].text), words[1:]
	}
	for _, w := range words {
		c.Args = append(c.Args, u.Expand(w.text))
	}
	return c, nil
}

// findProgram finds a program by name; one that is not there is left for exec to say so.
func findProgram(name string) string {
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() &&
			info.Mode()&0o111 != 0 {
			return filepath.Join(dir, name)
		}
	}
	return "/usr/bin/" + name
}

// Argv returns the command's arguments with the variables of env expanded: ${NAME} within a word, $NAME as a word of
// its own, which is split at blanks into none or more.
func (c Command) Argv(env map[string]string) []string {
	if c.NoEnvironment {
		return c.Args
	}
	argv := []string{c.Args[0]}
	for _, arg := range c.Args[1:] {
		if name, ok := strings.CutPrefix(arg, "$"); ok && isVariableName(name) {
			words, err := splitWords(env[name])
			if err != nil { // an unbalanced quote: as it is, at blanks
				argv = append(argv, strings.Fields(env[name])...)
				continue
			}
			for _, w := range words {
				argv = append(argv, w.text)
			}
			continue
		}
		argv = append(argv, substitute(arg, env))
	}
	return argv
}

func isVariableName(s string) bool {
	for i, r := range s {
		if r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

func substitute(s string, env map[string]string) string {
	var b strings.Builder
	for {
		start := strings.IndexByte(s, '$')
		if start < 0 || start+1 >= len(s) {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:start])
		s = s[start+1:]
		switch {
		case s[0] == '$':
			b.WriteByte('$')
			s = s[1:]
		case s[0] == '{' && strings.Contains(s, "}") && isVariableName(s[1:strings.IndexByte(s, '}')]):
			end := strings.IndexByte(s, '}')
			b.WriteString(env[s[1:end]])
			s = s[end+1:]
		default:
			b.WriteByte('$')
		}
	}
}

// Environment returns the variables of the unit's Environment= and EnvironmentFile=, over those of base. A missing file
// is an error unless its name begins with "-".
func (u *Unit) Environment(base map[string]string) (map[string]string, error) {
	env := map[string]string{}
	for k, v := range base {
		env[k] = v
	}
	for _, line := range u.All("Service", "Environment") {
		words, err := splitWords(line)
		if err != nil {
			return nil, fmt.Errorf("%s: Environment=%s: %w", u.Name, line, err)
		}
		for _, w := range words {
			if k, v, ok := strings.Cut(u.Expand(w.text), "="); ok {
				env[k] = v
			}
		}
	}
	for _, file := range u.All("Service", "EnvironmentFile") {
		file, optional := strings.CutPrefix(u.Expand(file), "-")
		if err := readEnvironment(file, env); err != nil && !(optional && os.IsNotExist(err)) {
			return nil, fmt.Errorf("Failed to load environment files: %w", err)
		}
	}
	for _, line := range u.All("Service", "UnsetEnvironment") {
		for _, name := range strings.Fields(line) {
			delete(env, name)
		}
	}
	return env, nil
}

// Assignments returns the words NAME=VALUE of a line such as DefaultEnvironment=.
func Assignments(line string) (map[string]string, error) {
	words, err := splitWords(line)
	if err != nil {
		return nil, err
	}
	env := map[string]string{}
	for _, w := range words {
		if k, v, ok := strings.Cut(strings.ReplaceAll(w.text, "%%", "%"), "="); ok {
			env[k] = v
		}
	}
	return env, nil
}

// readEnvironment reads lines NAME=VALUE, with comments, continuations and quotes.
func readEnvironment(file string, env map[string]string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	pending := ""
	for lines.Scan() {
		line := pending + lines.Text()
		pending = ""
		if rest, ok := strings.CutSuffix(line, `\`); ok {
			pending = rest
			continue
		}
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		if len(value) >= 2 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			if words, err := splitWords(value); err == nil && len(words) == 1 {
				value = words[0].text
			}
		}
		env[strings.TrimSpace(name)] = value
	}
	return lines.Err()
}

type word struct {
	text   string
	quoted bool
}

// splitWords cuts a line into words at blanks, with quotes and C escapes.
func splitWords(s string) ([]word, error) {
	var words []word
	var b strings.Builder
	var quote byte
	in, quoted := false, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s) && quote != '\'':
			text, n := decodeEscape(s[i+1:])
			b.WriteString(text)
			in, quoted = true, true
			i += n
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				b.WriteByte(c)
			}
		case c == '"' || c == '\'':
			quote, in, quoted = c, true, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if in {
				words = append(words, word{b.String(), quoted})
				b.Reset()
				in, quoted = false, false
			}
		default:
			b.WriteByte(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("unbalanced quotes")
	}
	if in {
		words = append(words, word{b.String(), quoted})
	}
	return words, nil
}

// decodeEscape returns the text of a C escape after its backslash, and its length.
func decodeEscape(s string) (text string, length int) {
	switch s[0] {
	case 'a':
		return "\a", 1
	case 'b':
		return "\b", 1
	case 'f':
		return "\f", 1
	case 'n':
		return "\n", 1
	case 'r':
		return "\r", 1
	case 't':
		return "\t", 1
	case 'v':
		return "\v", 1
	case 's':
		return " ", 1
	case '\\', '"', '\'', ';':
		return s[:1], 1
	case 'x':
		if len(s) >= 3 {
			if n, err := strconv.ParseUint(s[1:3], 16, 8); err == nil {
				return string([]byte{byte(n)}), 3
			}
		}
	}
	return `\` + s[:1], 1
}
