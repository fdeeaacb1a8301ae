// Package document bounds what a YAML or TOML document, or a JSON text with quantities of Kubernetes, costs the program
// that decodes it.
//
// Both formats have small documents that are enormous once they are decoded. A YAML alias repeats what its anchor has,
// so that a kilobyte can stand for gigabytes. TOML may be nested as deeply as it is long, and its decoder recurses: a
// stack that overflows ends the whole process, which no recover can prevent. Callers check a document that a user, a
// machine or a pod wrote before they decode it.
//
// JSON by itself needs no such check: encoding/json stops at a depth of 10,000. Types of Kubernetes that are decoded
// from it do: see [Quantities].
package document

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of documents. Nothing that EKS, nodeadm, cloud-init or Bottlerocket read comes near them.
const (
	maxExpanded = 4 << 20 // bytes of a YAML document in which every alias is replaced by what it stands for
	maxDepth    = 100     // of tables, arrays and dotted keys in TOML
	nodeSize    = 8       // what a YAML value counts beside its text, in bytes
	maxMessage  = 512     // bytes of an error of the decoder, which quotes names of the document in full
)

// CheckYAML reports an error for a document whose aliases make it larger than 4 MiB, or that contains itself. Documents
// without aliases are not parsed: what is wrong with them is for the decoder to say. It also reports an error for a
// document with a %TAG directive, whose prefix decoders copy into each value with a tag.
func CheckYAML(text []byte) error { return CheckYAMLWithin(text, maxExpanded) }

// CheckYAMLWithin is like [CheckYAML], with another limit than 4 MiB, in bytes.
func CheckYAMLWithin(text []byte, limit int) error {
	if err := checkDirectives(text); err != nil {
		return err
	}
	if !bytes.ContainsRune(text, '&') || !bytes.ContainsRune(text, '*') {
		return nil
	}
	root, err := ParseYAML(text)
	if err != nil {
		return err
	}
	_, err = (&expansion{limit: limit, sizes: map[*yaml.Node]int{}}).expandedSize(root)
	return err
}

// ParseYAML parses the first document of a text, which is a Node without content when there is none. What it costs is
// in proportion to the text, which has no %TAG directive; the fields of interest are read from the nodes. To decode the
// nodes of yaml/v3 into a Go value is not: each pair of equal keys becomes an error, so that 200 KB make gigabytes.
func ParseYAML(text []byte) (*yaml.Node, error) {
	if err := checkDirectives(text); err != nil {
		return nil, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, errors.New(cut(err.Error()))
	}
	return &root, nil
}

// cut returns a text, or its beginning: errors end in records, health issues and logs.
func cut(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + " ..."
}

// tagDirective matches a %TAG directive at the beginning of a line, of which YAML knows five kinds.
// https://yaml.org/spec/1.1/#id898785
var tagDirective = regexp.MustCompile(`(^(\x{FEFF})?|[\n\r\x{85}\x{2028}\x{2029}])%TAG`)

// checkDirectives refuses directives that make a small text large, and texts of UTF-16, in which they are not seen.
func checkDirectives(text []byte) error {
	if bytes.HasPrefix(text, []byte("\xfe\xff")) || bytes.HasPrefix(text, []byte("\xff\xfe")) {
		return errors.New("a YAML document in UTF-16 is not supported: write UTF-8")
	}
	if bytes.Contains(text, []byte("%TAG")) && tagDirective.Match(text) {
		return errors.New("a %TAG directive is not supported: write tags in full")
	}
	return nil
}

// expansion measures the nodes of a document.
type expansion struct {
	limit int                // of the document
	sizes map[*yaml.Node]int // of those that have an anchor; unfinished while they are measured
}

const unfinished = -1

// expandedSize returns how large a node is once its aliases are replaced.
func (e *expansion) expandedSize(n *yaml.Node) (int, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Anchor != "" {
		switch known, ok := e.sizes[n]; {
		case ok && known == unfinished:
			return 0, fmt.Errorf("line %d: the anchor %q contains itself", n.Line, cut(n.Anchor))
		case ok:
			return known, nil
		}
		e.sizes[n] = unfinished
	}
	total := nodeSize + len(n.Value)
	for _, child := range n.Content {
		size, err := e.expandedSize(child)
		if err != nil {
			return 0, err
		}
		if total += size; total > e.limit {
			return 0,
				fmt.Errorf(
					"line %d: the document is larger than %s once its aliases are replaced: write fewer of them",
					n.Line, inUnits(e.limit))
		}
	}
	if n.Anchor != "" {
		e.sizes[n] = total
	}
	return total, nil
}

// inUnits returns a number of bytes as people write it.
func inUnits(bytes int) string {
	if bytes >= 1<<20 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d KiB", bytes>>10)
}

// errTooDeep reports that a TOML document is refused.
var errTooDeep = errors.New("tables, arrays and dotted keys are nested too deeply")

// CheckTOML reports an error for a document in which arrays, tables or the parts of a key are nested more than a
// hundred deep. It reads brackets, dots, strings and comments and nothing else: what is wrong with a document is for
// the decoder to say.
func CheckTOML(text []byte) error { return checkTOML(text, maxDepth) }

func checkTOML(text []byte, limit int) error {
	depth, dots, line := 0, 0, 1
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case '"', '\'':
			end := i + stringLength(text[i:])
			line += bytes.Count(text[i:end], []byte{'\n'})
			i = end
			continue
		case '#':
			if end := bytes.IndexByte(text[i:], '\n'); end >= 0 {
				i += end
			} else {
				i = len(text)
			}
			continue
		case '[', '{':
			depth, dots = depth+1, 0
		case ']', '}':
			depth, dots = max(depth-1, 0), 0
		case '.':
			dots++
		case '\n':
			dots = 0
			line++
		case '=', ',':
			dots = 0
		}
		if depth+dots > limit {
			return fmt.Errorf("line %d: %w: at most %d levels are read", line, errTooDeep, limit)
		}
		i++
	}
	return nil
}

// stringLength returns the length of the string that text begins with, quotes included. One that does not end reaches
// to the end of its line, or of the text if it may have several lines.
func stringLength(text []byte) int {
	quote := text[0]
	escapes := quote == '"'
	if len(text) < 3 || text[1] != quote || text[2] != quote {
		for i := 1; i < len(text); i++ {
			switch {
			case text[i] == quote:
				return i + 1
			case text[i] == '\n':
				return i
			case text[i] == '\\' && escapes && i+1 < len(text) && text[i+1] != '\n':
				i++
			}
		}
		return len(text)
	}
	for i := 3; i < len(text); i++ {
		switch {
		case text[i] == '\\' && escapes:
			i++
		case bytes.HasPrefix(text[i:], []byte{quote, quote, quote}):
			// Up to two more quotes belong to the string.
			end := i + 3
			for end < min(i+5, len(text)) && text[end] == quote {
				end++
			}
			return end
		}
	}
	return len(text)
}
