package fluentbit_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coracle-eks/coracle/internal/fargate/fluentbit"
)

// guide is the example of the EKS user guide for CloudWatch.
var guide = map[string]string{
	"flb_log_cw": "false",
	"filters.conf": `[FILTER]
    Name parser
    Match *
    Key_name log
    Parser crio
[FILTER]
    Name kubernetes
    Match kube.*
    Merge_Log On
    Keep_Log Off
    Buffer_Size 0
    Kube_Meta_Cache_TTL 300s
`,
	"output.conf": `[OUTPUT]
    Name cloudwatch_logs
    Match   kube.*
    region region-code
    log_group_name my-logs
    log_stream_prefix from-fluent-bit-
    log_retention_days 60
    auto_create_group true
`,
	"parsers.conf": `[PARSER]
    Name crio
    Format Regex
    Regex ^(?<time>[^ ]+) (?<stream>stdout|stderr) (?<logtag>P|F) (?<log>.*)$
    Time_Key    time
    Time_Format %Y-%m-%dT%H:%M:%S.%L%z
`,
}

func TestTheGuidesExample(t *testing.T) {
	t.Parallel()
	c, err := fluentbit.Parse(guide)
	if err != nil {
		t.Fatal(err)
	}
	if c.ProcessLog || len(c.Filters) != 2 || len(c.Outputs) != 1 || len(c.Parsers) != 1 {
		t.Fatalf("got %+v", c)
	}
	k := c.Filters[1].Kubernetes
	if k == nil || !k.MergeLog || k.KeepLog || k.BufferSize != 0 || k.CacheTTL != 5*time.Minute || !k.Labels {
		t.Errorf("kubernetes is %+v", k)
	}
	o := c.Outputs[0].CloudWatch
	if o == nil || o.Region != "region-code" || o.GroupName != "my-logs" || o.StreamPrefix != "from-fluent-bit-" ||
		!o.AutoCreateGroup || o.RetentionDays != 60 {
		t.Errorf("the output is %+v", o)
	}
	if m := c.Outputs[0].Match; !m.Matches("kube.var.log") || m.Matches("other") {
		t.Errorf("match is %+v", m)
	}
	if c.Filters[0].Parser.Parsers[0] != c.Parser("crio") {
		t.Error("the filter does not have the parser")
	}
}

const output = "[OUTPUT]\n    Name cloudwatch_logs\n    Match *\n    region eu-west-1\n    log_group_name g\n" +
	"    log_stream_prefix p-\n"

