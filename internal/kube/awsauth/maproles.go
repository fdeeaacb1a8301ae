package awsauth

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/coracle-eks/coracle/internal/document"
	"github.com/coracle-eks/coracle/internal/kube/client"
)

// The text of mapRoles in aws-auth is its users': a role is put in and taken out with as little of it touched as can
// be.

// parseRoles parses the list in the text of mapRoles; it returns nil when there is none.
func parseRoles(text string) (*yaml.Node, error) {
	if err := CheckSize(text); err != nil {
		return nil, err
	}
	root, err := document.ParseYAML([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("mapRoles of the aws-auth ConfigMap is not valid YAML: %s",
			client.Cut(strings.TrimPrefix(err.Error(), "yaml: ")))
	}
	if len(root.Content) == 0 || root.Content[0].Tag == "!!null" {
		return nil, nil
	}
	list := root.Content[0]
	if list.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("mapRoles of the aws-auth ConfigMap is not a list: line %d", list.Line)
	}
	for _, item := range list.Content {
		if item.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("mapRoles of the aws-auth ConfigMap has an entry that is not a mapping: line %d",
				item.Line)
		}
	}
	if deep := findDeeper(list, maxDepth); deep != nil {
		return nil, fmt.Errorf("mapRoles of the aws-auth ConfigMap is nested more than %d levels deep: line %d", maxDepth,
			deep.Line)
	}
	return list, nil
}

// maxDepth is the maximum nesting depth of the list, which itself needs three levels: edits write it with indentation.
const maxDepth = 8

// findDeeper returns a node that is nested more than so many levels deep, or nil.
func findDeeper(n *yaml.Node, levels int) *yaml.Node {
	if levels < 0 {
		return n
	}
	for _, c := range n.Content {
		if deep := findDeeper(c, levels-1); deep != nil {
			return deep
		}
	}
	return nil
}

// mappedRole returns the role of an entry.
func mappedRole(item *yaml.Node) string {
	for i := 0; i+1 < len(item.Content); i += 2 {
		if strings.EqualFold(item.Content[i].Value, "rolearn") {
			return strings.TrimSpace(item.Content[i+1].Value)
		}
	}
	return ""
}

// Add returns the text with an entry for a role, which it adds unless there is one.
func (m Mapping) Add(text, role string) (string, error) {
	list, err := parseRoles(text)
	if err != nil {
		return "", err
	}
	if list != nil && slices.ContainsFunc(list.Content,
		func(item *yaml.Node) bool { return strings.EqualFold(mappedRole(item), role) }) {
		return text, nil
	}
	entry := fmt.Sprintf("- groups:\n  - %s\n  rolearn: %s\n  username: %s\n", strings.Join(m.Groups, "\n  - "), role,
		m.Username)
	switch {
	case slices.Contains([]string{"", "[]", "null", "~"}, strings.TrimSpace(text)):
		return entry, nil
	case list == nil:
		return withNewline(text) + entry, nil // comments, at most
	case list.Style&yaml.FlowStyle != 0:
		return m.addToFlow(text, list, role)
	}
	indent := strings.Repeat(" ", list.Column-1)
	var b strings.Builder
	b.WriteString(withNewline(text))
	for line := range strings.Lines(entry) {
		b.WriteString(indent + line)
	}
	result := b.String()
	if again, err := parseRoles(result); err != nil || again == nil || len(again.Content) != len(list.Content)+1 {
		return "",
			fmt.Errorf(
				"mapRoles of the aws-auth ConfigMap cannot be added to: an entry after its last line is not part of " +
					"the list")
	}
	return result, nil
}

// maxBrackets is the number of brackets that addToFlow tries. Each try parses the whole text, which is up to 1 MiB and
// written by users: of a large one there are two.
const maxBrackets, maxTried = 16, 64 << 10

// editCost returns the number of bytes that an edit of a text parses at most: it, it with an entry more, as often as
// addToFlow tries, and in front of that for [Mapping.Maps].
func editCost(text string) int { return 4*len(text) + maxTried }

// addToFlow adds to a list in brackets. Its last bracket is the list's own, as nothing but comments can follow it.
func (m Mapping) addToFlow(text string, list *yaml.Node, role string) (string, error) {
	entry := fmt.Sprintf(`{"groups": ["%s"], "rolearn": %q, "username": %q}`, strings.Join(m.Groups, `", "`), role,
		m.Username)
	if len(list.Content) > 0 {
		entry = ", " + entry
	}
	// A comment may have a bracket as well: the one is taken with which the list has one entry more.
	at := len(text)
	for tried := range maxBrackets {
		at = strings.LastIndexByte(text[:at], ']')
		if at < 0 || tried >= 2 && tried*len(text) > maxTried {
			break
		}
		result := strings.TrimRight(text[:at], " \t\n") + entry + text[at:]
		if again, err := parseRoles(result); err == nil && again != nil && len(again.Content) == len(list.Content)+1 &&
			strings.EqualFold(mappedRole(again.Content[len(list.Content)]), role) {
			return result, nil
		}
	}
	return "", errors.New("mapRoles of the aws-auth ConfigMap cannot be added to: remove the comments behind its list")
}

// isWritten reports whether an item of mapRoles is exactly what EKS writes for a role.
func (m Mapping) isWritten(item *yaml.Node) bool {
	if len(item.Content) != 6 {
		return false
	}
	fields := make(map[string]*yaml.Node, 3)
	for i := 0; i < len(item.Content); i += 2 {
		fields[item.Content[i].Value] = item.Content[i+1]
	}
	username, groups := fields["username"], fields["groups"]
	if fields["rolearn"] == nil || username == nil || username.Value != m.Username || groups == nil ||
		len(groups.Content) != len(m.Groups) {
		return false
	}
	return !slices.ContainsFunc(m.Groups, func(group string) bool {
		return !slices.ContainsFunc(groups.Content, func(n *yaml.Node) bool { return n.Value == group })
	})
}

// Remove returns the text without EKS's entry for a role. It leaves an entry that was changed: that belongs to whoever
// changed it.
func (m Mapping) Remove(text, role string) (string, error) {
	list, err := parseRoles(text)
	if err != nil || list == nil {
		return text, err
	}
	at := slices.IndexFunc(list.Content, func(item *yaml.Node) bool {
		return strings.EqualFold(mappedRole(item),
			role)
	})
	if at < 0 {
		return text, nil
	}
	if !m.isWritten(list.Content[at]) {
		return text, nil
	}
	if list.Style&yaml.FlowStyle != 0 {
		list.Content = slices.Delete(list.Content, at, at+1)
		out, err := yaml.Marshal(list)
		return string(out), err
	}
	lines := slices.Collect(strings.Lines(text))
	from, to := list.Content[at].Line-1, lastLine(list.Content[at])
	rest := strings.Join(slices.Delete(lines, from, min(to, len(lines))), "")
	if strings.TrimSpace(rest) == "" {
		rest = "[]\n"
	}
	return rest, nil
}

// lastLine returns the last line of a node, from 1; its scalars must be in one line each.
func lastLine(n *yaml.Node) int {
	last := n.Line
	for _, c := range n.Content {
		last = max(last, lastLine(c))
	}
	return last
}

func withNewline(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// Maps reports whether the text has EKS's own entry for a role, as it writes it.
func (m Mapping) Maps(text, role string) bool {
	list, err := parseRoles(text)
	return err == nil && list != nil && slices.ContainsFunc(list.Content, func(item *yaml.Node) bool {
		return strings.EqualFold(mappedRole(item), role) && m.isWritten(item)
	})
}
