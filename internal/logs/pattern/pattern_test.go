package pattern

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

// The JSON events of the documentation.
const (
	trail = `{"eventType": "UpdateTrail", "sourceIPAddress": "111.111.111.111", "arrayKey": ["value", "another value"],
		"objectList": [{"name": "a", "id": 1}, {"name": "b", "id": 2}], "SomeObject": null, "cluster.name": "c", "ThisFlag": true}`
	users = `{"user": {"id": 1, "email": "John.Stiles@example.com"},
		"users": [{"id": 2, "email": "John.Doe@example.com"}, {"id": 3, "email": "Jane.Doe@example.com"}],
		"actions": ["GET", "PUT", "DELETE"], "coordinates": [[0, 1, 2], [4, 5, 6], [7, 8, 9]]}`
	request = `127.0.0.1 Prod frank [10/Oct/2000:13:25:15 -0700] "GET /index.html HTTP/1.0" 404 1534`
)

const (
	info1   = "INFO 09/25/2014 12:00:00 GET /service/resource/67 1200"
	info2   = "INFO 09/25/2014 12:00:01 POST /service/resource/67/part/111 1310"
	warning = "WARNING 09/25/2014 12:00:02 Invalid user request"
	failed  = "ERROR 09/25/2014 12:00:02 Failed to process request"
)

var (
	bad400  = "[ERROR 400] BAD REQUEST"
	bad401  = "[ERROR 401] UNAUTHORIZED REQUEST"
	bad419  = "[ERROR 419] MISSING ARGUMENTS"
	bad420  = "[ERROR 420] INVALID ARGUMENTS"
	success = "[SUCCESS 200] AUTHORIZED REQUEST"
)

