package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	const (
		unsupported = "ConfigurationValue provided in request is not supported: "
		invalid     = unsupported + "Json schema validation failed with error: "
		unknown     = "is not defined in the schema and the schema does not allow additional properties"
	)
	c := open(t)
	for name, test := range map[string]struct{ addon, configuration, want string }{
		"none":             {"coredns", "", ""},
		"blank":            {"coredns", " \n", ""},
		"JSON":             {"coredns", `{"replicaCount":3,"resources":{"limits":{"memory":"200Mi"}}}`, ""},
		"YAML":             {"coredns", "replicaCount: 3\nresources:\n  limits:\n    memory: 200Mi\n", ""},
		"empty object":     {"coredns", "{}", ""},
		"unknown property": {"coredns", `{"foo":1}`, invalid + "[$.foo: " + unknown + "]"},
		"several": {"coredns", `{"foo":1,"bar":2,"replicaCount":"3"}`, invalid + "[$.bar: " + unknown +
			", $.foo: " + unknown + ", $.replicaCount: string found, integer expected]"},
		"unknown inside": {"vpc-cni", `{"env":{"NOT_ONE":"x"}}`, invalid + "[$.env.NOT_ONE: " + unknown + "]"},
		"wrong type": {"coredns", `{"replicaCount":"3"}`,
			invalid + "[$.replicaCount: string found, integer expected]"},
		"replicas": {"coredns", `{"autoScaling":{"enabled":true,"minReplicas":1001}}`,
			invalid + "[$.autoScaling.minReplicas: must have a maximum value of 1000]"},
		"fraction": {"coredns", `{"replicaCount":1.5}`,
			invalid + "[$.replicaCount: number found, integer expected]"},
		"boolean for a string": {"vpc-cni", "env:\n  ENABLE_PREFIX_DELEGATION: true\n",
			invalid + "[$.env.ENABLE_PREFIX_DELEGATION: boolean found, string expected]"},
		"null":   {"coredns", "null", invalid + "[$: null found, object expected]"},
		"a list": {"coredns", "[]", invalid + "[$: array found, object expected]"},
		"a word": {"coredns", "hello", invalid + "[$: string found, object expected]"},
		"inside a list": {"coredns", `{"tolerations":[{},"x"]}`,
			invalid + "[$.tolerations[1]: string found, object expected]"},
		"several types": {"coredns", `{"affinity":3}`,
			invalid + "[$.affinity: integer found, [null, object] expected]"},
		"not in an enumeration": {"kube-proxy", `{"mode":"userspace"}`,
			invalid + "[$.mode: does not have a value in the enumeration [iptables, ipvs, nftables]]"},
		"required": {"vpc-cni", `{"eniConfig":{"create":true,"region":"eu-west-1"}}`,
			invalid + "[$.eniConfig.subnets: is missing but it is required]"},
		"too small": {"vpc-cni", `{"livenessProbeTimeoutSeconds":0}`,
			invalid + "[$.livenessProbeTimeoutSeconds: must have a minimum value of 1]"},
		"too large": {"aws-ebs-csi-driver", `{"node":{"logLevel":11}}`,
			invalid + "[$.node.logLevel: must have a maximum value of 10]"},
		"no match": {"aws-ebs-csi-driver", `{"node":{"kubeletPath":"var"}}`,
			invalid + "[$.node.kubeletPath: does not match the regex pattern ^/]"},
		"alternatives": {"coredns", `{"podDisruptionBudget":{"maxUnavailable":true}}`,
			"$.podDisruptionBudget.maxUnavailable: should be valid to any of the schemas"},
		"too few properties": {"vpc-cni", `{"eniConfig":{"create":true,"region":"r","subnets":{}}}`,
			invalid + "[$.eniConfig.subnets: must have a minimum of 1 properties]"},
		"twice in JSON": {"coredns", `{"replicaCount":3,"replicaCount":4}`,
			`key "replicaCount" already set in map`},
		"twice in YAML": {"coredns", "replicaCount: 3\nreplicaCount: 4\n",
			`line 2: key "replicaCount" already set in map`},
		"broken JSON": {"coredns", `{"replicaCount":3`, unsupported +
			"it is not a valid JSON or YAML document: "},
		"broken YAML": {"coredns", "a: b: c", "mapping values are not allowed"},
		"too many aliases": {"coredns", "a: &a " + strings.Repeat("x", 10_000) + "\nb: [" + strings.Repeat("*a,",
			100) + "]\n", unsupported +
			"it is not a valid JSON or YAML document: line 2: the document is larger than 256 KiB"},
		"larger than it may be": {"coredns", "corefile: " + strings.Repeat("x", maxConfiguration), "it is larger than 64 KiB"},
		"two documents":         {"coredns", "replicaCount: 3\n---\nreplicaCount: 4\n", "one document"},
	} {
		a, found := c.Addon(test.addon)
		if !found {
			t.Fatal(test.addon)
		}
		err := a.Versions[0].Check(t.Context(), test.configuration)
		var fault *ConfigurationError
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && !errors.As(err, &fault):
			t.Errorf("%s: no error but %v, want %s", name, err, test.want)
		case test.want != "" && err.Error() != test.want && (strings.HasPrefix(test.want, invalid) ||
			!strings.Contains(err.Error(), test.want)):
			t.Errorf("%s:\n got %s\nwant %s", name, err, test.want)
		}
	}
	a, _ := c.Addon("coredns")
	required := a.Versions[0]
	required.RequiresConfiguration = true
	if err := required.Check(t.Context(), " "); err == nil || !strings.Contains(err.Error(), "required") {
		t.Errorf("a configuration that is required: %v", err)
	}
}

