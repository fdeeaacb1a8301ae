package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/coracle-eks/coracle/internal/document"
)

// Parse reads a template in JSON or YAML. Its errors are *Error.
func Parse(body string) (*Template, error) {
	if len(body) > MaxBody {
		return nil, errorf("Template may not exceed %d bytes in size.", MaxBody)
	}
	value, err := parseDocument(body)
	if err != nil {
		return nil, err
	}
	root, ok := value.(map[string]any)
	if !ok {
		return nil, errorf("Template format error: unsupported structure.")
	}
	t := &Template{body: body, root: root}
	if err := t.readSections(); err != nil {
		return nil, err
	}
	if err := t.checkTemplate(); err != nil {
		return nil, err
	}
	return t, nil
}

// parseDocument returns the value of a JSON or YAML text. As in CloudFormation, a text that begins with a brace is
// JSON.
func parseDocument(body string) (any, error) {
	isJSON := strings.HasPrefix(strings.TrimLeft(body, " \t\r\n\ufeff"), "{")
	format := "YAML"
	if isJSON {
		format = "JSON"
	}
	if i := invalidUTF8(body); i >= 0 {
		return nil, notWellFormed(format, body, i)
	}
	if strings.TrimSpace(body) == "" {
		return nil, errorf("Template format error: unsupported structure.")
	}
	if isJSON {
		return parseJSON(strings.TrimPrefix(body, "\ufeff"))
	}
	return parseYAML(body)
}

// invalidUTF8 returns the offset of the first byte that is not part of a UTF-8 sequence, or -1.
func invalidUTF8(body string) int {
	if utf8.ValidString(body) {
		return -1
	}
	for i, r := range body {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(body[i:]); size == 1 {
				return i
			}
		}
	}
	return -1
}

// notWellFormed returns the error of a text that is neither JSON nor YAML, with the place of a byte in it.
func notWellFormed(format, body string, offset int) error {
	before := body[:min(max(offset, 0), len(body))]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return errorf("Template format error: %s not well-formed. (line %d, column %d)", format, line, column)
}

// yamlLine finds the line in the errors of the YAML library, which tells no columns.
var yamlLine = regexp.MustCompile(`line (\d+)`)

func parseYAML(body string) (any, error) {
	if bytes.IndexByte([]byte(body), 0) >= 0 {
		return nil, notWellFormed("YAML", body, strings.IndexByte(body, 0))
	}
	root, err := document.ParseYAML([]byte(body))
	if err != nil {
		if found := yamlLine.FindStringSubmatch(err.Error()); found != nil {
			return nil, errorf("Template format error: YAML not well-formed. (line %s, column 1)", found[1])
		}
		return nil, errorf("Template format error: YAML not well-formed.")
	}
	if len(root.Content) == 0 {
		return nil, errorf("Template format error: unsupported structure.")
	}
	return readNode(root.Content[0], nil)
}

// path is a place in a template, innermost last.
type path []string

func (p path) String() string { return "/" + strings.Join(p, "/") }

// readNode returns the value of a YAML node.
func readNode(n *yaml.Node, at path) (any, error) {
	if len(at) > maxDepth {
		return nil, errTooDeep
	}
	if n.Kind == yaml.AliasNode {
		return nil, errorf("Template error: YAML aliases are not allowed in CloudFormation templates")
	}
	if strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") && n.Tag != "!" {
		return readShortForm(n, at)
	}
	return readUntagged(n, at)
}

func readUntagged(n *yaml.Node, at path) (any, error) {
	switch n.Kind {
	case yaml.MappingNode:
		object := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, err := readKey(n.Content[i], at)
			if err != nil {
				return nil, err
			}
			if object[key], err = readNode(n.Content[i+1], append(at[:len(at):len(at)], key)); err != nil {
				return nil, err
			}
		}
		return object, nil
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for i, item := range n.Content {
			value, err := readNode(item, append(at[:len(at):len(at)], strconv.Itoa(i)))
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	}
	return readScalar(n), nil
}