// matching is every example of the documentation, and the questions that it leaves to a reader.
var matching = []struct {
	pattern string
	yes, no []string
}{
	{"", []string{"", "anything"}, nil},
	{"  \t\n", []string{"", "anything"}, nil},

	// Terms
	{"ERROR", []string{bad400, bad401, bad419, bad420, "Exiting with ERRORCODE: -1"}, []string{"error", "[INFO] fine",
		""}},
	{"ERROR ARGUMENTS", []string{bad419, bad420}, []string{bad400, bad401}},
	{"ERROR Exception", []string{"[ERROR] Caught IllegalArgumentException"}, []string{"[ERROR] Unhandled exception"}},
	{"?ERROR ?ARGUMENTS", []string{bad400, bad401, bad419, bad420}, []string{"[INFO] fine"}},
	{"?ERROR ?ARGUMENTS REQUEST", []string{"[INFO] REQUEST FAILED", "[WARN] UNAUTHORIZED REQUEST",
		"[ERROR] 400 BAD REQUEST"}, []string{bad419}},
	{"?ERROR -ARGUMENTS", []string{bad400, "fine"}, []string{bad419}},
	{`"INTERNAL SERVER ERROR"`, []string{"[ERROR 500] INTERNAL SERVER ERROR"}, []string{"INTERNAL ERROR SERVER",
		"INTERNAL  SERVER ERROR"}},
	{"ERROR -ARGUMENTS", []string{bad400, bad401}, []string{bad419, bad420}},
	{`ERROR -"SERVER ERROR"`, []string{"ERROR", "ERROR SERVER"}, []string{"INTERNAL SERVER ERROR"}},
	{"-ERROR", []string{"fine", ""}, []string{bad400}},
	{`" "`, []string{"two words", "word", ""}, nil},
	{`"say \"no\" \\ C:\temp"`, []string{`they say "no" \ C:\temp.`}, []string{`say no`}},
	{`"größe"`, []string{"die größe"}, []string{"die grösse"}},
	{"ERROR_404 x1", []string{"x1 ERROR_404"}, []string{"ERROR-404 x1"}},

	// Regular expressions
	{"%AUTHORIZED%", []string{bad401, success}, []string{bad400}},
	{"%^[hc]at%", []string{"hat", "cat in"}, []string{"a hat", "bat"}},
	{"%[hc]at$%", []string{"hat", "the cat"}, []string{"cat in"}},
	{"%cancell?ed%", []string{"canceled", "cancelled"}, []string{"cancellled"}},
	{"%[abc]%", []string{"a", "xb"}, []string{"xyz"}},
	{"%[a-z]%", []string{"Aa"}, []string{"A1"}},
	{"%^[abcx-z]$%", []string{"a", "b", "c", "x", "y", "z"}, []string{"d", "-"}},
	{"%^[^abc]$%", []string{"d", "\n"}, []string{"a"}},
	{"%^[a-]$%", []string{"a", "-"}, []string{"b"}},
	{`%^[\d\-_]+$%`, []string{"1-2_3"}, []string{"a"}},
	{"%^a{3,5}$%", []string{"aaa", "aaaa", "aaaaa"}, []string{"aa", "aaaaaa", "a{3,5}"}},
	{"%^a{,2}$%", []string{"", "a", "aa"}, []string{"aaa"}},
	{"%^a{2,}$%", []string{"aa", "aaaaaa"}, []string{"a"}},
	{"%^a{2}$%", []string{"aa"}, []string{"a", "aaa"}},
	{"%^a{1, 2}$%", []string{"a", "aa"}, []string{"aaa"}},
	{"%gra|ey%", []string{"gray", "grey"}, []string{"grow"}},
	{"%^starting|^initializing|^shutting down%", []string{"starting ...", "initializing ...", "shutting down"},
		[]string{"skipping initializing ..."}},
	{"%abcc|ab[^c]$%", []string{"abcc ...", "aba"}, []string{"aac ..."}},
	{`%\[.\]%`, []string{"[a]", "[7]", "[@]", "[]]", "[ ]"}, []string{"[]", "a"}},
	{`%10\.10\.0\.1%`, []string{"from 10.10.0.1"}, []string{"10010,051"}},
	{"%10.10.0.1%", []string{"10010,051"}, nil},
	{"%ab*c%", []string{"ac", "abc", "abbbc"}, []string{"a"}},
	{"%^ab[0-9]*$%", []string{"ab", "ab0", "ab129"}, []string{"abc"}},
	{"%ab+c%", []string{"abc", "abbc", "abbbc"}, []string{"ac"}},
	{"%.at%", []string{"hat", "4at", "#at", " at", "\nat"}, []string{"at"}},
	{`%^\d\D\s\S\w\W$%`, []string{"1a b_-", "1a\tb_-"}, []string{"aa b_-", "1a b--"}},
	{`%\x3A%`, []string{"a:b"}, []string{"ab"}},
	{`%\x28a\x29%`, []string{"(a)"}, []string{"a"}},
	{`%^[\x00-\x1F]$%`, []string{"\n"}, []string{" "}},
	{`%\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}%`, []string{"from 10.0.0.1 to"}, []string{"10.0.0"}},
	{"%[Ee]rror|[Ff]ail%", []string{"an error", "Fail"}, []string{"ERROR"}},
	{`%a\\b%`, []string{`a\b`}, []string{"ab"}},
	{"%:_#=@/;,-%", []string{":_#=@/;,-"}, []string{":_#=@/;,"}},
	{`GET -%/health[a-z]*$%`, []string{"GET /users"}, []string{"GET /healthz", "PUT /users"}},

	// JSON: strings
	{`{ $.eventType = "UpdateTrail" }`, []string{trail, `{"eventType":"\u0055pdateTrail"}`},
		[]string{`{"eventType":"UpdateTrails"}`, `{}`, users, "UpdateTrail", `eventType UpdateTrail`, ""}},
	{"{$.eventType=UpdateTrail}", []string{trail}, []string{users}},
	{"\n{ $.eventType\n=\tUpdateTrail }\n", []string{trail, " \n" + trail + "\n"}, []string{"INFO " + trail}},
	{"{ $.sourceIPAddress != 123.123.* }", []string{trail}, []string{`{"sourceIPAddress": "123.123.1.1"}`,
		`{"other": "1"}`}},
	{`{ $.arrayKey[0] = "value" }`, []string{trail}, []string{`{"arrayKey": "value"}`, `{"arrayKey": []}`,
		`{"arrayKey": ["another value", "value"]}`}},
	{"{ $.eventType = %Trail% }", []string{trail}, []string{`{"eventType": "Train"}`}},
	{"{ $.eventType != %^Create% }", []string{trail}, []string{`{"eventType": "CreateTrail"}`, users}},
	{"{ $.arrayKey[*] = %val.{2}% }", []string{trail, `{"arrayKey": [1, "value"]}`}, []string{`{"arrayKey": ["val"]}`,
		`{"arrayKey": "value"}`}},
	{`{ $.* = %111\.111\.111\.1[0-9]{1,2}% }`, []string{trail}, []string{users}},
	{`{ $.['cluster.name'] = "c" }`, []string{trail}, []string{`{"cluster": {"name": "c"}}`}},
	{`{ $["cluster.name"] = c }`, []string{trail}, []string{`{"cluster": {"name": "c"}}`}},
	{`{ $.user['email'] = *Stiles* }`, []string{users}, []string{trail}},
	{`{ $.detail-type = "x" }`, []string{`{"detail-type": "x"}`}, []string{`{"detail": "x"}`}},
	{"{ $.objectList[1].id = 2 }", []string{trail}, []string{`{"objectList": [{"id": 2}]}`, `{"objectList": {"id": 2}}`,
		`{"objectList": [2, 2]}`}},
	{"{ $.objectList[*].id = 2 }", []string{trail}, []string{users}},
	{`{ $.users[*].email = "Jane*" }`, []string{users}, []string{trail}},
	{"{ $[1].a = 2 }", []string{`[{"a": 1}, {"a": 2}]`}, []string{`{"a": 2}`}},
	{`{ $.a = "" }`, []string{`{"a": ""}`}, []string{`{"a": " "}`, `{}`}},
	{`{ $.a = "*" }`, []string{`{"a": ""}`, `{"a": "x"}`, `{"a": 1}`}, []string{`{}`, `{"a": null}`}},
	{"{ $.latency = * }", []string{`{"latency": 5}`, `{"latency": "high"}`},
		[]string{`{"latency": null}`, `{"other": 5}`}},
	{"{ $.a = *Event }", []string{`{"a": "PutEvent"}`, `{"a": "GetEvent"}`}, []string{`{"a": "EventId"}`}},
	{"{ $.a = Event* }", []string{`{"a": "EventId"}`, `{"a": "EventName"}`}, []string{`{"a": "PutEvent"}`}},
	{"{ $.a = Ev*ent }", []string{`{"a": "Ev*ent"}`}, []string{`{"a": "Event"}`}},
	{`{ $.a = "say \"hi\"" }`, []string{`{"a": "say \"hi\""}`}, []string{`{"a": "say hi"}`}},
	{`{ $.a = "x<y/z" }`, []string{`{"a": "x<y/z"}`, `{"a": "x\u003cy\/z"}`}, []string{`{"a": "x"}`}},

	// JSON: numbers
	{"{ $.bandwidth > 75 }", []string{`{"bandwidth": 75.5}`}, []string{`{"bandwidth": 75}`, `{"bandwidth": "wide"}`,
		`{"bandwidth": [80]}`}},
	{"{ $.latency < 50 }", []string{`{"latency": -1}`}, []string{`{"latency": 50}`}},
	{"{ $.refreshRate >= 60 }", []string{`{"refreshRate": 60}`, `{"refreshRate": 6.1e1}`},
		[]string{`{"refreshRate": 59.99}`}},
	{"{ $.responseTime <= 5 }", []string{`{"responseTime": 5}`}, []string{`{"responseTime": 5.01}`}},
	{"{ $.errorCode = 400}", []string{`{"errorCode": 400}`, `{"errorCode": 4e2}`, `{"errorCode": 400.0}`,
		`{"errorCode": "400"}`}, []string{`{"errorCode": 4000}`}},
	{"{ $.errorCode != 500 }", []string{`{"errorCode": 400}`}, []string{`{"errorCode": 500}`, `{}`}},
	{"{ $.errorCode = 4* }", []string{`{"errorCode": 404}`}, []string{`{"errorCode": 504}`}},
	{`{ $.errorCode = "404" }`, []string{`{"errorCode": 404}`}, []string{`{"errorCode": 404.0}`}},
	{"{ $.number[0] = 1e+3 }", []string{`{"number": [1000]}`}, []string{`{"number": [100]}`}},
	{"{ $.number[0] != 1e-3 }", []string{`{"number": [1000]}`}, []string{`{"number": [0.001]}`, `{"number": 1000}`}},
	{"{ $.numbers[0] < 10e-3 }", []string{`{"numbers": [0.009]}`}, []string{`{"numbers": [0.01]}`}},
	{"{ $.processes[4].averageRuntime <= 55.5 }", []string{`{"processes": [0,0,0,0,{"averageRuntime": 55.5}]}`},
		[]string{`{"processes": []}`}},
	{"{ $.latency > +1000 }", []string{`{"latency": 1001}`}, []string{`{"latency": 1000}`}},
	{"{ $.id = 9007199254740993 }", []string{`{"id": 9007199254740993}`}, []string{`{"id": 9007199254740992}`}},
	{"{ $.n < 1e999 }", []string{`{"n": 1e300}`}, []string{`{"n": 1e999}`}},

	// JSON: IS, NOT EXISTS
	{"{ $.SomeObject IS NULL }", []string{trail}, []string{users, `{"SomeObject": "null"}`}},
	{"{ $.SomeOtherObject NOT EXISTS }", []string{trail, users, "{}"}, []string{`{"SomeOtherObject": null}`, "text"}},
	{"{ $.ThisFlag IS TRUE }", []string{trail}, []string{`{"ThisFlag": "true"}`, `{"ThisFlag": false}`}},
	{"{ $.ThisFlag IS FALSE }", []string{`{"ThisFlag": false}`}, []string{trail, "{}"}},
	{"{ $.objectList[*].missing NOT EXISTS }", []string{trail}, []string{`{"objectList": [{}, {"missing": 1}]}`}},
	{"{ $.ThisFlag = true }", []string{`{"ThisFlag": "true"}`}, []string{trail}},

	// JSON: compound
	{`{ ($.user.id = 1) && ($.users[0].email = "John.Doe@example.com") }`, []string{users}, []string{trail}},
	{`{ $.user.email = "John.Stiles@example.com" || $.coordinates[0][1] = "nonmatch" && $.actions[2] = "nonmatch" }`,
		[]string{users}, nil},
	{`{ $.user.email = "John.Stiles@example.com" || $.coordinates[0][1] = nonmatch && $.actions[2] = nomatch }`,
		[]string{users}, nil},
	{`{ ($.user.email = "John.Stiles@example.com" || $.coordinates[0][1] = "nonmatch") && $.actions[2] = "nonmatch" }`,
		nil, []string{users}},
	{`{ ($.user.id = 2 && $.users[0].email = "nonmatch") || $.actions[2] = "GET" }`, nil, []string{users}},
	{"{ $.coordinates[1][2] = 6 }", []string{users}, []string{trail}},
	{"{ $.users = 1 }", nil, []string{`{"users": [1, 2, 3]}`}},
	{"{ $.users != 1 }", nil, []string{`{"users": [1, 2, 3]}`, `{"users": {"a": 1}}`}},
	{"{ (((($.a=1)&&$.b=2))||$.c=3) }", []string{`{"a":1,"b":2}`, `{"c":3}`}, []string{`{"a":1}`, `{"b":2}`}},
	{`{($.eventSource = kms.amazonaws.com) && (($.eventName=DisableKey)||($.eventName=ScheduleKeyDeletion))}`,
		[]string{`{"eventSource":"kms.amazonaws.com","eventName":"DisableKey"}`},
		[]string{`{"eventSource":"kms.amazonaws.com","eventName":"EnableKey"}`}},
	{`{ $.userIdentity.type = "Root" && $.userIdentity.invokedBy NOT EXISTS && $.eventType != "AwsServiceEvent" }`,
		[]string{`{"userIdentity":{"type":"Root"},"eventType":"AwsApiCall"}`},
		[]string{`{"userIdentity":{"type":"Root","invokedBy":"x"},"eventType":"AwsApiCall"}`,
			`{"userIdentity":{"type":"Root"},"eventType":"AwsServiceEvent"}`}},
	{`{ $.a = 1 }`, nil, []string{`{"a": 1`, `{"a": 1} x`, `"a"`, "1", "null", strings.Repeat("[", 100000)}},

	// Space-delimited
	{`[ip=%127\.0\.0\.[1-9]%, user, username, timestamp, request =*.html*, status_code = 4*, bytes]`, []string{request},
		[]string{strings.Replace(request, "404", "504", 1), strings.Replace(request, "127.0.0.1", "127.0.1.1", 1)}},
	{"[..., request =*.html*, status_code = 4*, bytes]", []string{request, "x y z " + request},
		[]string{strings.Replace(request, "html", "gif", 1)}},
	{"[ip, user, username, timestamp, request =*.html*, status_code = 404 || status_code = 410, bytes]",
		[]string{request, strings.Replace(request, "404", "410", 1)},
		[]string{strings.Replace(request, "404", "403", 1)}},
	{"[ip, user, username, timestamp, request, status_code, bytes > 1000]", []string{request},
		[]string{strings.Replace(request, "1534", "1000", 1), strings.Replace(request, "1534", "many", 1)}},
	{"[ip, user, username, timestamp, request, status_code = 4* && bytes > 1000]", nil, nil}, // see malformed
	{"[ip, user, username, timestamp, request, status_code = 4* && status_code != 403, bytes]", []string{request},
		[]string{strings.Replace(request, "404", "403", 1)}},
	{"[ip, user, ..., status_code, bytes]", []string{request, "a b c d"}, []string{"a b c"}},
	{"[ip, user, ...]", []string{request, "a b"}, []string{"a"}},
	{"[w1=ERROR, w2]", []string{failed, "ERROR x"}, []string{info1, info2, warning, "ERROR", "x ERROR"}},
	{"[w1=ERROR || w1=WARNING, w2]", []string{failed, warning}, []string{info1, info2}},
	{"[w1!=ERROR && w1!=WARNING, w2]", []string{info1, info2}, []string{failed, warning}},
	{"[w1=ERROR || w1=%WARN%, w2]", []string{failed, warning}, []string{info1}},
	{"[(w1=ERROR || w1=WARNING) && w1 != W*, w2]", []string{failed}, []string{warning, info1}},
	{"[logLevel, date, time, method, url=%/service/resource/[0-9]+$%, response_time]", []string{info1},
		[]string{info2}},
	{"[logLevel, date, time, method, url=%/service/resource/[0-9]+/part/[0-9]+$%, response_time]", []string{info2},
		[]string{info1}},
	{`[timestamp=*Z, request_id="*-*", event]`, []string{"2024-01-01T00:00:00.000Z\t1b2c-3d\tline of a function\n"},
		[]string{"START RequestId: 1b2c-3d"}},
	{"[..., status_code != 404, bytes]", []string{strings.Replace(request, "404", "200", 1)}, []string{request}},
	{`[..., request="GET /index.html HTTP/1.0", status, bytes]`, []string{request}, []string{info1}},
	{"[]", []string{"", "a", request}, nil},
	{"[a]", []string{"a", "a b"}, []string{"", "  "}},
	{"[level=ERROR*, ...]", []string{"ERROR: x", "ERROR"}, []string{"[ERROR]: x"}},
	{"[level=%ERROR%, rest]", []string{"[ERROR]: x [y] z"}, []string{"INFO ERROR"}},
	{`[a="[b", c]`, []string{"[b c"}, []string{"[b c]"}},
	{`[a=*b*, c=d]`, []string{`"a \" b" d`}, nil},
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range matching {
		p, err := Parse(c.pattern)
		if c.yes == nil && c.no == nil {
			if err == nil {
				t.Errorf("%s: is no error", c.pattern)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		for _, m := range c.yes {
			if !p.Match(m) {
				t.Errorf("%s: doesn't match %s", c.pattern, m)
			}
		}
		for _, m := range c.no {
			if p.Match(m) {
				t.Errorf("%s: matches %s", c.pattern, m)
			}
		}
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		offset  int
		message string // a part of it
	}{
		{`?Status: timeout`, 7, "Invalid character(s) in term ':'"},
		{`"level\":\"error`, 0, "never closed"},
		{`level\":`, 5, `Invalid character(s) in term '\'`},
		{"kube-system", 4, "double quotes"},
		{`ERROR "x`, 6, "never closed"},
		{`""`, 0, `Invalid character(s) in term '""'`},
		{`"a"b`, 3, "a space between terms"},
		{"größe", 2, "'ö'"},
		{`größe x`, 2, "'ö'"},
		{"-", 1, "ends where"},
		{"ERROR - Exiting", 7, "a term of letters"},
		{"50% off", 2, "'%'"},
		{"`", 0, "Invalid character(s) in term '`'"},
		{"(", 0, "Invalid character(s) in term '('"},

		{"%something!%", 10, `'!'`},
		{"%something!%", 10, `write \x21`},
		{"%(ab)+%", 1, `write \x28`},
		{`%\(ab%`, 1, `'\('`},
		{`%\p%`, 1, `'\p'`},
		{`%\%`, 1, "ends with a backslash"},
		{`%\xZZ%`, 1, `'\x'`},
		{`%\x8%`, 1, `'\x'`},
		{`%\xFF%`, 1, `'\x'`},
		{"%café%", 4, "'é'"},
		{"%abc", 0, "no % at its end"},
		{"%%", 0, "empty"},
		{"%a{3,%", 2, "a repetition is"},
		{"%a{,}%", 2, "a repetition is"},
		{"%a{x}%", 2, "a repetition is"},
		{"%a{5,3}%", 0, "invalid repeat count"},
		{"%a{251}%", 2, "250 characters at most"},
		{"%a{150}b{150}%", 8, "250 characters at most"},
		{"%a{99999999999999999999}%", 2, "250 characters at most"},
		{"%*a%", 0, "missing argument to repetition operator"},
		{"%[abc%", 1, "never closed"},
		{"%[]%", 1, "empty"},
		{"%[z-a]%", 2, "range"},
		{`%[a-\d]%`, 2, "range"},
		{"%[!]%", 2, "'!'"},
		{"%a% %b% %c%", 8, "at most 2 regular expressions"},
		{"{ $.a = %r1% && $.b = %r2% && $.c = %r3% }", 36, "at most 2 regular expressions"},
		{"[w1=%a%, w2=%b%, w3=%c%]", 20, "at most 2 regular expressions"},

		{`{$.a="abc"`, 0, "If a filter pattern starts with '{' it must end with '}'"},
		{"{ $.a = 1 } trailing", 0, "must end with '}'"},
		{"{ $.a = 1 } }", 12, "the end of the pattern"},
		{"{}", 1, "a selector"},
		{"{ $.a }", 6, "operators"},
		{"{ $.a = }", 8, "a number, a string"},
		{"{ a = 1 }", 2, "a selector"},
		{"{ $ = 1 }", 2, "names a property"},
		{"{ $. = 1 }", 4, "the name of a property"},
		{`{ $."sc-status" = 5* }`, 4, `Invalid character(s) in term '"'`},
		{"{ $.a == 1 }", 7, "'='"},
		{"{ $.a = 1 && }", 13, "a selector"},
		{"{ $.a = 1 & $.b = 2 }", 10, "&&, || or }"},
		{"{ $.a = 1 and $.b = 2 }", 10, "&&, || or }"},
		{"{ ($.a = 1 }", 11, "&&, || or )"},
		{"{ $.a = 1) }", 9, "&&, || or }"},
		{"{ $.a IS MAYBE }", 6, "IS NULL"},
		{"{ $.a IS NOT NULL }", 6, "NOT EXISTS"},
		{"{ $.a EXISTS }", 6, "NOT EXISTS"},
		{"{ $.a NOTEXISTS }", 6, "NOT EXISTS"},
		{"{ $.a[x] = 1 }", 6, "the number of an element"},
		{"{ $.a[-1] = 1 }", 6, "the number of an element"},
		{"{ $.a[99999999999999999999] = 1 }", 6, "the number of an element"},
		{"{ $.a[0 = 1 }", 7, "]"},
		{"{ $.['a = 1 }", 5, "never closed"},
		{`{ $.a = "unterminated }`, 8, "never closed"},
		{`{ $.a > "1" }`, 8, "compares numbers"},
		{"{ $.a > x }", 8, "compares numbers"},
		{"{ $.a < 4* }", 8, "compares numbers"},
		{"{ $.a = me@example.com }", 10, "double quotes"},
		{`{ $.a = "x"y }`, 11, "the end of the value"},
		{"{ $.*[*] = 1 }", 2, "one wildcard"},
		{"{ $.a[*]=1 || $.b[*]=1 || $.c[*]=1 || $.*=1 }", 38, "at most 3 selectors"},

		{"[a, b", 0, "If a filter pattern starts with '[' it must end with ']'"},
		{"[ERROR", 0, "must end with ']'"},
		{"[a, b] trailing", 0, "must end with ']'"},
		{"[a] ]", 4, "the end of the pattern"},
		{"[a = ]", 5, "a number, a string"},
		{"[a = 1 ||]", 9, "a condition on the field a"},
		{"[1a]", 1, "the name of a field"},
		{"[a b]", 3, "operators"},
		{"[a, b=x || c=y]", 11, "a condition on the field b"},
		{"[ip, user, username, timestamp, request, status_code = 4* && bytes > 1000]", 61,
			"a condition on the field status_code"},
		{"[a, a]", 4, "two fields named a"},
		{"[a, ..., b, ..., c]", 12, "one ellipsis"},
		{"[w1=!ERROR, w2]", 4, "'!'"},
		{"[(a=1, b]", 5, "&&, || or )"},
		{"[a=1 b]", 5, "a comma or ]"},

		{"a\xff", 0, "not UTF-8"},
		{strings.Repeat("a", MaxLength+1), MaxLength, "at most 1024 characters"},
	} {
		_, err := Parse(c.pattern)
		var bad *SyntaxError
		if !errors.As(err, &bad) {
			t.Errorf("%s: the error is %v", c.pattern, err)
			continue
		}
		if bad.Offset != c.offset || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: offset %d, %v;\n\twant offset %d, %s", c.pattern, bad.Offset, err, c.offset, c.message)
		}
	}
}

func TestExtract(t *testing.T) {
	t.Parallel()
	const access = `127.0.0.1 - frank [10/Oct/2000:13:25:15 -0700] "GET /apache_pb.gif HTTP/1.0" 200 1534`
	numbered := map[string]string{
		"$1": "127.0.0.1", "$2": "-", "$3": "frank", "$4": "10/Oct/2000:13:25:15 -0700",
		"$5": "GET /apache_pb.gif HTTP/1.0", "$6": "200", "$7": "1534",
	}
	but := func(renamed map[string]string) map[string]string {
		m := maps.Clone(numbered)
		for from, to := range renamed {
			m[to] = m[from]
			delete(m, from)
		}
		return m
	}
	for _, c := range []struct {
		pattern string
		want    map[string]string
	}{
		{"[]", numbered},
		{"[..., size]", but(map[string]string{"$7": "$size"})},
		{"[..., request=*.gif*, status_code=2*,]", but(map[string]string{"$5": "$request", "$6": "$status_code"})},
		{"[ip,,username,...]", but(map[string]string{"$1": "$ip", "$3": "$username"})},
		{"[ip, identity, user_id, timestamp, request, status_code, size]",
			but(map[string]string{"$1": "$ip", "$2": "$identity", "$3": "$user_id", "$4": "$timestamp",
				"$5": "$request", "$6": "$status_code", "$7": "$size"})},
		{"[ip, identity, rest]", map[string]string{"$ip": "127.0.0.1", "$identity": "-",
			"$rest": access[len("127.0.0.1 - "):]}},
		{"frank", map[string]string{}},
		{"", map[string]string{}},
	} {
		p, err := Parse(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Extract(access); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.pattern, got, c.want)
		}
	}
}

