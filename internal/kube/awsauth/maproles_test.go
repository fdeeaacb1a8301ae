package awsauth

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const ours = "arn:aws:iam::111122223333:role/eks-node"

const entry = `- groups:
  - system:bootstrappers
  - system:nodes
  rolearn: arn:aws:iam::111122223333:role/eks-node
  username: system:node:{{EC2PrivateDNSName}}
`

// has reports whether a text maps a role.
func has(text, role string) (bool, error) { return ParseRoles(text).Has(role) }

func indented(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(by + line)
	}
	return b.String()
}

// TestARoleIsPutInAndTakenOutAgain shows that what others wrote is as it was afterwards, to the letter.
func TestARoleIsPutInAndTakenOutAgain(t *testing.T) {
	t.Parallel()
	const others = `# who may do what
- rolearn: arn:aws:iam::111122223333:role/admin   # the boss
  username: admin
  groups: [system:masters]
  note: "unknown to EKS"

# builders
- groups:
    - builders
  username: 'build:{{SessionName}}'
  rolearn: arn:aws:iam::111122223333:role/build
`
	for name, c := range map[string]struct{ before, added, removed string }{
		"nothing":        {"", entry, "[]\n"},
		"an empty list":  {"[]\n", entry, "[]\n"},
		"only a comment": {"# none yet\n", "# none yet\n" + entry, "# none yet\n"},
		"others":         {others, others + entry, others},
		"indented": {indented(others, "  "), indented(others, "  ") + indented(entry, "  "),
			indented(others, "  ")},
		"no newline at the end": {strings.TrimSuffix(others, "\n"), others + entry, others},
		"a comment at the end":  {others + "# the end\n", others + "# the end\n" + entry, others + "# the end\n"},
		"null":                  {"null\n", entry, "[]\n"},
		"a list in brackets": {`[{"rolearn": "arn:aws:iam::1:role/a", "username": "a"}] # ok]`,
			`[{"rolearn": "arn:aws:iam::1:role/a", "username": "a"}, {"groups": ["system:bootstrappers", "system:nodes"], "rolearn": "arn:aws:iam::111122223333:role/eks-node", "username": "system:node:{{EC2PrivateDNSName}}"}] # ok]`, ""},
		"mapped by somebody": {"- {rolearn: " + ours + ", username: mine}\n", "- {rolearn: " + ours +
			", username: mine}\n", "- {rolearn: " + ours + ", username: mine}\n"},
		"with a group more": {strings.Replace(entry, "- system:nodes\n", "- system:nodes\n  - extra\n", 1),
			strings.Replace(entry, "- system:nodes\n", "- system:nodes\n  - extra\n", 1),
			strings.Replace(entry, "- system:nodes\n", "- system:nodes\n  - extra\n", 1)},
		"with a group of its own": {strings.Replace(entry, "system:nodes\n", "extra\n", 1),
			strings.Replace(entry, "system:nodes\n", "extra\n", 1),
			strings.Replace(entry, "system:nodes\n", "extra\n", 1)},
		"in capitals": {strings.Replace(entry, "rolearn", "roleARN", 1), strings.Replace(entry, "rolearn",
			"roleARN", 1), ""},
		"between others": {others + entry + "# after\n" + others, others + entry + "# after\n" + others,
			others + "# after\n" + others},
	} {
		added, err := Nodes.Add(c.before, ours)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(c.added, added); d != "" {
			t.Errorf("%s, added (-want +got):\n%s", name, d)
		}
		if is, err := has(added, ours); err != nil || !is {
			t.Errorf("%s: the role is not in\n%s", name, added)
		}
		again, err := Nodes.Add(added, ours)
		if err != nil || again != added {
			t.Errorf("%s: added twice, it is\n%s: %v", name, again, err)
		}
		removed, err := Nodes.Remove(added, ours)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(c.removed, removed); c.removed != "" && d != "" {
			t.Errorf("%s, removed (-want +got):\n%s", name, d)
		}
	}
}

func TestMalformedRolesAreLeftAlone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"- rolearn: [":           "mapRoles of the aws-auth ConfigMap is not valid YAML: line 1",
		"rolearn: " + ours:       "mapRoles of the aws-auth ConfigMap is not a list: line 1",
		"- " + ours + "\n":       "mapRoles of the aws-auth ConfigMap has an entry that is not a mapping: line 1",
		"\t- rolearn: x":         "mapRoles of the aws-auth ConfigMap is not valid YAML",
		"- rolearn: a\n  - b: c": "mapRoles of the aws-auth ConfigMap is not valid YAML",
	} {
		if got, err := Nodes.Add(text, ours); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
		if got, err := Nodes.Remove(text, ours); err == nil || got != text && got != "" {
			t.Errorf("%q is taken from: %q, %v", text, got, err)
		}
	}
}

// TestBracketsBehindTheListAreTriedAFewTimes parses a list in brackets with brackets in the comment behind it.
func TestBracketsBehindTheListAreTriedAFewTimes(t *testing.T) {
	t.Parallel()
	for count, possible := range map[int]bool{1: true, maxBrackets - 1: true, maxBrackets: false, 4000: false} {
		text := "[] #" + strings.Repeat("]", count)
		got, err := Nodes.Add(text, ours)
		if possible != (err == nil) || possible && !strings.Contains(got, ours) {
			t.Errorf("%d brackets: %q, %v", count, got[:min(len(got), 200)], err)
		}
		if !possible && !strings.Contains(err.Error(), "remove the comments behind its list") {
			t.Errorf("%d brackets: %v", count, err)
		}
	}
}

// TestRolesOfEqualKeysAreReadInProportion has a mapping of the node role with the same key again and again.
// A list that is written anew grows by the depth of what is in it.
func TestDeepRolesAreLeftAlone(t *testing.T) {
	text := "[{rolearn: \"" + ours + "\", username: \"" + Nodes.Username + "\", groups: [" +
		strings.Join(Nodes.Groups, ", ") + "]}, {a: " + strings.Repeat("[", 3000) + strings.Repeat("#c\n0,", 3000) +
		strings.Repeat("]", 3000) + "}]"
	for what, edit := range map[string]func(text, role string) (string, error){"add": Nodes.Add, "remove": Nodes.Remove} {
		result, err := edit(text, ours)
		if err == nil || !strings.Contains(err.Error(), "nested more than 8 levels deep") || len(result) > len(text) {
			t.Errorf("%s: %d bytes, %v", what, len(result), err)
		}
	}
}

func TestRolesOfEqualKeysAreReadInProportion(t *testing.T) {
	const keys = 2000
	text := "[{rolearn: \"" + ours + "\"" + strings.Repeat(",a", keys) + "}]"
	allocations := testing.AllocsPerRun(1, func() {
		if removed, err := Nodes.Remove(text, ours); err != nil || removed != text {
			t.Errorf("somebody's mapping is touched: %.100q, %v", removed, err)
		}
	})
	if allocations > 50*keys { // each pair of them is 2,000,000
		t.Errorf("%.0f allocations for %d keys", allocations, keys)
	}
}
