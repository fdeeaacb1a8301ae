//go:build linux

package logrouter

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coracle-eks/coracle/internal/fargate/fluentbit"
)

// fixed is metadata that is known.
type fixed struct{ *podMetadata }

func (f fixed) pod(time.Duration, int64) *podMetadata { return f.podMetadata }

var shopPod = fixed{&podMetadata{uid: "u-1", node: "fargate-ip-10-0-0-4", ip: "10.0.0.4",
	labels: map[string]string{"app": "web", "tier": "front"}, annotations: map[string]string{"a": "b"},
	images: map[string]string{"app": "nginx"}, hashes: map[string]string{"app": "sha256:1"},
	namespaceLabels: map[string]string{"team": "shop"}}}

const crio = `[PARSER]
    Name crio
    Format Regex
    Regex ^(?<time>[^ ]+) (?<stream>stdout|stderr) (?<logtag>P|F) (?<log>.*)$
    Time_Key    time
    Time_Format %Y-%m-%dT%H:%M:%S.%L%z
[PARSER]
    Name json
    Format json
[PARSER]
    Name dummy
    Format regex
    Regex ^(?<INT>[^ ]+) (?<FLOAT>[^ ]+) (?<BOOL>[^ ]+) (?<STRING>.+)$
    Types INT:integer FLOAT:float BOOL:bool
[PARSER]
    Name logfmt
    Format logfmt
[PARSER]
    Name ltsv
    Format ltsv
    Time_Key time
    Time_Format [%d/%b/%Y:%H:%M:%S %z]
    Types status:integer
[PARSER]
    Name docker
    Format json
    Time_Key time
    Time_Format %Y-%m-%dT%H:%M:%S.%L
    Time_Keep On
    Decode_Field_As escaped_utf8 log do_next
    Decode_Field_As json log
`

