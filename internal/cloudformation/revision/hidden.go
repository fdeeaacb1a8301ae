package revision

import (
	"encoding/base64"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/coracle-eks/coracle/internal/record"
)

// Hidden is what stands for the value of a NoEcho parameter wherever the properties of resources are shown.
const Hidden = "****"

// Bounds of the secrets that are looked for one by one: their number, and their bytes together. With more of them,
// which no stack that people write comes near, all texts are hidden.
const (
	maxSecrets     = 1000
	maxSecretBytes = 256 << 10
)

// Secrets are the values of NoEcho parameters, which events, change sets and drifts do not show. They are safe for
// concurrent use; nil has none.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/parameters-section-structure.html
type Secrets struct {
	all    bool // texts are hidden, whatever they have
	values []string
	search func() *searcher
}

// SecretsOf returns the values of the NoEcho parameters of revisions.
func SecretsOf(revisions ...record.StackRevision) *Secrets {
	found, size := map[string]bool{}, 0
	for _, r := range revisions {
		for _, p := range r.Parameters {
			if !p.NoEcho {
				continue
			}
			for _, value := range []string{p.Value, aws.ToString(p.Resolved), aws.ToString(p.Text)} {
				for piece := range pieces(value) {
					if found[piece] {
						continue
					}
					found[piece] = true
					if size += len(piece); len(found) > maxSecrets || size > maxSecretBytes {
						return &Secrets{all: true}
					}
				}
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	s := &Secrets{values: slices.Sorted(maps.Keys(found))}
	s.search = sync.OnceValue(func() *searcher { return newSearcher(s.values) })
	return s
}

// pieces returns a value, and what stands between its commas: it may be a list.
func pieces(value string) iter.Seq[string] {
	return func(yield func(string) bool) {
		whole := strings.TrimSpace(value)
		if whole == "" || !yield(whole) {
			return
		}
		for piece := range strings.SplitSeq(value, ",") {
			if piece = strings.TrimSpace(piece); piece != "" && !yield(piece) {
				return
			}
		}
	}
}

// Text hides secrets in a text, which may be encoded as user data is.
func (s *Secrets) Text(text string) string {
	if s == nil {
		return text
	}
	if decoded, err := base64.StdEncoding.DecodeString(text); err == nil && s.hide(string(decoded)) != string(decoded) {
		return Hidden
	}
	return s.hide(text)
}

func (s *Secrets) hide(text string) string {
	if s.all || s.search().matches(text) {
		return Hidden
	}
	return text
}

// Value hides secrets in a value of a template.
func (s *Secrets) Value(value any) any {
	if s == nil {
		return value
	}
	switch v := value.(type) {
	case string:
		return s.Text(v)
	case json.Number:
		if hidden := s.Text(v.String()); hidden != v.String() {
			return hidden
		}
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = s.Value(item)
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, item := range v {
			object[key] = s.Value(item)
		}
		return object
	}
	return value
}

// JSON hides secrets in a value that is encoded.
func (s *Secrets) JSON(text json.RawMessage) json.RawMessage {
	if s == nil || len(text) == 0 {
		return text
	}
	var value any
	if err := Decode(text, &value); err != nil {
		return nil
	}
	hidden, err := json.Marshal(s.Value(value))
	if err != nil {
		return nil
	}
	return hidden
}
