// Package insights is the query language of CloudWatch Logs Insights: its grammar, its meaning, and the pipeline that
// computes a result from log events. It is pure: it reads no events itself and knows no clock. Who runs queries
// (internal/controller/logquery) does this:
//
//	q, err := insights.Parse(text)             // *SyntaxError says what is wrong and where
//	plan, err := insights.Compile(q, options)  // the same
//	// skip blocks that plan.Where() rules out; per goroutine:
//	w := plan.NewWorker(); for each event in plan.Windows(): w.Push(event)
//	result, err := plan.Finish(workers)
//
// # Grammar
//
// The parser (parse.go, and parseexpression.go for conditions) follows these rules, in this order: the method of a rule
// has its name, short rules are part of those that use them. Keywords and the names of commands and functions are
// recognized in any case. Between tokens there may be white space, newlines and comments (# to the end of the line).
//
//	query       = [ "|" ] commands | source [ "|" commands ] .
//	commands    = command { "|" command } .
//	source      = "SOURCE" ( logGroups | string { "|" "SOURCE" string } ) .
//	logGroups   = "logGroups" "(" [ selector { "," selector } ] ")" .
//	selector    = ( "namePrefix" | "class" | "accountIdentifiers" ) ":" "[" string { "," string } "]" .
//
//	command     = fields | display | filter | filterIndex | stats | sort | limit | parse | dedup
//	            | pattern | diff | anomaly | unnest | unmask .
//	fields      = "fields" item { "," item } .
//	display     = "display" item { "," item } .
//	filter      = "filter" condition .
//	filterIndex = "filterIndex" condition .                 // of "=" and "in", joined by "and" and "or"
//	stats       = "stats" item { "," item } [ "by" item { "," item } ] .
//	sort        = "sort" key { "," key } .
//	limit       = "limit" number .                          // 1 to 10,000
//	parse       = "parse" [ name ] ( string | regex ) [ "as" name { "," name } ] .
//	dedup       = "dedup" name { "," name } .
//	pattern     = "pattern" sum .
//	diff        = "diff" [ "previousTime" | "previousDay" | "previousWeek" | "previousMonth" ] .
//	anomaly     = "anomaly" .
//	unnest      = "unnest" name "into" name .
//	unmask      = "unmask" name { "," name } .
//	item        = condition [ "as" name ] .
//	key         = condition [ "as" name ] [ "asc" | "desc" ] .
//
//	condition   = conjunction { "or" conjunction } .
//	conjunction = negation { "and" negation } .
//	negation    = "not" negation | comparison .
//	comparison  = sum [ ( "=" | "==" | "!=" | "<" | "<=" | ">" | ">=" ) sum
//	                  | [ "not" ] "like" match
//	                  | "=~" match
//	                  | [ "not" ] "in" "[" sum { "," sum } "]" ] .
//	match       = regex | string .
//	sum         = product { ( "+" | "-" ) product } .
//	product     = sign { ( "*" | "/" | "%" ) sign } .
//	sign        = "-" sign | power .
//	power       = operand [ "^" sign ] .
//	operand     = number | period | string | "true" | "false" | name | call | "(" condition ")" .
//	call        = name "(" [ "*" | condition { "," condition } ] ")" { path | "[" number "]" } .
//
// And the tokens (lex.go):
//
//	name    = part { "." part | "[" digit { digit } "]" } .  // @timestamp, user.groups.0, items[2].id, annotations.`eks.amazonaws.com/role-arn`
//	part    = ( letter | "_" | "@" | digit ) { letter | "_" | "@" | digit } | "`" { any but "`" } "`" .  // the first one does not begin with a digit
//	path    = "." part { "." part | "[" digit { digit } "]" } .  // jsonParse(@message).user.name
//	number  = digit { digit } [ "." digit { digit } ] [ ( "e" | "E" ) [ "+" | "-" ] digit { digit } ] .
//	period  = digit { digit } letter { letter } .            // 5m, 1h, 30days
//	string  = "'" ... "'" | '"' ... '"' .                    // \' \" \\ \n \t \r; any other backslash stands for itself
//	regex   = "/" ... "/" .                                  // on one line; "\/" for a slash
//
// The words and, or, not, in, like, as, by, true and false are fields' names only in backticks.
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax.html
package insights
