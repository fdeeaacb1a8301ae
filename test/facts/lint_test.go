package facts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/testenv"
)

// load reads facts.yaml.
func load(t testing.TB) []Fact {
	t.Helper()
	text, err := os.ReadFile("facts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	facts, err := Parse(text)
	if err != nil {
		t.Fatalf("facts.yaml: %v", err)
	}
	return facts
}

func TestFactsAreWellFormed(t *testing.T) {
	t.Parallel()
	previous := Fact{}
	for _, f := range load(t) {
		if err := f.Validate(); err != nil {
			t.Errorf("facts.yaml:%d: %s: %v", f.Line, f.ID, err)
		}
		switch strings.Compare(previous.ID, f.ID) {
		case 0:
			t.Errorf("facts.yaml:%d: %s is in line %d as well", f.Line, f.ID, previous.Line)
		case 1:
			t.Errorf("facts.yaml:%d: %s stands before %s in the order of the alphabet", f.Line, f.ID, previous.ID)
		}
		previous = f
		if file, sentence := f.Documented(); file != "" {
			text, err := os.ReadFile(filepath.Join(testenv.Root(), file))
			if err != nil {
				t.Errorf("facts.yaml:%d: %s: %v", f.Line, f.ID, err)
			} else if !strings.Contains(unwrapped(string(text)), unwrapped(sentence)) {
				t.Errorf("facts.yaml:%d: %s: %s does not say %q", f.Line, f.ID, file, sentence)
			}
		}
	}
}

// unwrapped returns a text without its line breaks.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestParse(t *testing.T) {
	t.Parallel()
	facts, err := Parse([]byte("# facts\n- id: a\n  on: api\n  ask: aws x\n  absent: true\n  from: y\n\n- id: b\n"))
	if err != nil || len(facts) != 2 || facts[0].Line != 2 || facts[1].Line != 8 || !facts[0].Absent {
		t.Errorf("got %+v, %v", facts, err)
	}
	for text, want := range map[string]string{
		"- id: a\n  asks: aws x\n":     "line 2: field asks not found",
		"- id: a\n  min: many\n":       "line 2: cannot unmarshal",
		"- id: a\n  id: b\n":           "already defined",
		"id: a\n":                      "cannot unmarshal",
		"- id: a\n  names: [a\n  - b:": "yaml: line",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	valid := Fact{ID: "a-b", On: Plain, Ask: "kubectl get pods -o json", Absent: true, From: "the user guide"}
	if err := valid.Validate(); err != nil {
		t.Errorf("%+v: %v", valid, err)
	}
	for want, change := range map[string]func(*Fact){
		"lower-case words":      func(f *Fact) { f.ID = "A b" },
		"not empty, api":        func(f *Fact) { f.On = "moon" },
		`begins with "curl"`:    func(f *Fact) { f.Ask = "curl x" },
		"kubectl needs":         func(f *Fact) { f.On = API },
		"from is missing":       func(f *Fact) { f.From = "" },
		"there are 0 of":        func(f *Fact) { f.Absent = false },
		"there are 2 of":        func(f *Fact) { f.Matches = "x" },
		"message needs fails":   func(f *Fact) { f.Message = "x" },
		"an error has no path":  func(f *Fact) { f.Absent, f.Fails, f.Path = false, "X", "a" },
		"missing closing )":     func(f *Fact) { f.Absent, f.Fails, f.Message = false, "X", "^(" },
		"missing closing ]":     func(f *Fact) { f.Absent, f.Matches = false, "[" },
		"path: ":                func(f *Fact) { f.Path = "a[" },
		"not a minor version":   func(f *Fact) { f.Since = "new" },
		`not "FILE: sentence"`:  func(f *Fact) { f.Differs = "README.md" },
		`"1,35" is not a minor`: func(f *Fact) { f.Until = "1,35" },
	} {
		f := valid
		change(&f)
		if err := f.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestAppliesTo(t *testing.T) {
	t.Parallel()
	for f, want := range map[*Fact][]string{
		{}:                             {"1.9", "1.33", "1.36"},
		{Since: "1.33"}:                {"1.33", "1.36"},
		{Until: "1.33"}:                {"1.9", "1.33"},
		{Since: "1.10", Until: "1.33"}: {"1.33"},
	} {
		got := slices.DeleteFunc([]string{"1.9", "1.33", "1.36"}, func(v string) bool { return !f.AppliesTo(v) })
		if !slices.Equal(got, want) {
			t.Errorf("from %q to %q: got %v, want %v", f.Since, f.Until, got, want)
		}
	}
}