// TestValid has what AWS accepts.
func TestValid(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]map[string]string{
		"es": {"output.conf": "[OUTPUT]\n  Name  es\n  Match *\n  Host  search.eu-west-1.es.amazonaws.com\n  Port  443\n" +
			"  Index example\n  Type  example_type\n  AWS_Auth On\n  AWS_Region eu-west-1\n  tls   On\n"},
		"firehose":    {"output.conf": "[OUTPUT]\n Name  kinesis_firehose\n Match *\n region r\n delivery_stream s\n"},
		"go firehose": {"output.conf": "[OUTPUT]\n Name  firehose\n Match *\n region r\n delivery_stream s\n"},
		"kinesis":     {"output.conf": "[OUTPUT]\n Name  kinesis\n Match *\n region r\n stream s\n partition_key k\n"},
		"go plugin": {"flb_log_cw": "true", "output.conf": "[OUTPUT]\n    Name cloudwatch\n    Match kube.*\n    region r\n" +
			"    log_group_name /eks/$(kubernetes['namespace_name'])\n    log_stream_name $(tag[3])\n"},
		"indented and commented": {"output.conf": "  # one\n\n" + strings.ReplaceAll(output, "\n", "\n  ") + "  # two\n"},
		"windows":                {"output.conf": strings.ReplaceAll(output, "\n", "\r\n")},
		"other case":             {"output.conf": strings.ReplaceAll(output, "Name", "NAME")},
		"match by expression":    {"output.conf": strings.ReplaceAll(output, "Match *", "Match_Regex ^kube")},
		"all filters": {"output.conf": output, "filters.conf": `[FILTER]
    Name grep
    Match *
    Exclude $kubernetes['labels']['app'] my\happ
    Regex log aa
[FILTER]
    Name record_modifier
    Match *
    Record product "Awesome Tool"
    Remove_key Swap.*
[FILTER]
    Name rewrite_tag
    Match *
    Rule $tool ^(fluent)$ from.$TAG.new.$tool.$sub['s1']['s2'].out false
    Emitter_Name re_emitted
[FILTER]
    Name throttle
    Match *
    Rate 1000
    Window 300
    Interval 1s
[FILTER]
    Name nest
    Match *
    Operation lift
    Nested_under kubernetes
    Add_prefix k_
[FILTER]
    Name modify
    Match *
    Condition Key_Value_Equals a b
    Set "this is a key" v
    Remove_wildcard Mem.
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := fluentbit.Validate(data); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	c, err := fluentbit.Parse(map[string]string{"output.conf": output +
		strings.Repeat("[OUTPUT]\n    Name es\n    Match *\n", 2)})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Unavailable(); len(got) != 1 || got[0] != "es" {
		t.Errorf("got %q, want es", got)
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	filter := func(lines string) map[string]string {
		return map[string]string{"output.conf": output,
			"filters.conf": "[FILTER]\n    " + strings.ReplaceAll(lines, "\n", "\n    ")}
	}
	parser := func(lines string) map[string]string {
		return map[string]string{"output.conf": output,
			"parsers.conf": "[PARSER]\n    " + strings.ReplaceAll(lines, "\n", "\n    ")}
	}
	outputs := func(text string) map[string]string { return map[string]string{"output.conf": text} }
	for name, test := range map[string]struct {
		data map[string]string
		want string
	}{
		"nothing": {nil, "at least one supported output plugin has to be provided (output.conf)"},
		"plugin": {outputs("[OUTPUT]\n    Name amazon_data_firehose\n    Match *\n"),
			"amazon_data_firehose is not a supported " +
				"output plugin (output.conf, line 2, section [OUTPUT] amazon_data_firehose): use es, firehose, "},
		"filter": {filter("Name lua\nMatch *"), "lua is not a supported filter plugin (filters.conf, line 2, "},
		"input": {outputs("[INPUT]\n    Name tail\n"),
			"section [INPUT] is not supported in output.conf (output.conf, line 1)"},
		"wrong file": {map[string]string{"filters.conf": output, "output.conf": output},
			"section [OUTPUT] is not supported in filters.conf"},
		"include": {outputs("@INCLUDE x.conf\n" + output),
			"the command @INCLUDE is not allowed (output.conf, line 1)"},
		"variable": {outputs(output + "    log_key ${X}\n"),
			"environment variables such as ${ENV_VAR} are not allowed (output.conf, line 7"},
		"no match": {outputs("[OUTPUT]\n    Name es\n"),
			"key Match is missing (output.conf, line 1, section [OUTPUT] es)"},
		"no name":   {outputs("[OUTPUT]\n    Match *\n"), "key Name is missing"},
		"unknown":   {outputs(output + "    log_gruop x\n"), "unknown key log_gruop (output.conf, line 7"},
		"twice":     {outputs(output + "    region eu-west-2\n"), "key region is set 2 times"},
		"retention": {outputs(output + "    log_retention_days 4\n"), "log_retention_days is 4"},
		"two streams": {outputs(output + "    log_stream_name x\n"),
			"either log_stream_name or log_stream_prefix is required"},
		"indentation": {outputs("[OUTPUT]\n    Name es\n  Match *\n"),
			"the key is not indented like the ones above it (output.conf, line 3"},
		"not indented": {outputs("[OUTPUT]\nName es\n"), "the key is not indented more than its directive"},
		"directives":   {outputs(output + " [OUTPUT]\n"), "the directive is not indented like the ones above it"},
		"no value":     {outputs("[OUTPUT]\n    Name\n"), "key Name has no value"},
		"outside":      {outputs("    Name es\n"), `"Name es" is outside of a section`},
		"too long":     {outputs(output + strings.Repeat("#", 5300)), "which exceeds the limit of 5300"},
		"key":          {map[string]string{"outputs.conf": output}, `"outputs.conf" is not a supported key`},
		"key without .conf": {map[string]string{"filters": "", "output.conf": output},
			`"filters" is not a supported key`},
		"key in other case": {map[string]string{"flb_log_CW": "true", "output.conf": output},
			`"flb_log_CW" is not a supported key`},
		"process log": {map[string]string{"flb_log_cw": "maybe", "output.conf": output},
			`"maybe" is not a boolean (flb_log_cw)`},
		"owned": {filter("Name kubernetes\nMatch *\nKube_URL https://x"),
			"Kube_URL is a service owned configuration parameter and must not be specified"},
		"no parser": {filter("Name parser\nMatch *\nKey_Name log\nParser x"),
			`parser "x" is not defined (filters.conf, line 5`},
		"grep": {filter("Name grep\nMatch *\nRegex log"), "Regex needs a key and a regular expression"},
		"grep both": {filter("Name grep\nMatch *\nLogical_Op or\nRegex a b\nExclude a b"),
			"both Regex and Exclude are set"},
		"look-ahead": {filter("Name grep\nMatch *\nRegex log a(?=b)"),
			"Regex has an invalid regular expression: look-ahead and look-behind are not supported"},
		"large":      {filter("Name grep\nMatch *\nRegex log a{1000}b{1000}c{1000}"), "the expression is too large"},
		"all large":  {filter("Name grep\nMatch *" + strings.Repeat("\nRegex log a{1000}b{900}", 7)), "too large together"},
		"rule":       {filter("Name rewrite_tag\nMatch *\nRule $a b c"), "Rule needs a key"},
		"rule's key": {filter("Name rewrite_tag\nMatch *\nRule a b c true"), "Rule needs a key"},
		"nest":       {filter("Name nest\nMatch *\nOperation nest\nNest_under x"), "key Wildcard is missing"},
		"condition":  {filter("Name modify\nMatch *\nCondition Key_is x"), `"Key_is" is not a condition`},
		"format":     {parser("Name a\nFormat xml"), `Format is "xml", which is not supported`},
		"no format":  {parser("Name a"), "key Format is missing"},
		"no regex":   {parser("Name a\nFormat regex"), "key Regex is missing"},
		"no groups":  {parser("Name a\nFormat regex\nRegex (.*)"), "the expression has no named groups"},
		"group": {parser("Name a\nFormat regex\nRegex (?<user-name>.*)"),
			"names have letters, digits and underscores"},
		"time":           {parser("Name a\nFormat json\nTime_Format %Q"), "unknown conversion %Q"},
		"two parsers":    {parser("Name a\nFormat json\n[PARSER]"), "the directive is not indented"},
		"types":          {parser("Name a\nFormat json\nTypes a:int"), `"a:int" is not a field with a type`},
		"endpoint":       {outputs(output + "    endpoint file:///etc\n"), "which is not a host of AWS"},
		"a bucket":       {outputs(output + "    endpoint logs.s3.amazonaws.com\n"), "which is not a host of AWS"},
		"a bucket, too":  {outputs(output + "    sts_endpoint https://sts.s3-eu-west-1.amazonaws.com\n"), "which is not a host of AWS"},
		"another Region": {outputs(output + "    endpoint logs.eu-north-1.amazonaws.com\n"), "which is not a host of AWS"},
		"half a VPC endpoint": {outputs(output + "    endpoint logs.eu-west-1.vpce.amazonaws.com\n"),
			"which is not a host of AWS"},
		"a bucket's Region": {outputs(strings.ReplaceAll(output, "region eu-west-1", "region s3") +
			"    endpoint logs.s3.amazonaws.com\n"), "which is not a host of AWS"},
		"another's": {outputs(output + "    sts_endpoint sts.amazonaws.com.example.com\n"), "which is not a host of AWS"},
		"a customer's": {outputs(output + "    sts_endpoint a.execute-api.eu-west-1.amazonaws.com\n"),
			"which is not a host of AWS"},
		"plain": {outputs(output + "    endpoint http://logs.eu-west-1.amazonaws.com\n"), "with https alone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := fluentbit.Validate(test.data)
			var e *fluentbit.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an Error", err)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q, want %q in it", err, test.want)
			}
		})
	}
}

func TestExpressionsInRubysSyntax(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		expression, text string
		want             bool
	}{
		{`^b`, "a\nb", true},
		{`a.b`, "a\nb", false},
		{`/a.b/m`, "a\nb", true},
		{`/AB/i`, "ab", true},
		{`(?m:a.b)`, "a\nb", true},
		{`\h{4}`, "00fF", true},
		{`^\h+$`, "xyz", false},
		{`a{,2}b`, "aab", true},
		{`end\Z`, "the end\n", true},
		{`[^\]\h]`, "]", false},
		{`[[:digit:]]+`, "12", true},
		{`\/path\_x`, "/path_x", true},
	} {
		data := map[string]string{"output.conf": output,
			"filters.conf": "[FILTER]\n  Name grep\n  Match *\n  Regex log " + test.expression}
		c, err := fluentbit.Parse(data)
		if err != nil {
			t.Errorf("%s: %v", test.expression, err)
			continue
		}
		if got := c.Filters[0].Grep.Rules[0].Regex.MatchString(test.text); got != test.want {
			t.Errorf("%s matches %q: %v, want %v", test.expression, test.text, got, test.want)
		}
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, tag string
		want         bool
	}{
		{"*", "", true}, {"*", "a.b", true}, {"a", "a", true}, {"a", "ab", false}, {"a*", "ab", true}, {"*b", "ab", true},
		{"a*c", "abbc", true}, {"a*c", "ab", false}, {"a*b*c", "axbxc", true}, {"a*a", "a", false}, {"*a*", "bab", true},
	} {
		if got := (fluentbit.Match{Wildcard: test.pattern}).Matches(test.tag); got != test.want {
			t.Errorf("%q matches %q: %v, want %v", test.pattern, test.tag, got, test.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(guide["filters.conf"], guide["output.conf"], guide["parsers.conf"])
	f.Add("[FILTER]\n Name rewrite_tag\n Match *\n Rule $a['b'][0] ^(?<x>[^\\h]{,3})$ $TAG[1].$1 true", output, "")
	f.Add("[FILTER]\n Name modify\n Match *\n Condition Key_exists $a\n Set \"a b\" 'c'", output,
		"[PARSER]\n Name p\n Format json\n Decode_Field_As escaped log do_next")
	f.Fuzz(func(t *testing.T, filters, outputs, parsers string) {
		c, err := fluentbit.Parse(map[string]string{"filters.conf": filters, "output.conf": outputs, "parsers.conf": parsers})
		var e *fluentbit.Error
		switch {
		case err != nil && !errors.As(err, &e):
			t.Errorf("%v is no Error", err)
		case err != nil && (e.Reason == "" || len(err.Error()) > 2000):
			t.Errorf("the error is %q", err)
		case err == nil && len(c.Outputs) == 0:
			t.Error("there is no output")
		}
	})
}
