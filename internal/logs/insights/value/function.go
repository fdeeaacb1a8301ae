package value

import (
	"slices"
	"strings"
)

// Env is the environment of functions. It is used by one goroutine at a time.
type Env struct {
	Now        int64 // ms; the same for a whole query
	Start, End int64 // ms; the time range of the query
	// Timestamp is @timestamp of the event at hand, set by the caller before each event for which
	// a Function with UsesTimestamp is called; Null when the rows have no @timestamp any more.
	Timestamp Value

	// Done, when closed, ends functions early that take long. What they return then is of no use.
	Done <-chan struct{}

	regexes    map[string]*Regex // of regexReplace, compiled; nil for what isn't one
	regexSteps int               // of all of them
}

// Stopped reports whether Done is closed.
func (e *Env) Stopped() bool { return isClosed(e.Done) }

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Function is a scalar function of the language. Each is described, with an example that a test
// runs, in docs/logs-insights-functions.md.
type Function struct {
	Name     string // as AWS writes it
	Min, Max int    // how many arguments it takes; Max -1: any number
	// UsesTimestamp reports that it reads Env.Timestamp though no argument names it (bin).
	UsesTimestamp bool
	// Patterns are the indexes of arguments that are regular expressions: whoever sees a constant there can check it
	// with CompileRegex.
	Patterns []int
	// Call never panics and never keeps args. len(args) is within Min and Max. An argument of a type that it
	// does not work with makes the result Null, as on AWS. Its result may hold parts of the arguments' text.
	Call func(env *Env, args []Value) Value
}

// functions is every scalar function that AWS documents, by its name in lower case:
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-operations-functions.html
var functions = indexByName(numeric, datetime, general, structures, addresses, texts)

func indexByName(groups ...[]Function) map[string]*Function {
	all := map[string]*Function{}
	for _, g := range groups {
		for i := range g {
			all[strings.ToLower(g[i].Name)] = &g[i]
		}
	}
	return all
}

// LookupFunction finds a function by its name, in any case.
func LookupFunction(name string) (*Function, bool) {
	f, ok := functions[strings.ToLower(name)]
	return f, ok
}

// FunctionNames returns the names of all functions, sorted, as AWS writes them.
func FunctionNames() []string {
	var names []string
	for _, f := range functions {
		names = append(names, f.Name)
	}
	slices.SortFunc(names, compareNames)
	return names
}

func compareNames(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }

// maxText is the most text that a function gives, in bytes; more is Null. A message has at most 1 MiB, but
// nested replace() and concat() would double a text as often as a query can say so.
const maxText = 4 << 20

// limited returns text, unless there is too much of it.
func limited(s string) Value {
	if len(s) > maxText {
		return Value{}
	}
	return String(s)
}

// stringArgument returns v as a string function sees it; absent values, lists and maps are absent to them.
func stringArgument(v Value) (string, bool) {
	if !ordered(v) {
		return "", false
	}
	return v.String(), true
}
