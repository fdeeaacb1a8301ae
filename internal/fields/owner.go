package fields

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/coracle-eks/coracle/internal/kube/managedfields"
)

// EKS is the field manager of EKS's add-ons.
const EKS = "eks"

// Manager is an entry of metadata.managedFields: who owns fields, and by which operation.
type Manager struct {
	Name        string    `json:"manager"`
	Operation   string    `json:"operation"` // "Apply" or "Update"
	Subresource string    `json:"subresource,omitempty"`
	APIVersion  string    `json:"apiVersion"`
	Time        time.Time `json:"time,omitzero"` // of its last change
	Fields      int       `json:"fields"`        // how many it owns

	label string
	owned managedfields.Entry
}

// Object is a version of an object with its owners.
type Object struct {
	Content  map[string]any
	Managers []Manager
}

// Read reads the managed fields of an object; nil makes an Object without fields.
func Read(content map[string]any) (Object, error) {
	o := Object{Content: content}
	entries, err := managedfields.Read(content)
	if err != nil {
		return o, err
	}
	for _, entry := range entries {
		m := Manager{
			Name: entry.Manager, Operation: string(entry.Operation), Subresource: entry.Subresource,
			APIVersion: entry.APIVersion, Fields: entry.Leaves.Size(), owned: entry,
		}
		if entry.Time != nil {
			m.Time = entry.Time.UTC()
		}
		o.Managers = append(o.Managers, m)
	}
	for i := range o.Managers {
		o.Managers[i].label = o.managerLabel(o.Managers[i])
	}
	// EKS first, then who came last.
	slices.SortStableFunc(o.Managers, func(a, b Manager) int {
		if (a.Name == EKS) != (b.Name == EKS) {
			if a.Name == EKS {
				return -1
			}
			return 1
		}
		return b.Time.Compare(a.Time)
	})
	return o, nil
}

// managerLabel returns the label of a manager in the margin: its name, and what distinguishes its entries.
func (o Object) managerLabel(m Manager) string {
	label := m.Name
	if m.Subresource != "" {
		label += "/" + m.Subresource
	}
	for _, other := range o.Managers {
		if other.Name == m.Name && other.Subresource == m.Subresource && other.Operation != m.Operation {
			return label + " (" + strings.ToLower(m.Operation) + ")"
		}
	}
	return label
}

// ownerLabels returns the labels of the owners of exactly that field. Where it has none, it returns those of the owners
// of something atomic that contains it: the owner of a map such as .data that is not atomic owns the map's existence,
// not the values that others put into it.
func (o Object) ownerLabels(path fieldpath.Path) []string {
	var exact, around []string
	for _, m := range o.Managers {
		switch {
		case m.owned.Owns(path):
			exact = append(exact, m.label)
		case m.owned.OwnsAround(path):
			around = append(around, m.label)
		}
	}
	if exact != nil {
		return exact
	}
	return around
}

// isAtomic reports whether a manager owns a field with all that is in it, as a whole.
func (o Object) isAtomic(path fieldpath.Path) bool {
	for _, m := range o.Managers {
		if m.owned.Leaves.Has(path) {
			return true
		}
	}
	return false
}

// isOwnedByEKS reports whether EKS is among the owners that owners gives.
func (o Object) isOwnedByEKS(labels []string) bool {
	for _, m := range o.Managers {
		if m.Name == EKS && slices.Contains(labels, m.label) {
			return true
		}
	}
	return false
}

// hidden are the fields that the API server keeps, and the note of kubectl: not for anybody to own.
var hidden = map[string]bool{
	".metadata.creationTimestamp": true, ".metadata.deletionGracePeriodSeconds": true,
	".metadata.deletionTimestamp": true,
	".metadata.generation":        true, ".metadata.managedFields": true, ".metadata.resourceVersion": true,
	".metadata.selfLink": true, ".metadata.uid": true,
	".metadata.annotations.deployment.kubernetes.io/revision":                true,
	".metadata.annotations.deprecated.daemonset.template.generation":         true,
	".metadata.annotations.kubectl.kubernetes.io/last-applied-configuration": true,
}

// compactJSON returns a value as compact JSON.
func compactJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
