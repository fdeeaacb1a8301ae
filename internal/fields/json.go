package fields

import (
	"encoding/json"
	"io"
	"slices"
)

// PrintJSON writes an answer as one JSON object: what Print prints, for programs.
func PrintJSON(w io.Writer, a Answer, all bool) error {
	out := output{Account: a.Account, Region: a.Region, Cluster: a.Cluster}
	if a.Resource != "" {
		tree, object, err := buildTree(a, all)
		if err != nil {
			return err
		}
		version, _ := object.Content["apiVersion"].(string)
		kind, _ := object.Content["kind"].(string)
		out.Object = &reference{APIVersion: version, Kind: kind, Resource: a.Resource, Namespace: a.Namespace,
			Name: a.Name, Exists: a.Content != nil}
		out.Managers = object.Managers
		tree.forEachField(func(f *Field) {
			if len(f.Fields) == 0 || len(f.Owners) > 0 && len(f.Path) > 0 {
				out.Fields = append(out.Fields, entryOf(f))
			}
		})
	}
	if a.Addon != nil {
		out.Addon = &addonReference{a.Addon.Name, a.Addon.Version}
	}
	if p := a.Plan; p != nil {
		out.Plan = &planDocument{Request: p.Request, Addon: p.Addon, From: p.From, Version: p.Version,
			Conflicts: p.Conflicts, Fails: p.Fails()}
		for _, o := range p.Objects {
			action, err := p.Action(o)
			if err != nil {
				return err
			}
			d := plannedDocument{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name,
				Action: action, Kept: o.Kept, Refused: o.Refused}
			for _, c := range o.Conflicts {
				d.Conflicts = append(d.Conflicts, conflictDocument(c))
			}
			out.Plan.Objects = append(out.Plan.Objects, d)
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(out)
}

// The parts of the JSON. Names are kept; more may come.
type (
	output struct {
		Account  string          `json:"account"`
		Region   string          `json:"region"`
		Cluster  string          `json:"cluster"`
		Object   *reference      `json:"object,omitempty"`
		Addon    *addonReference `json:"addon,omitempty"`
		Managers []Manager       `json:"managers,omitempty"`
		Fields   []entry         `json:"fields,omitempty"`
		Plan     *planDocument   `json:"plan,omitempty"`
	}
	reference struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Resource   string `json:"resource"`
		Namespace  string `json:"namespace,omitempty"`
		Name       string `json:"name"`
		Exists     bool   `json:"exists"`
	}
	addonReference struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	entry struct {
		Path    string   `json:"path"`
		Value   any      `json:"value,omitempty"`
		Owners  []string `json:"owners,omitempty"`
		Managed Managed  `json:"eks,omitempty"`
		Change  Change   `json:"change,omitempty"`
		From    any      `json:"from,omitempty"`
		// OwnersBefore are there when others owned the field before the change.
		OwnersBefore []string `json:"ownersBefore,omitempty"`
		Conflict     bool     `json:"conflict,omitempty"`
		Kept         bool     `json:"kept,omitempty"`
		Wanted       any      `json:"wanted,omitempty"`
	}
	planDocument struct {
		Request   string            `json:"request"`
		Addon     string            `json:"addon"`
		From      string            `json:"from,omitempty"`
		Version   string            `json:"version"`
		Conflicts string            `json:"resolveConflicts"`
		Fails     bool              `json:"fails"`
		Objects   []plannedDocument `json:"objects"`
	}
	plannedDocument struct {
		APIVersion string             `json:"apiVersion"`
		Kind       string             `json:"kind"`
		Namespace  string             `json:"namespace,omitempty"`
		Name       string             `json:"name"`
		Action     string             `json:"action"`
		Conflicts  []conflictDocument `json:"conflicts,omitempty"`
		Kept       []string           `json:"kept,omitempty"`
		Refused    string             `json:"refused,omitempty"`
	}
	conflictDocument struct {
		Manager string `json:"manager"`
		Path    string `json:"path"`
	}
)

func entryOf(f *Field) entry {
	e := entry{Path: f.Path, Value: f.Value, Owners: f.Owners, Managed: f.Managed, Change: f.Change,
		Conflict: f.Conflict, Kept: f.Kept, Wanted: f.Wanted}
	if f.Change != Same {
		e.From = f.From
	}
	if !slices.Equal(f.Before, f.Owners) {
		e.OwnersBefore = f.Before
	}
	return e
}
