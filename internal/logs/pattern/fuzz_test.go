package pattern

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/logs/tokenizer"
)

// FuzzParse holds that no text makes Parse or a pattern panic, and that what Words says of a pattern is true of the
// messages that it matches.
func FuzzParse(f *testing.F) {
	for _, c := range matching {
		for _, m := range slices.Concat(c.yes, c.no, []string{request}) {
			f.Add(c.pattern, m)
		}
	}
	f.Fuzz(func(t *testing.T, text, message string) {
		p, err := Parse(text)
		if err != nil {
			if e, ok := errors.AsType[*SyntaxError](err); !ok || e.Offset < 0 || e.Offset > len(text) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		checkWords(t, p, message)
		p.Extract(message)
	})
}

// checkWords matches a message and looks for the pattern's words in it.
func checkWords(t *testing.T, p *Pattern, message string) (matched bool) {
	t.Helper()
	if !p.Match(message) {
		return false
	}
	has := wordsOf(message)
	for _, w := range p.Words() {
		if !has[w] {
			t.Fatalf("%s matches %q, which doesn't have the word %s", p, message, w)
		}
	}
	return true
}

// wordsOf returns the words of a message in the filter of a block.
func wordsOf(message string) map[string]bool {
	has := map[string]bool{}
	tokenizer.Each(message, func(w string) bool { has[w] = true; return true })
	if unescaped, ok := tokenizer.Unescaped([]byte(message)); ok {
		tokenizer.Each(string(unescaped), func(w string) bool { has[w] = true; return true })
	}
	return has
}

// TestWordsAreSound makes patterns and messages of the same few pieces, so that many match.
func TestWordsAreSound(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"aws", "auth", "ERROR", "10", "x1", "-", ".", " ", "/", "_", "<", "é", `"`, "\n"}
	text := func() string {
		var b strings.Builder
		for range 1 + random.IntN(4) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		return b.String()
	}
	quote := func(s string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"` }
	value := func() string {
		v := text()
		return quote([]string{"", "*"}[random.IntN(2)] + v + []string{"", "*"}[random.IntN(2)])
	}
	matched := map[string]int{}
	for range 100_000 {
		kind, pattern, message := "terms", "", text()+text()+text()
		switch random.IntN(3) {
		case 0:
			pattern = []string{"", "?"}[random.IntN(2)] + quote(text())
			if random.IntN(2) == 0 {
				pattern += " " + []string{"", "?", "-"}[random.IntN(3)] + quote(text())
			}
		case 1:
			kind = "delimited"
			join := []string{" && a=", " || a="}[random.IntN(2)]
			pattern = fmt.Sprintf("[a=%s%s%s, %s]", value(), join, value(), []string{"b", "...", "b=" + value()}[random.IntN(3)])
		case 2:
			kind = "json"
			encoded, err := json.Marshal(map[string]any{"a": text(), "b": []string{text()}})
			if err != nil {
				t.Fatal(err)
			}
			message = string(encoded)
			if random.IntN(4) == 0 { // as no encoder that is known, but as one might
				message = strings.NewReplacer("aws", `\u0061ws`, "-", `\u002d`, "x1", `x\u0031`, "_", `\u005F`).Replace(message)
			}
			join := []string{" && ", " || "}[random.IntN(2)]
			pattern = fmt.Sprintf("{ $.a=%s%s$.b[*]=%s }", value(), join, value())
		}
		p, err := Parse(pattern)
		if err != nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		if checkWords(t, p, message) {
			matched[kind]++
		}
	}
	for _, kind := range []string{"terms", "delimited", "json"} {
		if matched[kind] < 300 {
			t.Errorf("only %d patterns of kind %s matched: the test shows little", matched[kind], kind)
		}
	}
}

// The most that a pattern may ask of a message.
func BenchmarkMatch(b *testing.B) {
	message := strings.Repeat("a", 1<<20)
	event := `{"kind":"Event","verb":"patch","user":{"username":"eks:node-manager"},"objectRef":{"name":"aws-node"},"requestObject":{"data":"` + strings.Repeat("x ", 600) + `"}}`
	for name, c := range map[string]struct{ pattern, message string }{
		"regex of a MiB":     {"%a{249}b%", message},
		"one event, found":   {`{ $.objectRef.name = "aws-node" && $.verb = "patch" }`, event},
		"one event, refused": {`{ $.objectRef.name = "aws-auth" && $.verb = "patch" }`, event},
	} {
		p, err := Parse(c.pattern)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(c.message)))
			for b.Loop() {
				p.Match(c.message)
			}
		})
	}
}