// A message of open brackets takes hours if each of them is searched for its end.
func TestFieldsAreCutInLinearTime(t *testing.T) {
	t.Parallel()
	p, err := Parse("[first, ..., last]")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"[a ", `"\" `, `" `, `"a `, "a "} {
		if !p.Match(strings.Repeat(part, 8<<20)) {
			t.Errorf("%s: no match", part)
		}
	}
}

func TestFieldsTakeNoMemory(t *testing.T) { // not parallel: it counts allocations
	p, err := Parse("[first = b*, ..., last]")
	if err != nil {
		t.Fatal(err)
	}
	message := strings.Repeat("a ", 1<<19)
	if n := testing.AllocsPerRun(1, func() { p.Match(message) }); n > 10 {
		t.Errorf("%f allocations for the fields of one message", n)
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern     string
		least, most int
	}{
		{"", 1, 1}, {"ERROR", 1, 1}, {`{ $.verb = "patch" && $.code >= 400 }`, 1, 1}, {"[ip, ..., status = 4*]", 1, 1},
		{`%4\d\d%`, 1, 3}, {"%" + strings.Repeat("[a-z]{0,25}", 10) + "%", 30, 100},
		{"{ $.a = %" + strings.Repeat("[a-z]{0,25}", 10) + "% }", 30, 100},
		{"[a = %" + strings.Repeat("[a-z]{0,25}", 10) + "%]", 30, 100},
		{strings.Repeat("-a ", 300), 30, 50},
	} {
		p, err := Parse(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if n := p.Cost(); n < c.least || n > c.most {
			t.Errorf("%.40s costs %d, want %d to %d", c.pattern, n, c.least, c.most)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"":                                  "",
		"ERROR":                             "", // ERRORCODE has it, too
		`"INTERNAL SERVER ERROR"`:           "SERVER",
		`" an ERROR, "`:                     "ERROR an",
		`-"an old ERROR"`:                   "",
		`?"a new ERROR" ?"the new car"`:     "new",
		"%a new ERROR%":                     "",
		"[level=ERROR, rest]":               "ERROR",
		"[level=ERROR || level=WARN, rest]": "",
		"[level=ERR*, rest]":                "",
		`[level, url="*/api/users/*", ...]`: "api users",
		"[status=404, ...]":                 "", // 404.0 equals it
		`[status="404", ...]`:               "404",
		"[status!=x1, ...]":                 "",
		`{ $.eventType = "UpdateTrail" && $.n = 404 }`:     "UpdateTrail",
		`{ $.a = "aws-auth" || $.b = "auth" }`:             "auth",
		`{ $.a = *-bb-cc-* && $.b = "a<dd\"xx<yy" }`:       "bb cc yy",
		`{ $.a != "xx" && $.b NOT EXISTS && $.c IS NULL }`: "",
		"{ $.a = \"xx\nyy zz\tgrößer als\" }":              "als",
		`[a=xx && a=x*, b="yy-zz"]`:                        "xx yy zz",
		`[a="` + strings.Repeat("a", 70) + `"]`:            strings.Repeat("a", 64),
	} {
		p, err := Parse(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(p.Words(), " "); got != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}
