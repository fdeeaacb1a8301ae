package facts

import (
	"errors"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"CLUSTER": "plain", "HOST": "a.b"}
	const object = `{"cluster": {"name": "plain", "tags": {}, "zones": ["b", "a"], "host": "a.b", "replicas": 3,
		"labels": {"k8s.io/x": "y"}, "private": false}}`
	const list = `{"items": [{"metadata": {"name": "one"}, "spec": {"port": 80}}, {"metadata": {"name": "two"}}]}`
	for _, c := range []struct {
		name, fact, out, want string // want is empty if the fact holds
	}{
		{"a value", `{path: cluster.name, is: $CLUSTER}`, object, ""},
		{"another value", `{path: cluster.name, is: other}`, object, `got "plain", want "other"`},
		{"a number", `{path: cluster.replicas, is: 3}`, object, ""},
		{"false", `{path: cluster.private, is: false}`, object, ""},
		{"an empty object", `{path: cluster.tags, is: {}}`, object, ""},
		{"no empty object", `{path: cluster.labels, is: {}}`, object, "want {}"},
		{"a list in its order", `{path: cluster.zones, is: [b, a]}`, object, ""},
		{"a list in another order", `{path: cluster.zones, is: [a, b]}`, object, "got"},
		{"a name with a dot", `{path: 'cluster.labels.k8s\.io/x', is: y}`, object, ""},
		{"nothing at a path", `{path: cluster.health, is: {}}`, object, "got nothing"},
		{"absent", `{path: cluster.health, absent: true}`, object, ""},
		{"not absent", `{path: cluster.tags, absent: true}`, object, "got {}, want nothing"},
		{"absent in a list", `{path: 'items[?(@.metadata.name=="three")]', absent: true}`, list, ""},
		{"a member of a list", `{path: 'items[?(@.metadata.name=="one")].spec.port', is: 80}`, list, ""},
		{"matches", `{path: cluster.host, matches: ^$HOST$}`, object, ""},
		{"quoted variables", `{path: cluster.host, matches: ^$HOST$}`, `{"cluster": {"host": "a-b"}}`, "not match"},
		{"each matches", `{path: 'items[*].metadata.name', matches: ^(one|two)$}`, list, ""},
		{"one does not match", `{path: 'items[*].metadata.name', matches: ^one$}`, list, `got "two"`},
		{"a number matches", `{path: cluster.replicas, matches: ^\d$}`, object, ""},
		{"has members", `{path: cluster, has: {name: $CLUSTER, tags: {}}}`, object, ""},
		{"lacks a member", `{path: cluster, has: {name: $CLUSTER, arn: x}}`, object, "lacks"},
		{"has elements", `{path: items, has: [{spec: {port: 80}}]}`, list, ""},
		{"lacks an element", `{path: items, has: [{spec: {port: 81}}]}`, list, "lacks"},
		{"has a string", `{path: cluster.zones, has: a}`, object, ""},
		{"has text", `{path: cluster.name, has: lai}`, object, ""},
		{"lacks text", `{path: cluster.name, has: x}`, object, "lacks"},
		{"names", `{path: items, names: [two]}`, list, ""},
		{"a missing name", `{path: items, names: [two, three]}`, list, `missing ["three"]`},
		{"only", `{path: items, only: [two, one]}`, list, ""},
		{"too many names", `{path: items, only: [two]}`, list, `too many ["one"]`},
		{"no names", `{path: items, only: []}`, `{"items": []}`, ""},
		{"names of nothing", `{path: items, only: []}`, `{}`, ""},
		{"names of strings", `{path: cluster.zones, only: [a, b]}`, object, ""},
		{"at least", `{path: items, min: 2}`, list, ""},
		{"too few", `{path: items, min: 3}`, list, "got 2, want at least 3"},
		{"at least a number", `{path: cluster.replicas, min: 4}`, object, "got 3"},
		{"none", `{path: nothing, min: 1}`, object, "got 0"},
		{"text", `{has: Hello}`, "Hello, world\n", ""},
		{"text has no path", `{path: a, is: b}`, "Hello", "not JSON"},
		{"no error", `{fails: ResourceNotFoundException}`, object, "succeeded"},
	} {
		facts, err := Parse([]byte("- " + c.fact))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		check(t, c.name, facts[0].Check(Answer{Out: c.out}, variables), c.want)
	}
}

func TestCheckOfErrors(t *testing.T) {
	t.Parallel()
	const (
		old = "\nAn error occurred (ResourceNotFoundException) when calling the DescribeCluster operation: " +
			"No cluster found for name: plain.\n"
		detailed = old + "\nAdditional error details:\nclusterName: plain\n"
		retried  = "An error occurred (Throttling) when calling the X operation (reached max retries: 1): Slow down\n"
		empty    = "An error occurred (ParameterNotFound) when calling the GetParameter operation: \n"
		server   = "Error from server (NotFound): configmaps \"aws-auth\" not found\n"
	)
	for _, c := range []struct{ name, fact, errs, want string }{
		{"code", `{fails: ResourceNotFoundException}`, old, ""},
		{"another code", `{fails: ResourceInUseException}`, old, `failed with "ResourceNotFoundException"`},
		{"message", `{fails: ResourceNotFoundException, message: "No cluster found for name: $CLUSTER."}`, old, ""},
		{"of version 2", `{fails: ResourceNotFoundException, message: "No cluster found for name: $CLUSTER."}`,
			detailed, ""},
		{"part of the message", `{fails: ResourceNotFoundException, message: "No cluster found"}`, old, "the message is"},
		{"expression", `{fails: ResourceNotFoundException, message: "^No .* name: $CLUSTER\\.$"}`, old, ""},
		{"another expression", `{fails: ResourceNotFoundException, message: "^Nothing"}`, old, "not match"},
		{"after attempts", `{fails: Throttling, message: Slow down}`, retried, ""},
		{"an empty message", `{fails: ParameterNotFound, message: ^$}`, empty, ""},
		{"of the API server", `{fails: NotFound, message: configmaps "aws-auth" not found}`, server, ""},
		{"no error of AWS", `{fails: X}`, "aws: command not found", `failed with "" "aws: command not found"`},
		{"an error where an answer is expected", `{path: a, is: b}`, old, "failed: exit"},
	} {
		facts, err := Parse([]byte("- " + c.fact))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		check(t, c.name, facts[0].Check(Answer{Errs: c.errs, Err: errors.New("exit status 254")},
			map[string]string{"CLUSTER": "plain"}), c.want)
	}
}

func check(t *testing.T, name string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: got %v, want %q", name, err, want)
	}
}
