package wire

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

func TestParseQueryBounds(t *testing.T) {
	deep := url.Values{strings.Repeat("a.", 100) + "b": {"1"}}
	if _, err := parseQuery(deep); err == nil {
		t.Error("a name of a hundred parts was read")
	}
	wide := url.Values{}
	for i := range 10_000 {
		wide.Set(fmt.Sprintf("%d.%s", i, strings.Repeat("a.", 60)), "1")
	}
	if _, err := parseQuery(wide); err == nil {
		t.Error("ten thousand names of sixty parts became a tree")
	}
}

func TestNumberedClosesGapsAndSorts(t *testing.T) {
	root, err := parseQuery(url.Values{"L.10": {"c"}, "L.2": {"b"}, "L.1": {"a"}, "L.x": {"?"}})
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, n := range root.takeChild("L").numbered() {
		got += n.value
	}
	if got != "abc" {
		t.Errorf("got %q, want abc", got)
	}
	if p := root.firstUnused(); p != "L.x" {
		t.Errorf("the unused parameter is %q", p)
	}
}
