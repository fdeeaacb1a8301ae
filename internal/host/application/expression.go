package application

import (
	"errors"
	"net/http"
	"regexp"
	"regexp/syntax"
	"runtime"
	"strings"
	"sync"
	"weak"

	"github.com/coracle-eks/coracle/internal/regexsize"
	"github.com/coracle-eks/coracle/internal/turn"
)

// maxExpression bounds regular expressions, in instructions.
const maxExpression = 4096

// compiled are the expressions in use. A load balancer has the same in each of its zones.
var compiled struct {
	sync.Mutex
	byText map[string]weak.Pointer[regexp.Regexp]
}

// expression compiles a regular expression of a user, and returns its size.
func expression(text, flags string) (re *regexp.Regexp, size int, err error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, 0, err
	}
	if size = regexsize.Estimate(tree); size > maxExpression {
		return nil, 0, errors.New("the regular expression is too large")
	}
	text = flags + "(?:" + text + ")"
	compiled.Lock()
	defer compiled.Unlock()
	if re := compiled.byText[text].Value(); re != nil {
		return re, size, nil
	}
	if re, err = regexp.Compile(text); err != nil {
		return nil, 0, err
	}
	if compiled.byText == nil {
		compiled.byText = map[string]weak.Pointer[regexp.Regexp]{}
	}
	compiled.byText[text] = weak.Make(re)
	runtime.AddCleanup(re, func(text string) {
		compiled.Lock()
		defer compiled.Unlock()
		if compiled.byText[text].Value() == nil {
			delete(compiled.byText, text)
		}
	}, text)
	return re, size, nil
}

// maxSteps bounds the steps in which a request is matched without a turn: some milliseconds. The expressions of a load
// balancer and the URL of a request may have a hundred times as many, which nothing interrupts.
const maxSteps = 1 << 20

// turns are those of requests with more steps. They leave a half of the processors to all others, and an account leaves
// some of them to others.
var turns = turn.Shared(int64(max(1, runtime.GOMAXPROCS(0)/2)), 1)

// takeTurn waits until so many steps may be made. It reports whether the request still goes on.
func (e *exchange) takeTurn(steps int) (release func(), ok bool) {
	if steps <= maxSteps {
		return func() {}, true
	}
	_, release, err := turns.Acquire(e.Context, e.state.account)
	return release, err == nil
}

// steps returns in about how many steps the rules match a request: no fewer than it takes.
func (st *state) steps(e *exchange) int {
	text := len(e.path) + len(e.r.Host) + len(e.r.URL.RawQuery)
	if st.matchesHeaders {
		text += headerSize(e.r.Header)
	}
	return st.weight * text
}

// weight returns how many steps a condition takes for each byte that it matches: the instructions of its expressions,
// and the lengths of its patterns.
func (c Condition) weight() (n int) {
	for _, text := range c.Regex {
		if tree, err := syntax.Parse(text, syntax.Perl); err == nil {
			n += regexsize.Estimate(tree)
		}
	}
	if c.Field == FieldMethod || c.Field == FieldSource {
		return n
	}
	for _, text := range c.Values {
		n += 1 + len(text)*min(1, strings.Count(text, "*"))
	}
	for _, q := range c.Query {
		n += 1 + len(q.Value)
		if q.Key != nil {
			n += len(*q.Key)
		}
	}
	return n
}

// abort ends a request whose client has gone.
func (e *exchange) abort() {
	e.status = statusClientClosed
	panic(http.ErrAbortHandler)
}