// readKey returns the key of a mapping.
func readKey(n *yaml.Node, at path) (string, error) {
	received := ""
	switch {
	case n.Kind == yaml.AliasNode:
		return "", errorf("Template error: YAML aliases are not allowed in CloudFormation templates")
	case n.Kind == yaml.MappingNode, strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") && n.Tag != "!":
		received = "a map"
	case n.Kind == yaml.SequenceNode:
		received = "a list"
	case n.ShortTag() == "!!null":
		received = "null"
	default:
		switch readScalar(n).(type) {
		case json.Number:
			received = fmt.Sprintf("numeric [%s]", n.Value)
		default:
			return n.Value, nil
		}
	}
	return "", errorf("Template format error: [%s] map keys must be strings; received %s instead", at, received)
}

// shortForms are the tags of functions, with their names in objects.
var shortForms = func() map[string]string {
	names := map[string]string{"!Ref": "Ref", "!Condition": "Condition", "!Transform": "Fn::Transform"}
	for _, list := range [][]string{valueFunctions, conditionFunctions, ruleFunctions, extensionFunctions} {
		for _, name := range list {
			if short, ok := strings.CutPrefix(name, "Fn::"); ok {
				names["!"+short] = name
			}
		}
	}
	return names
}()

// readShortForm returns the object that a tag such as !Sub stands for.
func readShortForm(n *yaml.Node, at path) (any, error) {
	name, ok := shortForms[n.Tag]
	if !ok {
		return nil, errorf("Template format error: YAML not well-formed. (line %d, column %d)", n.Line, n.Column)
	}
	bare := *n
	bare.Tag, bare.Style = "", yaml.DoubleQuotedStyle // !Ref 123 names "123"
	value, err := readUntagged(&bare, append(at[:len(at):len(at)], name))
	if err != nil {
		return nil, err
	}
	if text, ok := value.(string); ok && name == "Fn::GetAtt" {
		value = splitAttribute(text)
	}
	return map[string]any{name: value}, nil
}

// splitAttribute returns the two arguments of Fn::GetAtt that are written with a dot. Attributes may have dots, and
// logical IDs may not.
func splitAttribute(text string) []any {
	resource, attribute, _ := strings.Cut(text, ".")
	return []any{resource, attribute}
}

var (
	jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	digits     = regexp.MustCompile(`^[-+]?[0-9][0-9_]*$`)
	yaml11Bool = []string{"true", "false", "yes", "no", "on", "off"}
)

// readScalar returns the value of a scalar by the rules of YAML 1.1, which CloudFormation has, but for timestamps,
// which stay text. Numbers keep their text: 1.10 is not 1.1.
func readScalar(n *yaml.Node) any {
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return n.Value
	}
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!int":
		return readNumber(n.Value)
	case "!!float":
		if jsonNumber.MatchString(n.Value) {
			return json.Number(n.Value)
		}
		return n.Value
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	}
	// The library knows the other words of YAML 1.1 as strings.
	if n.Tag == "!!str" || n.Tag == "" {
		if word := strings.ToLower(n.Value); slices.Contains(yaml11Bool, word) && n.Style == 0 &&
			(n.Value == word || n.Value == strings.ToUpper(word) || n.Value == strings.ToUpper(word[:1])+word[1:]) {
			return word == "true" || word == "yes" || word == "on"
		}
	}
	return n.Value
}

// readNumber returns an integer of YAML. One with leading zeros is text: account IDs are written like that.
func readNumber(text string) any {
	if jsonNumber.MatchString(text) {
		return json.Number(text)
	}
	if plain := strings.ReplaceAll(strings.TrimPrefix(text, "+"), "_", ""); digits.MatchString(text) {
		if jsonNumber.MatchString(plain) {
			return json.Number(plain)
		}
		return text
	}
	if len(text) > maxNumber {
		return text
	}
	if number, ok := new(big.Int).SetString(strings.TrimPrefix(text, "+"), 0); ok {
		return json.Number(number.String())
	}
	return text
}