// What nobody writes in good faith is refused in time, and without a panic.
func TestCheckOfNonsense(t *testing.T) {
	t.Parallel()
	a, _ := open(t).Addon("coredns")
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 12 {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i, i, i, i,
			i, i)
	}
	for name, configuration := range map[string]string{
		"aliases of aliases": bomb,
		"a deep list":        strings.Repeat("[", 20000),
		"a deep object":      strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000),
		"a huge number":      `{"replicaCount": 1e400}`,
		"a huge exponent":    `{"replicaCount": 1e1000000000}`,
		"infinity":           "replicaCount: .inf",
		"not a number":       "replicaCount: .nan",
		"a date":             "replicaCount: 2001-01-01",
		"not text":           "corefile: \xff\xfe",
		"a NUL":              "corefile: \x00",
		"a tag":              "replicaCount: !!binary aGVsbG8=",
		"merged keys":        "a: &a {replicaCount: x}\n<<: *a",
		"a key that is none": "{1: 2, true: 3}",
		"a key of a list":    "[1]: 2",
	} {
		err := a.Versions[0].Check(t.Context(), configuration)
		var fault *ConfigurationError
		if !errors.As(err, &fault) || len(err.Error()) > 2*maxProblems {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

// TestProblemsAreBounded has mistakes by the thousand, with names and texts that are as long as they may be.
func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	c := open(t)
	long := strings.Repeat("k", 20_000)
	var unknown strings.Builder
	for i := range 3_000 {
		fmt.Fprintf(&unknown, `,"p%x":1`, i)
	}
	for name, test := range map[string]struct{ addon, configuration string }{
		"unknown properties below a long name": {"vpc-cni",
			`{"eniConfig":{"create":true,"region":"r","subnets":{? "` + long + `" : {"id":"subnet-1"` +
				unknown.String() + `}}}}`},
		"unknown properties": {"coredns", `{"a":1` + unknown.String() + `}`},
		"a long property":    {"coredns", `{"` + long + `":1}`},
		"wrong types":        {"coredns", `{"tolerations":[` + strings.Repeat("0,", 30_000) + `0]}`},
		"no alternative": {"coredns", `{"podDisruptionBudget":{"maxUnavailable":{"` + long + `":[` +
			strings.Repeat("0,", 10_000) + `0]}}}`},
		"a deep value":    {"coredns", strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_000)},
		"equal keys":      {"coredns", `{"replicaCount":{` + strings.Repeat("a,", 30_000) + `a: 1}}`},
		"equal long keys": {"coredns", `{? &a "` + long + `" : 1` + strings.Repeat(",*a : 1", 10) + "}"},
		"an unknown tag":  {"coredns", "replicaCount: !!binary " + long + "="},
	} {
		a, _ := c.Addon(test.addon)
		err := a.Versions[0].Check(t.Context(), test.configuration)
		if err == nil {
			t.Errorf("%s is taken", name)
		} else if length := len(err.Error()); length > 2*maxProblems {
			t.Errorf("%s: an error of %d bytes: %.300v", name, length, err)
		}
	}
	a, _ := c.Addon("coredns")
	err := a.Versions[0].Check(t.Context(), `{"a":1`+unknown.String()+`}`)
	if err == nil || !strings.HasSuffix(err.Error(), ", and more]") {
		t.Errorf("it does not say that there is more: %v", err)
	}
}

// A request whose client has gone waits for no others.
func TestChecksWaitAsLongAsTheirRequests(t *testing.T) {
	t.Parallel()
	a, _ := open(t).Addon("coredns")
	for range cap(checks) {
		checks <- struct{}{}
		defer func() { <-checks }()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Versions[0].Check(ctx, `{"replicaCount":2}`); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	defaults, err := decodeConfiguration("a: {b: 1, c: [1, 2]}\nd: {e: x}\nf: why\n")
	if err != nil {
		t.Fatal(err)
	}
	config, err := decodeConfiguration("a: {c: [3], z: true}\nd: null\n")
	if err != nil {
		t.Fatal(err)
	}
	got := mergeValues(defaults, config)
	a := got["a"].(map[string]any)
	if a["b"] != int64(1) || len(a["c"].([]any)) != 1 || a["z"] != true || got["d"] != nil || got["f"] != "why" {
		t.Errorf("%v", got)
	}
	if d := defaults["a"].(map[string]any); len(d) != 2 || len(d["c"].([]any)) != 2 || defaults["d"] == nil {
		t.Errorf("the defaults became %v", defaults)
	}
}