// TestFilters has the examples of Fluent Bit's manual, and what the manual says beside them.
func TestFilters(t *testing.T) {
	t.Parallel()
	memory := `{"Mem.total":1,"Mem.used":2,"Swap.total":3,"Swap.used":4}`
	for name, test := range map[string]struct{ filter, in, want string }{
		"grep keeps":            {"Name grep\nRegex log aa", `{"log":"aab"}`, `{"log":"aab"}`},
		"grep drops":            {"Name grep\nRegex log aa", `{"log":"bbb"}`, ``},
		"grep drops what lacks": {"Name grep\nRegex log .", `{"other":"a"}`, ``},
		"grep excludes nested": {"Name grep\nExclude $kubernetes['labels']['app'] myapp",
			`{"kubernetes":{"labels":{"app":"myapp"}}}`, ``},
		"grep excludes not":   {"Name grep\nExclude log x", `{"log":"a"}`, `{"log":"a"}`},
		"grep excludes first": {"Name grep\nExclude log x\nRegex log a", `{"log":"ax"}`, ``},
		"grep or": {"Name grep\nLogical_Op or\nRegex v something\nRegex v error", `{"v":"error"}`,
			`{"v":"error"}`},
		"grep and":     {"Name grep\nLogical_Op and\nRegex v a\nRegex v b", `{"v":"a"}`, ``},
		"grep and not": {"Name grep\nLogical_Op and\nExclude v a\nExclude v b", `{"v":"a"}`, `{"v":"a"}`},

		"parser": {"Name parser\nKey_Name data\nParser dummy", `{"data":"100 0.5 true This is example","x":1}`,
			`{"INT":100,"FLOAT":0.5,"BOOL":true,"STRING":"This is example"}`},
		"parser reserves": {"Name parser\nKey_Name data\nParser dummy\nReserve_Data On",
			`{"data":"100 0.5 true This","k":"v"}`, `{"INT":100,"FLOAT":0.5,"BOOL":true,"STRING":"This","k":"v"}`},
		"parser preserves": {"Name parser\nKey_Name data\nParser dummy\nReserve_Data On\nPreserve_Key On",
			`{"data":"1 2 true x","k":1}`, `{"INT":1,"FLOAT":2,"BOOL":true,"STRING":"x","data":"1 2 true x","k":1}`},
		"parser preserves the key alone": {"Name parser\nKey_Name data\nParser dummy\nPreserve_Key On",
			`{"data":"1 2 true x","k":1}`, `{"INT":1,"FLOAT":2,"BOOL":true,"STRING":"x","data":"1 2 true x"}`},
		"parser does not match": {"Name parser\nKey_Name data\nParser dummy", `{"data":"x"}`, `{"data":"x"}`},
		"parser of the guide": {"Name parser\nKey_Name log\nParser crio",
			`{"log":"2021-05-06T01:02:03.456789+02:00 stderr F a b "}`,
			`{"stream":"stderr","logtag":"F","log":"a b "} 2021-05-05T23:02:03.456789Z`},
		"parsers": {"Name parser\nKey_Name log\nParser json\nParser crio",
			`{"log":"2021-05-06T01:02:03.5Z stdout F x"}`, `{"stream":"stdout","logtag":"F","log":"x"} 2021-05-06T01:02:03.5Z`},
		"parser logfmt": {"Name parser\nKey_Name log\nParser logfmt",
			`{"log":"key1=val1 key2=\"v \\\"2\\\"\" key3 key4=\"\""}`,
			`{"key1":"val1","key2":"v \"2\"","key3":true,"key4":""}`},
		"parser ltsv": {"Name parser\nKey_Name log\nParser ltsv",
			`{"log":"host:127.0.0.1\ttime:[01/Jan/2018:00:10:01 +0900]\tstatus:200"}`,
			`{"host":"127.0.0.1","status":200} 2017-12-31T15:10:01Z`},
		"parser docker": {"Name parser\nKey_Name log\nParser docker",
			`{"log":"{\"log\":\"{\\\"a\\\":\\\"b\\\"}\",\"time\":\"2021-05-06T01:02:03.25\"}"}`,
			`{"time":"2021-05-06T01:02:03.25","log":{"a":"b"}} 2021-05-06T01:02:03.25Z`},

		"record_modifier": {"Name record_modifier\nRecord product \"Awesome Tool\"\nRemove_key swap.*", memory,
			`{"Mem.total":1,"Mem.used":2,"product":"Awesome Tool"}`},
		"record_modifier allows": {"Name record_modifier\nAllowlist_key Mem.total", memory, `{"Mem.total":1}`},

		"rewrite_tag": {"Name rewrite_tag\nRule $tool ^(fluent)$ from.$TAG.new.$tool.$sub['s1']['s2'].$1.$TAG[1] false",
			`{"tool":"fluent","sub":{"s1":{"s2":"bit"}}}`,
			`from.aa.bb.new.fluent.bit.fluent.bb {"tool":"fluent","sub":{"s1":{"s2":"bit"}}}`},
		"rewrite_tag keeps": {"Name rewrite_tag\nRule $log . new true",
			`{"log":"a"}`, "{\"log\":\"a\"}\nnew {\"log\":\"a\"}"},
		"rewrite_tag takes texts": {"Name rewrite_tag\nRule $log . new false", `{"log":1}`, `{"log":1}`},

		"nest": {"Name nest\nOperation nest\nWildcard Mem.*\nNest_under Memstats\nRemove_prefix Mem.", memory,
			`{"Swap.total":3,"Swap.used":4,"Memstats":{"total":1,"used":2}}`},
		"nest finds nothing": {"Name nest\nOperation nest\nWildcard x*\nNest_under y", memory, memory},
		"lift": {"Name nest\nOperation lift\nNested_under Stats\nAdd_prefix s_", `{"Stats":{"a":1,"b":{"c":2}},"z":3}`,
			`{"z":3,"s_a":1,"s_b":{"c":2}}`},
		"lift of no map": {"Name nest\nOperation lift\nNested_under a", `{"a":1}`, `{"a":1}`},

		"modify adds and renames": {"Name modify\nRename Key2 RenamedKey\nAdd OtherKey Value3\nAdd Key1 x",
			`{"Key1":"Value1","Key2":"Value2"}`, `{"Key1":"Value1","RenamedKey":"Value2","OtherKey":"Value3"}`},
		"modify sets":    {"Name modify\nSet a x", `{"a":1,"b":2}`, `{"b":2,"a":"x"}`},
		"modify removes": {"Name modify\nRemove_wildcard Mem\nRemove_regex used$", memory, `{"Swap.total":3}`},
		"modify does not rename to what is there": {"Name modify\nRename a b", `{"a":1,"b":2}`, `{"a":1,"b":2}`},
		"modify hard_rename":                      {"Name modify\nHard_Rename a b", `{"a":1,"b":2,"c":3}`, `{"b":1,"c":3}`},
		"modify copy": {"Name modify\nCopy a d\nCopy a b", `{"a":1,"b":2}`,
			`{"a":1,"d":1,"b":2}`},
		"modify hard_copy": {"Name modify\nHard_copy a b", `{"a":1,"b":2}`, `{"a":1,"b":1}`},
		"modify moves": {"Name modify\nMove_to_start b\nMove_to_end a*", `{"a":1,"b":2,"c":3}`,
			`{"b":2,"c":3,"a":1}`},
		"modify if": {"Name modify\nCondition Key_Does_Not_Exist cpustats\n" +
			"Condition Key_Exists Mem.used\nSet cpustats UNKNOWN",
			`{"Mem.used":1}`, `{"Mem.used":1,"cpustats":"UNKNOWN"}`},
		"modify if not":    {"Name modify\nCondition Key_value_equals a b\nRemove a", `{"a":"c"}`, `{"a":"c"}`},
		"modify if nested": {"Name modify\nCondition Key_value_matches $k['a'] ^b\nRemove k", `{"k":{"a":"bc"}}`, `{}`},
		"modify unless":    {"Name modify\nCondition Key_value_does_not_equal a b\nRemove a", `{"a":1,"c":2}`, `{"c":2}`},
		"modify if keys": {"Name modify\nCondition A_key_matches ^M\nCondition No_key_matches x\nSet y z", `{"M":1}`,
			`{"M":1,"y":"z"}`},
		"modify if all": {"Name modify\nCondition Matching_keys_have_matching_values ^a x\nRemove b",
			`{"a1":"x","a2":"y","b":1}`, `{"a1":"x","a2":"y","b":1}`},
		"modify unless all": {"Name modify\nCondition Matching_keys_do_not_have_matching_values ^a x\nRemove b",
			`{"a1":"x","a2":"y","b":1}`, `{"a1":"x","a2":"y"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			filter := "[FILTER]\n    Match *\n    " + strings.ReplaceAll(test.filter, "\n", "\n    ")
			got := through(t, map[string]string{"filters.conf": filter, "parsers.conf": crio}, nil, "aa.bb", test.in)
			if got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestKubernetes(t *testing.T) {
	t.Parallel()
	const names = `"pod_name":"web-1","namespace_name":"shop",`
	const container = `"container_name":"app","docker_id":"` + containerID + `","container_hash":"sha256:1",` +
		`"container_image":"nginx"`
	const pod = `"pod_id":"u-1",`
	const where = `"host":"fargate-ip-10-0-0-4","pod_ip":"10.0.0.4",`
	const bare = `"kubernetes":{` + names + pod + where + container + `}}`
	quiet := "Name kubernetes\nLabels Off\nAnnotations Off\n"
	annotated := func(key, value string) fixed {
		m := *shopPod.podMetadata
		m.annotations = map[string]string{key: value}
		return fixed{&m}
	}
	for name, test := range map[string]struct {
		metadata         fixed
		filter, in, want string
	}{
		"all": {shopPod, "Name kubernetes", `{"log":"x"}`, `{"log":"x","kubernetes":{` + names + pod +
			`"labels":{"app":"web","tier":"front"},"annotations":{"a":"b"},` + where + container + `}}`},
		"tag alone": {shopPod, "Name kubernetes\nUse_Tag_For_Meta On", `{"log":"x"}`, `{"log":"x","kubernetes":{` + names +
			`"container_name":"app","docker_id":"` + containerID + `"}}`},
		"merges": {shopPod, quiet + "Merge_Log On\nKeep_Log Off", `{"log":"{\"a\":\"b\\n\",\"c\":1.0}"}`,
			`{"a":"b","c":1.0,` + bare},
		"keeps": {shopPod, quiet + "Merge_Log On", `{"log":"{\"a\":1}"}`, `{"log":"{\"a\":1}","a":1,` + bare},
		"below a key": {shopPod, quiet + "Merge_Log On\nKeep_Log Off\nMerge_Log_Key m", `{"log":"{\"a\":1}"}`,
			`{"m":{"a":1},` + bare},
		"no JSON":   {shopPod, quiet + "Merge_Log On\nKeep_Log Off", `{"log":"plain"}`, `{"log":"plain",` + bare},
		"two JSONs": {shopPod, quiet + "Merge_Log On\nKeep_Log Off", `{"log":"{} {}"}`, `{"log":"{} {}",` + bare},
		"parser": {shopPod, quiet + "Merge_Log On\nKeep_Log Off\nMerge_Parser logfmt", `{"log":"a=b"}`,
			`{"a":"b",` + bare},
		"own parser": {annotated("fluentbit.io/parser", "logfmt"),
			quiet + "Merge_Log On\nKeep_Log Off\nK8S-Logging.Parser On",
			`{"log":"a=b"}`, `{"a":"b",` + bare},
		"parser refused": {annotated("fluentbit.io/parser", "logfmt"), quiet + "Merge_Log On\nKeep_Log Off",
			`{"log":"a=b"}`, `{"log":"a=b",` + bare},
		"excluded":     {annotated("fluentbit.io/exclude", "true"), quiet + "K8S-Logging.Exclude On", `{"log":"x"}`, ``},
		"excluded not": {annotated("fluentbit.io/exclude", "true"), quiet, `{"log":"x"}`, `{"log":"x",` + bare},
		"other container": {annotated("fluentbit.io/exclude-other", "true"), quiet + "K8S-Logging.Exclude On",
			`{"log":"x"}`,
			`{"log":"x",` + bare},
		"stream": {annotated("fluentbit.io/exclude_stderr-app", "true"), quiet + "K8S-Logging.Exclude On",
			`{"stream":"stderr"}`, ``},
		"other stream": {annotated("fluentbit.io/exclude_stderr", "true"), quiet + "K8S-Logging.Exclude On",
			`{"stream":"stdout"}`, `{"stream":"stdout",` + bare},
		"namespace": {shopPod, "Name kubernetes\nNamespace_Labels On\nNamespace_Metadata_Only On", `{"log":"x"}`,
			`{"log":"x","kubernetes_namespace":{"name":"shop","labels":{"team":"shop"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			filter := "[FILTER]\n    Match *\n    " + strings.ReplaceAll(strings.TrimSpace(test.filter), "\n", "\n    ")
			got := through(t, map[string]string{"filters.conf": filter, "parsers.conf": crio}, test.metadata, logTag, test.in)
			if got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	th := newThrottle(&fluentbit.Throttle{Rate: 2, Window: 3, Interval: time.Second}, start)
	for second, want := range []int{6, 0, 0, 6, 0, 0, 6} {
		passed := 0
		for range 10 {
			if th.allow(start.Add(time.Duration(second) * time.Second)) {
				passed++
			}
		}
		if passed != want {
			t.Errorf("in second %d %d records pass, want %d", second, passed, want)
		}
	}
	if !th.allow(start.Add(time.Hour)) {
		t.Error("no record passes after a pause")
	}
}

// Filters that give each other's records new tags come to an end.
func TestRewritesEnd(t *testing.T) {
	t.Parallel()
	filters := "[FILTER]\n    Name rewrite_tag\n    Match *\n    Rule $log . a false\n" +
		"[FILTER]\n    Name rewrite_tag\n    Match *\n    Rule $log . b false\n"
	got := through(t, map[string]string{"filters.conf": filters}, nil, "t", `{"log":"x"}`)
	if strings.Count(got, "\n") > 0 || got == "" {
		t.Errorf("got %q, want one record", got)
	}
}

// Filters that keep what they give new tags do not make any number of records.
func TestRecordsOfALineAreBounded(t *testing.T) {
	t.Parallel()
	filters := strings.Repeat("[FILTER]\n    Name rewrite_tag\n    Match *\n    Rule $log . a true\n", 20)
	got := through(t, map[string]string{"filters.conf": filters}, nil, "t", `{"log":"x"}`)
	if n := strings.Count(got, "\n"); n < 20 || n > maxRecords {
		t.Errorf("there are %d records", n)
	}
}

// What a container writes passes every parser and filter.
func FuzzLine(f *testing.F) {
	for _, line := range []string{cri(0, "F", `{"a":{"b":[1,"x"]}}`), cri(0, "P", "part"), "a=b c=\"d\\u00e9\" e",
		"a:b\ttime:[01/Jan/2018:00:10:01 +0900]", `{"log":"{\"a\":1}","time":"2021-05-06T01:02:03.25"}`, "1 2 true x"} {
		f.Add(line)
	}
	var filters strings.Builder
	for _, name := range []string{"crio", "docker", "dummy", "json", "ltsv", "logfmt"} {
		filters.WriteString("[FILTER]\n    Name parser\n    Match *\n    Key_Name log\n    Reserve_Data On\n    Parser " +
			name + "\n")
	}
	filters.WriteString("[FILTER]\n    Name kubernetes\n    Match *\n    Merge_Log On\n" +
		"[FILTER]\n    Name nest\n    Match *\n    Operation lift\n    Nested_under a\n    Add_prefix a.\n" +
		"[FILTER]\n    Name modify\n    Match *\n    Condition A_key_matches ^a\n    Hard_copy log text\n")
	c, err := fluentbit.Parse(map[string]string{"filters.conf": filters.String(), "parsers.conf": crio,
		"output.conf": cloudWatch})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line string) {
		now := func() time.Time { return start }
		p := newPipeline(c, shopPod, now, &processLog{w: t.Output(), now: now})
		o := &output{config: c.Outputs[0].CloudWatch, log: p.log}
		var j joiner
		for _, line := range strings.Split(line, "\n") {
			complete, at, ok := j.add(line, 0, start)
			if !ok {
				continue
			}
			for _, r := range p.process(record{time: at, tag: logTag, body: object{{"log", complete}}}) {
				if e := o.event(&r); e == nil || len(e.message) > maxEvent || !utf8.ValidString(e.message) {
					t.Errorf("%q becomes %+v", line, e)
				}
			}
		}
	})
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
	for _, test := range []struct{ format, text, want string }{
		{"%Y-%m-%dT%H:%M:%S.%L%z", "2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123456789Z"},
		{"%d/%b/%Y:%H:%M:%S %z", "10/Oct/2000:13:55:36 -0700", "2000-10-10T20:55:36Z"},
		{"%b %d %H:%M:%S", "Feb  3 04:05:06", "2026-02-03T04:05:06Z"},
		{"%s.%L", "1700000000.25", "2023-11-14T22:13:20.25Z"},
		{"%H:%M:%S", "01:02:03", "2026-11-30T01:02:03Z"},
		{"%I:%M %p", "01:02 pm", "2026-11-30T13:02:00Z"},
		{"%A, %F %T %Z", "Monday, 2026-11-30 05:00:00 EST", "2026-11-30T10:00:00Z"},
		{"%y%j", "26032", "2026-02-01T00:00:00Z"},
		{"%Y", "x", ""}, {"%Y-%m", "2026-13", ""}, {"%S.%L", "5", ""}, {"%Y", "2026 rest", ""}, {"%z", "+25", ""},
	} {
		at, err := parseTime(&fluentbit.Parser{TimeFormat: test.format, TimeStrict: true}, test.text, now)
		got := at.Format(time.RFC3339Nano)
		if err != nil {
			got = ""
		}
		if got != test.want {
			t.Errorf("%q in %q is %q (%v), want %q", test.text, test.format, got, err, test.want)
		}
	}
}

// TestFiltersThatDouble has filters that copy a record into itself, again and again: 2^18 times the line.
func TestFiltersThatDouble(t *testing.T) {
	t.Parallel()
	const double = "[FILTER]\n    Name modify\n    Match *\n    Hard_copy a b\n" +
		"[FILTER]\n    Name nest\n    Match *\n    Operation nest\n    Wildcard *\n    Nest_under a\n"
	config, err := fluentbit.Parse(map[string]string{"filters.conf": strings.Repeat(double, 18),
		"output.conf": "[OUTPUT]\n    Name cloudwatch_logs\n    Match *\n    region eu-west-1\n    log_group_name g\n" +
			"    log_stream_name s\n"})
	if err != nil {
		t.Fatal(err)
	}
	p := newPipeline(config, fixed{}, time.Now, &processLog{w: t.Output(), now: time.Now})
	records := p.process(record{tag: "t", body: object{{"a", strings.Repeat("x", 1000)}}})
	if len(records) != 1 || isLarger(records[0].body, maxValues) {
		t.Fatalf("%d records", len(records))
	}
	if text := appendJSON(nil, records[0].body, maxEvent); len(text) > maxEvent+2000 {
		t.Errorf("the record has %d bytes as JSON", len(text))
	}
}

// TestLargeRecords counts values, and writes no more of them than is sent.
func TestLargeRecords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body object
		most int
		want bool
	}{
		{object{}, 0, false}, {object{{"a", 1}}, 0, true}, {object{{"a", 1}}, 1, false},
		{object{{"a", []any{"x", "y"}}}, 2, true}, {object{{"a", []any{"x", "y"}}}, 3, false},
		{object{{"a", object{{"b", nil}}}, {"c", nil}}, 2, true},
	} {
		if got := isLarger(test.body, test.most); got != test.want {
			t.Errorf("%v has more than %d values: %t", test.body, test.most, got)
		}
	}
	body := object{{"a", "x"}}
	for range 60 {
		body = object{{"a", body}, {"b", []any{body, body}}}
	}
	if text := appendJSON(nil, body, maxEvent); len(text) <= maxEvent || len(text) > 2*maxEvent {
		t.Errorf("the record has %d bytes as JSON", len(text))
	}
}
