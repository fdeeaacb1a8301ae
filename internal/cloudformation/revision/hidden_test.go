package revision

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/record"
)

func secretsOf(values ...string) *Secrets {
	var r record.StackRevision
	for i, value := range values {
		r.Parameters = append(r.Parameters, record.StackParameter{Key: fmt.Sprint(i), Value: value, NoEcho: true})
	}
	return SecretsOf(r)
}

func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	resolved := SecretsOf(record.StackRevision{Parameters: []record.StackParameter{
		{Key: "P", Value: "name", Resolved: aws.String("value"), NoEcho: true}, {Key: "Q", Value: "public"}}})
	for _, test := range []struct {
		secrets *Secrets
		text    string
		hidden  bool
	}{
		{secretsOf(), "anything", false},
		{secretsOf(""), "anything", false},
		{secretsOf("abc"), "xabcx", true},
		{secretsOf("abc"), "xabxc", false},
		{secretsOf("abc"), encode("xabcx"), true},
		{secretsOf("abc"), encode("xabxc"), false},
		{secretsOf("one, two,,three"), "two", true},
		{secretsOf("one, two,,three"), "t", false},
		{secretsOf("aab", "ab", "xyz"), "aaxyab", true},
		{secretsOf("abcd", "bce"), "abce", true},
		{secretsOf("abcd", "bc"), "abce", true},
		{resolved, "a name", true},
		{resolved, "a value", true},
		{resolved, "public", false},
	} {
		want := test.text
		if test.hidden {
			want = Hidden
		}
		if got := test.secrets.Text(test.text); got != want {
			t.Errorf("%q becomes %q, want %q", test.text, got, want)
		}
	}
}

// Words and texts of few letters, in which words begin within others.
func TestSearcher(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same words each time
	word := func(length int) string {
		text := make([]byte, 1+random.IntN(length))
		for i := range text {
			text[i] = 'a' + byte(random.IntN(3))
		}
		return string(text)
	}
	for range 10_000 {
		words := make([]string, 1+random.IntN(4))
		for i := range words {
			words[i] = word(6)
		}
		text, want := word(12), false
		for _, w := range words {
			want = want || strings.Contains(text, w)
		}
		if got := newSearcher(words).matches(text); got != want {
			t.Fatalf("%q has one of %q: %t", text, words, got)
		}
	}
}

// As many secrets as parameters can have would be looked for in many texts for minutes.
func TestManySecrets(t *testing.T) {
	t.Parallel()
	var many, few []string
	for i := range 200 {
		var short, long []string
		for j := range 1000 {
			short = append(short, fmt.Sprintf("~%d", 1000*i+j))
		}
		for j := range 5 {
			long = append(long, strings.Repeat("a", 200)+fmt.Sprintf("%d~%d", i, j))
		}
		many, few = append(many, strings.Join(short, ",")), append(few, strings.Join(long, ","))
	}
	texts := make([]any, 50_000)
	for i := range texts {
		texts[i] = strings.Repeat("a", 20)
	}
	if got := secretsOf(many...).Value(texts).([]any); got[0] != Hidden {
		t.Errorf("with too many secrets, %s is shown", got[0])
	}
	for _, n := range []int{1, 100} {
		if got := secretsOf(few[:n]...).Value(texts).([]any); got[0] != texts[0] {
			t.Errorf("%s becomes %s", texts[0], got[0])
		}
	}
}
