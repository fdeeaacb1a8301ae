package insights_test

import (
	"testing"
)

// Each query over the events of its group gives the table: columns, then rows. The result is the same with one worker
// and with three.
func TestCommands(t *testing.T) {
	t.Parallel()
	requests := log(
		`{"verb":"get","code":200,"ms":12.5,"user":{"name":"alice","groups":["system:masters","dev"]},"path":"/api/v1/pods"}`,
		`{"verb":"list","code":200,"ms":40,"user":{"name":"bob","groups":["dev"]},"path":"/api/v1/pods"}`,
		`{"verb":"get","code":404,"ms":3,"user":{"name":"alice","groups":[]},"path":"/api/v1/nodes"}`,
		`{"verb":"patch","code":"409","ms":88,"user":{"name":"carol"},"path":"/apis/apps/v1"}`,
		`{"verb":"delete","ms":7,"user":{"name":"bob"},"gone":true}`,
	)
	lines := log(
		"2026-07-01 INFO [main] user=alice, method=GET, latency=12",
		"2026-07-01 WARN [worker] user=bob, method=PUT, latency=250 slow",
		"2026-07-01 ERROR [main] connection refused",
	)
	for _, g := range []struct {
		events []event
		cases  map[string]string
	}{
		{requests, map[string]string{
			// fields and display
			`fields verb, code`:                                                                                           "verb | code\ndelete | -\npatch | 409\nget | 404\nlist | 200\nget | 200",
			`fields @timestamp, user.groups.0 | limit 2`:                                                                  "@timestamp | user.groups.0\n2026-07-01 12:00:04.000 | -\n2026-07-01 12:00:03.000 | -",
			`fields user.groups[1] as second | sort @timestamp asc | limit 1`:                                             "second\ndev",
			`fields verb | fields code | limit 1`:                                                                         "verb | code\ndelete | -",
			`fields verb, verb | limit 1`:                                                                                 "verb\ndelete",
			`fields ms * 2 as double, ms*2, abs( -ms ) | limit 1`:                                                         "double | ms*2 | abs( -ms )\n14 | 14 | 7",
			"fields `user`.`name`, `verb` as `the verb` | limit 1":                                                        "user.name | the verb\nbob | delete",
			`fields verb as v | filter v = 'list' | display user.name`:                                                    "user.name\nbob",
			`fields verb, code | display code | display verb | limit 1`:                                                   "verb\ndelete",
			`fields 2 ^ 3 ^ 2 as a, -2 ^ 2 as b, 10 % 3 as c, 7 - 2 - 1 as d, 1 + 2 * 3 as e, (1 + 2) * 3 as f | limit 1`: "a | b | c | d | e | f\n512 | -4 | 1 | 4 | 7 | 9",
			`fields verb = 'delete' as is, not ispresent(code) as without, true as yes | limit 1`:                         "is | without | yes\n1 | 1 | 1",
			`display verb | limit 1`:                                                                                      "verb\ndelete",
			`fields user | sort @timestamp asc | limit 1`:                                                                 "user\n" + `{"name":"alice","groups":["system:masters","dev"]}`,

			// filter
			`filter verb = 'get' | display code`:                                                      "code\n404\n200",
			`filter verb == "get" and code = 200 | display ms`:                                        "ms\n12.5",
			`filter 'get' = verb | display code`:                                                      "code\n404\n200",
			`filter code = 409 | display verb`:                                                        "verb\npatch",
			`filter code != 200 | display verb`:                                                       "verb\ndelete\npatch\nget",
			`filter code >= 404 | display verb`:                                                       "verb\npatch\nget",
			`filter ms < 7.5 | display verb`:                                                          "verb\ndelete\nget",
			`filter not code < 404 | display verb`:                                                    "verb\ndelete\npatch\nget",
			`filter verb in ['list', 'patch'] | display verb`:                                         "verb\npatch\nlist",
			`filter code in [404, 409] | display verb`:                                                "verb\npatch\nget",
			`filter verb not in ["get","list"] | display verb`:                                        "verb\ndelete\npatch",
			`filter user.name in [concat('al', 'ice')] | display verb`:                                "verb\nget\nget",
			`filter ispresent(code) | display verb`:                                                   "verb\npatch\nget\nlist\nget",
			`filter gone | display verb`:                                                              "verb\ndelete",
			`filter gone = true | display verb`:                                                       "verb\ndelete",
			`filter gone = false | display verb`:                                                      "verb",
			`filter path like '/pods' | display verb`:                                                 "verb\nlist\nget",
			`filter path like /^.apis\/apps/ | display verb`:                                          "verb\npatch",
			`filter path =~ /nodes$/ | display verb`:                                                  "verb\nget",
			`filter path =~ 'nodes' | display verb`:                                                   "verb\nget",
			`filter path not like /api/ | display verb`:                                               "verb\ndelete",
			`filter verb like /(?i)GET/ | display code`:                                               "code\n404\n200",
			`filter verb = 'get' or verb = 'list' and code = 404 | display code`:                      "code\n404\n200",
			`filter (verb = 'get' or verb = 'list') and code = 404 | display code`:                    "code\n404",
			`filter not (verb = 'get' or verb = 'list') | display verb`:                               "verb\ndelete\npatch",
			`filter verb='get'|filter code=404|display ms`:                                            "ms\n3",
			`FILTER verb = 'get' AND NOT code = 404 | DISPLAY ms`:                                     "ms\n12.5",
			`filterIndex verb = 'list' | display ms`:                                                  "ms\n40",
			`filterIndex verb in ['list', 'get'] | display ms`:                                        "ms\n3\n40\n12.5",
			`fields strcontains(path, 'nodes') as x | filter x | display verb`:                        "verb\nget",
			`filter strcontains(path, 'nodes') = 1 | display verb`:                                    "verb\nget",
			`filter @logStream = 'kube-apiserver-audit-1' and @log like 'demo' | stats count(*) as n`: "n\n5",

			// sort and limit
			`sort ms | display ms`:                "ms\n3\n7\n12.5\n40\n88",
			`sort ms desc | limit 2 | display ms`: "ms\n88\n40",
			`sort verb asc, ms desc | display verb, ms`: "verb | ms\ndelete | 7\nget | 12.5\nget | " +
				"3\nlist | 40\npatch | 88",
			`sort code asc | display code`:  "code\n-\n200\n200\n404\n409",
			`sort code desc | display code`: "code\n409\n404\n200\n200\n-",
			`sort ms desc | sort verb asc | display verb, ms`: "verb | ms\ndelete | 7\nget | 12.5\nget | " +
				"3\nlist | 40\npatch | 88",
			`sort -ms | limit 1 | display verb`:                           "verb\npatch",
			`sort @timestamp asc | limit 1 | display verb`:                "verb\nget",
			`limit 3 | filter verb = 'get' | display code`:                "code\n404",
			`limit 3 | sort ms | display ms`:                              "ms\n3\n7\n88",
			`limit 3 | limit 1 | display verb`:                            "verb\ndelete",
			`limit 1 | limit 3 | display verb`:                            "verb\ndelete",
			`sort ms | limit 3 | fields ms + 1 as more | filter more > 5`: "more\n8\n13.5",
			`fields ms as t | sort t | limit 1 | display t`:               "t\n3",

			// stats
			`stats count(*)`:              "count(*)\n5",
			`stats count()`:               "count()\n5",
			`stats count(code)`:           "count(code)\n4",
			`stats count(*) as n by verb`: "verb | n\ndelete | 1\nget | 2\nlist | 1\npatch | 1",
			`stats count(*) by verb | sort count(*) desc, verb | limit 2`:                        "verb | count(*)\nget | 2\ndelete | 1",
			"stats count(*) by verb | filter `count(*)` > 1":                                     "verb | count(*)\nget | 2",
			`stats count(*) by bin(2s)`:                                                          "bin(2s) | count(*)\n2026-07-01 12:00:04.000 | 1\n2026-07-01 12:00:02.000 | 2\n2026-07-01 12:00:00.000 | 2",
			`stats sum(ms) as total, avg(ms), min(ms), max(ms)`:                                  "total | avg(ms) | min(ms) | max(ms)\n150.5 | 30.1 | 3 | 88",
			`stats sum(ms) / count(*) as mean by user.name as who`:                               "who | mean\nalice | 7.75\nbob | 23.5\ncarol | 88",
			`stats pct(ms, 50), stddev(code)`:                                                    "",
			`stats count_distinct(user.name) as users by code`:                                   "code | users\n- | 1\n200 | 2\n404 | 1\n409 | 1",
			`stats earliest(verb), latest(verb)`:                                                 "earliest(verb) | latest(verb)\nget | delete",
			`stats sum(abs(-ms)) as a, abs(sum(-ms)) as b`:                                       "a | b\n150.5 | 150.5",
			`stats max(ms) as most, min(ms) as least, most - least as spread`:                    "most | least | spread\n88 | 3 | 85",
			`stats sum(ms) as s, count(*) as n, s / n as mean, abs(-n) as m by code`:             "code | s | n | mean | m\n- | 7 | 1 | 7 | 1\n200 | 52.5 | 2 | 26.25 | 2\n404 | 3 | 1 | 3 | 1\n409 | 88 | 1 | 88 | 1",
			`stats count(*) by tolower(verb)`:                                                    "tolower(verb) | count(*)\ndelete | 1\nget | 2\nlist | 1\npatch | 1",
			`stats count(*) as n by user.name | stats max(n) as most, count(*) as users`:         "most | users\n2 | 3",
			`stats count(*) as n by user.name | filter n > 1 | stats sum(n) as total`:            "total\n4",
			`stats count(*) as n by user.name | fields n * 10 as ten | sort ten desc, user.name`: "ten\n20\n20\n10",
			`stats count(*) as n by user.name | display user.name`:                               "user.name\nalice\nbob\ncarol",
			`stats latest(user) as u by verb | fields u.name as who | filter verb = 'list'`:      "",
			`limit 2 | stats count(*) as n by verb`:                                              "verb | n\ndelete | 1\npatch | 1",
			`filter verb = 'watch' | stats count(*)`:                                             "count(*)",
			`stats count(*) by verb, code | sort verb, code | limit 3`:                           "verb | code | count(*)\ndelete | - | 1\nget | 200 | 1\nget | 404 | 1",

			`stats COUNT(*) by verb | sort count(*) desc | limit 1 | filter count( * ) > 1`:                    "verb | COUNT(*)\nget | 2",
			`stats sum(ms) / count(*) by verb | sort sum(ms)/count(*) desc | limit 2`:                          "verb | sum(ms) / count(*)\npatch | 88\nlist | 40",
			`fields 5 as five, jsonParse(@message) as js | limit 1 | display five, js.verb`:                    "five | js.verb\n5 | delete",
			`fields verb as v, ms | limit 3 | filter ms > 5 | limit 2 | filter v != 'patch' | display v, code`: "v | code\ndelete | -",

			// dedup
			`display verb, ms | dedup verb`: "verb | ms\ndelete | 7\npatch | " +
				"88\nget | 3\nlist | 40",
			`display verb, ms | sort @timestamp asc | dedup verb`: "verb | ms\nget | 12.5\nlist | " +
				"40\npatch | 88\ndelete | 7",
			`display verb, code | sort ms desc | dedup verb, code | limit 3`: "verb | code\npatch | 409\nlist | " +
				"200\nget | 200",
			`display verb, code | dedup code`: "verb | code\ndelete | -\npatch | " +
				"409\nget | 404\nlist | 200",
			`display verb | dedup gone`: "verb\ndelete\npatch\nget\nlist\nget",

			// unnest
			`filter verb = 'get' | unnest user.groups into g | display verb, g`:                          "verb | g\nget | system:masters\nget | dev",
			`fields jsonParse(@message) as js | unnest js.user.groups into g | stats count(*) as n by g`: "g | n\ndev | 2\nsystem:masters | 1",
			`unnest verb into v | display v | limit 1`:                                                   "v\ndelete",
			`unnest nothing into v | display v`:                                                          "v",
			`fields user as u | unnest u into one | filter one.name = 'bob' | display one.name`:          "one.name\nbob\nbob",
			`unnest user.groups into g | sort g | display g`:                                             "g\ndev\ndev\nsystem:masters",
			`unnest user.groups into g | filter g = 'dev' | stats count(*)`:                              "count(*)\n2",

			`filter verb = 'list' | fields jsonParse(@message).user.name as who, split(path, '/')[1] as first`: "who | first\nbob | api",
			`filter jsonParse(@message).user.groups[0] = 'dev' | display verb`:                                 "verb\nlist",

			`fields 1.50 as a, 9007199254740993 as b, -9007199254740993 as c, 1e3 + 1 as d | limit 1`: "a | b | c | d\n1.50 | 9007199254740993 | -9007199254740993 | 1001",

			// unmask, comments, white space
			`fields unmask(verb) as v | limit 1`:                      "v\ndelete",
			`unmask verb | limit 1`:                                   "verb\ndelete",
			"# first\n  fields verb # the verb\n\n\n|\nlimit 1 # one": "verb\ndelete",
			"| fields verb\n| limit 1":                                "verb\ndelete",
			"\tFields verb\r\n| Limit 1":                              "verb\ndelete",
		}},
		{lines, map[string]string{
			`parse @message "user=*, method=*, latency=*" as user, method, latency`:                   "user | method | latency\n- | - | -\nbob | PUT | 250 slow\nalice | GET | 12",
			`parse "user=*, method=*, " as who, method | filter ispresent(who) | display method, who`: "method | who\nPUT | bob\nGET | alice",
			`fields @timestamp | parse @message /latency=(?<latency>\d+)/ | filter latency > 100`:     "@timestamp | latency\n2026-07-01 12:00:01.000 | 250",
			`parse @message /\[(\w+)\]/ as thread | stats count(*) as n by thread`:                    "thread | n\nmain | 2\nworker | 1",
			`parse @message "* * [*]" as day, level, thread | sort level | display level, thread`:     "level | thread\nERROR | main\nINFO | main\nWARN | worker",
			`parse @message "[*] *" as thread, rest | parse rest "user=*," as user | display user`:    "user\n-\nbob\nalice",
			`parse @message "latency=* *" as l, rest | display l, rest`:                               "l | rest\n- | -\n250 | slow\n- | -",
			`parse @message /(?<a>INFO)|(?<b>WARN)/ | display a, b`:                                   "a | b\n- | -\n- | WARN\nINFO | -",
			`fields strlen(@message) as n | stats max(n)`:                                             "max(n)\n63",
			`filter @message like 'refused'`:                                                          "@timestamp | @message\n2026-07-01 12:00:02.000 | 2026-07-01 ERROR [main] connection refused",
			`filter @message not like /main/ | display @timestamp`:                                    "@timestamp\n2026-07-01 12:00:01.000",
			`fields verb, @message like 'x'`:                                                          "verb | @message like 'x'\n- | 0\n- | 0\n- | 0",
		}},
	} {
		for query, want := range g.cases {
			t.Run(query, func(t *testing.T) {
				got := table(run(t, compile(t, query, options()), 1, g.events))
				if want != "" && got != want {
					t.Errorf("gives\n%s\nwant\n%s", got, want)
				}
				if three := table(run(t, compile(t, query, options()), 3, g.events)); three != got {
					t.Errorf("three workers give\n%s\none gives\n%s", three, got)
				}
			})
		}
	}
}
