package audit

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Webhook is a call of a mutating admission webhook.
type Webhook struct {
	Configuration string `json:"configuration,omitempty"`
	Name          string `json:"name"`
	Mutated       bool   `json:"mutated"`
	// FailedOpen is set when the call failed and the request went on, as failurePolicy Ignore demands.
	FailedOpen bool `json:"failedOpen,omitempty"`
	// Patch is the change that the webhook made; the log has it from level Request on.
	Patch []Change `json:"patch,omitempty"`
}

// The annotations that the API server gives to events, by round and index of the webhook.
// https://kubernetes.io/docs/reference/labels-annotations-taints/audit-annotations/
const (
	mutationAnnotation   = "mutation.webhook.admission.k8s.io/"
	patchAnnotation      = "patch.webhook.admission.k8s.io/"
	failedOpenAnnotation = "failed-open."
)

// webhooks reads who was called, in the order of the calls.
func webhooks(annotations map[string]string) []Webhook {
	byCall := map[string]*Webhook{}
	at := func(call string) *Webhook {
		if byCall[call] == nil {
			byCall[call] = &Webhook{}
		}
		return byCall[call]
	}
	for key, text := range annotations {
		if call, ok := strings.CutPrefix(key, mutationAnnotation); ok {
			var v struct {
				Configuration, Webhook string
				Mutated                bool
			}
			if json.Unmarshal([]byte(text), &v) == nil {
				w := at(call)
				w.Configuration, w.Name, w.Mutated = v.Configuration, v.Webhook, v.Mutated
			}
		} else if call, ok := strings.CutPrefix(key, patchAnnotation); ok {
			var v struct{ Patch []any }
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber()
			if d.Decode(&v) == nil {
				at(call).Patch = requested(v.Patch)
			}
		} else if rest, ok := strings.CutPrefix(key, failedOpenAnnotation); ok {
			prefix, call, _ := strings.Cut(rest, "/")
			if prefix+"/" != mutationAnnotation {
				call = "validating " + call
			}
			w := at(call)
			w.FailedOpen = true
			if w.Name == "" {
				w.Name = text
			}
		}
	}
	var all []Webhook
	for _, call := range slices.Sorted(maps.Keys(byCall)) {
		all = append(all, *byCall[call])
	}
	return all
}
