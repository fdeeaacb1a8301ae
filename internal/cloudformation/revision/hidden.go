package revision

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/coracle-eks/coracle/internal/record"
)

// Hidden is what stands for the value of a NoEcho parameter wherever the properties of resources are shown.
const Hidden = "****"

// Secrets are the values of NoEcho parameters, which events, change sets and drifts do not show.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/parameters-section-structure.html
type Secrets []string

// SecretsOf returns the values of the NoEcho parameters of revisions.
func SecretsOf(revisions ...record.StackRevision) (all Secrets) {
	for _, r := range revisions {
		for _, p := range r.Parameters {
			if !p.NoEcho {
				continue
			}
			values := append(strings.Split(p.Value, ","), p.Value)
			if p.Resolved != nil {
				values = append(append(values, strings.Split(*p.Resolved, ",")...), *p.Resolved)
			}
			for _, value := range values {
				if value = strings.TrimSpace(value); value != "" {
					all = append(all, value)
				}
			}
		}
	}
	return all
}

// Text hides secrets in a text, which may be encoded as user data is.
func (s Secrets) Text(text string) string {
	if len(s) == 0 {
		return text
	}
	if decoded, err := base64.StdEncoding.DecodeString(text); err == nil && s.hide(string(decoded)) != string(decoded) {
		return Hidden
	}
	return s.hide(text)
}

func (s Secrets) hide(text string) string {
	for _, secret := range s {
		if strings.Contains(text, secret) {
			return Hidden
		}
	}
	return text
}

// Value hides secrets in a value of a template.
func (s Secrets) Value(value any) any {
	if len(s) == 0 {
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
func (s Secrets) JSON(text json.RawMessage) json.RawMessage {
	if len(s) == 0 || len(text) == 0 {
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
