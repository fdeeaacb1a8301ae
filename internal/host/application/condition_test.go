package application

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func TestConditions(t *testing.T) {
	t.Parallel()
	key := func(text string) *string { return &text }
	for _, c := range []struct {
		name      string
		condition Condition
		yes, no   []string // URLs, with headers behind spaces
	}{
		{"host", Condition{Field: FieldHost, Values: []string{"Example.com"}},
			[]string{"http://example.com/", "http://EXAMPLE.com:8080/"}, []string{"http://www.example.com/", "http://a/"}},
		{"host with *", Condition{Field: FieldHost, Values: []string{"*.example.com"}},
			[]string{"http://a.example.com/", "http://a.b.example.com/"}, []string{"http://example.com/"}},
		{"host with ?", Condition{Field: FieldHost, Values: []string{"a?.example.com"}},
			[]string{"http://ab.example.com/"}, []string{"http://a.example.com/", "http://abc.example.com/"}},
		{"one of two hosts", Condition{Field: FieldHost, Values: []string{"a.b", "c.d"}},
			[]string{"http://a.b/", "http://c.d/"}, []string{"http://a.d/"}},
		{"host by expression", Condition{Field: FieldHost, Regex: []string{`^(dev|test)-\d+\.example\.com$`}},
			[]string{"http://DEV-12.example.com/"}, []string{"http://prod-1.example.com/", "http://dev-x.example.com/"}},
		{"path", Condition{Field: FieldPath, Values: []string{"/img/*"}},
			[]string{"http://a/img/", "http://a/img/a/b?c"}, []string{"http://a/img", "http://a/IMG/a", "http://a/?/img/"}},
		{"path in the middle", Condition{Field: FieldPath, Values: []string{"/img/*/pics"}},
			[]string{"http://a/img/a/b/pics"}, []string{"http://a/img/pics", "http://a/img/a/pics/"}},
		{"path as it was sent", Condition{Field: FieldPath, Values: []string{"/a%20b"}},
			[]string{"http://a/a%20b"}, []string{"http://a/a+b"}},
		{"path by expression", Condition{Field: FieldPath, Regex: []string{`^/v[0-9]+/`}},
			[]string{"http://a/v12/x"}, []string{"http://a/V1/x", "http://a/x/v1/"}},
		{"path of gRPC", Condition{Field: FieldPath, Values: []string{"/package.Service/Method"}},
			[]string{"http://a/package.Service/Method"}, []string{"http://a/package.Service/Other"}},
		{"header", Condition{Field: FieldHeader, Header: "user-agent", Values: []string{"*Chrome*", "*Safari*"}},
			[]string{"http://a/ User-Agent=my chrome/1"}, []string{"http://a/ User-Agent=curl", "http://a/"}},
		{"second header of a name", Condition{Field: FieldHeader, Header: "X-A", Values: []string{"two"}},
			[]string{"http://a/ X-A=one X-A=TWO"}, []string{"http://a/ X-A=one"}},
		{"header by expression", Condition{Field: FieldHeader, Header: "X-A", Regex: []string{"^[a-f]+$"}},
			[]string{"http://a/ X-A=abc"}, []string{"http://a/ X-A=abcg"}},
		{"query with a key", Condition{Field: FieldQuery, Query: []QueryValue{{key("version"), "v1"}}},
			[]string{"http://a/?version=v1", "http://a/?x=y&VERSION=V1"}, []string{"http://a/?version=v2", "http://a/?x=v1"}},
		{"query without a key", Condition{Field: FieldQuery, Query: []QueryValue{{nil, "*example*"}}},
			[]string{"http://a/?a=an-example-1", "http://a/?example&b"[:len("http://a/?")] + "b=example"},
			[]string{"http://a/?example=1", "http://a/"}},
		{"query with an escaped *", Condition{Field: FieldQuery, Query: []QueryValue{{key("a"), `\*x\?`}}},
			[]string{"http://a/?a=*x?", "http://a/?a=%2Ax%3F"}, []string{"http://a/?a=1x2"}},
		{"source", Condition{Field: FieldSource, Values: []string{"192.0.2.0/24", "2001:db8::/32"}},
			[]string{"http://a/ From=192.0.2.7", "http://a/ From=2001:db8::1"}, []string{"http://a/ From=198.51.100.1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			matches, err := compileCondition(c.condition)
			if err != nil {
				t.Fatal(err)
			}
			for want, requests := range map[bool][]string{true: c.yes, false: c.no} {
				for _, text := range requests {
					if matches(request(t, text)) != want {
						t.Errorf("%s: matches %v, want %v", text, !want, want)
					}
				}
			}
		})
	}
}

// request returns the exchange of a URL, with headers behind spaces.
func request(t *testing.T, text string) *exchange {
	t.Helper()
	url, headers, _ := strings.Cut(text, " ")
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := &exchange{r: r, client: &client{}}
	for _, field := range strings.Split(headers, " ") {
		name, value, ok := strings.Cut(field, "=")
		switch {
		case name == "From":
			e.client.address = netip.AddrPortFrom(netip.MustParseAddr(value), 1)
		case ok:
			r.Header.Add(name, value)
		case name != "": // a space in the value before
			values := r.Header["User-Agent"]
			values[len(values)-1] += " " + name
		}
	}
	if !e.normalizePath() {
		t.Fatalf("%s has no path", url)
	}
	return e
}

func TestMethodCondition(t *testing.T) {
	t.Parallel()
	matches, err := compileCondition(Condition{Field: FieldMethod, Values: []string{"PUT", "CUSTOM-METHOD"}})
	if err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]bool{"PUT": true, "CUSTOM-METHOD": true, "put": false, "GET": false} {
		if matches(&exchange{r: &http.Request{Method: method}}) != want {
			t.Errorf("%s: %v, want %v", method, !want, want)
		}
	}
}

func TestBrokenConditions(t *testing.T) {
	t.Parallel()
	for _, c := range []Condition{
		{Field: FieldHost, Regex: []string{"("}},
		{Field: FieldPath, Regex: []string{"((a{100}){100}){100}"}},
		{Field: FieldHeader, Regex: []string{"(?<=a)b"}},
		{Field: FieldSource, Values: []string{"192.0.2.0"}},
		{Field: "color"},
	} {
		if _, err := compileCondition(c); err == nil {
			t.Errorf("%v is compiled", c)
		}
	}
}

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"a*", "a", true}, {"*a", "ba", true},
		{"*a", "ab", false}, {"a*b*c", "axxbyybzzc", true}, {"a*b*c", "axxcyyb", false}, {"?", "", false},
		{"a?c", "abc", true}, {"**", "x", true}, {"*ab", "aab", true}, {"*?", "x", true}, {"*?", "", false},
	} {
		if glob(c.pattern, c.text, false) != c.want {
			t.Errorf("%q matches %q: %v, want %v", c.pattern, c.text, !c.want, c.want)
		}
	}
}
