package awsauth

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"
)

// FuzzMapRoles shows that a node role is put into the mapRoles of others and taken out of it without a change to their
// entries.
func FuzzMapRoles(f *testing.F) {
	for _, text := range []string{
		"", "[]\n", "# none\n", entry, "null\n",
		"- rolearn: a   # the boss\n  groups: [system:masters]\n\n# b\n- groups:\n    - x\n  rolearn: b\n",
		`[{"rolearn": "a", "username": "a"}] # ok]`,
		"  - rolearn: a\n", "- &a {rolearn: a}\n- <<: *a\n  rolearn: b\n", "- {rolearn: " + ours +
			", username: mine}\n", entry + "- rolearn: a\n", "- rolearn: |\n    a\n  username: >-\n    b\n",
		"---\n- rolearn: a\n...\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		had, err := has(text, ours)
		if err != nil {
			return
		}
		added, err := Nodes.Add(text, ours)
		if err != nil {
			return
		}
		if is, err := has(added, ours); err != nil || !is {
			t.Fatalf("the role is not in\n%q\nmade of\n%q: %v", added, text, err)
		}
		if diff := cmp.Diff(others(text), others(added), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%q has become\n%q\n%s", text, added, diff)
		}
		removed, err := Nodes.Remove(added, ours)
		if err != nil {
			t.Fatalf("%q cannot be read any more: %v", added, err)
		}
		if is, err := has(removed, ours); err != nil || is && !had {
			t.Fatalf("the role is still in\n%q: %v", removed, err)
		}
		if diff := cmp.Diff(others(text), others(removed), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%q has become\n%q\n%s", text, removed, diff)
		}
	})
}

// others returns the entries of a mapRoles text that EKS did not write, decoded; nil when a value of the text cannot be
// decoded.
func others(text string) []map[string]any {
	var all []map[string]any
	if yaml.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(entry map[string]any) bool {
		for key, value := range entry {
			if role, ok := value.(string); ok && strings.EqualFold(key, "rolearn") &&
				strings.EqualFold(strings.TrimSpace(role), ours) {
				return true
			}
		}
		return false
	})
}
