package fields

import "fmt"

// Question is the request of `coracle fields` to the daemon.
type Question struct {
	Account, Region string // where a cluster of that name is looked for first
	Cluster         string // its name or ARN; empty for the only one
	// Type is a type of object as for kubectl, "daemonset", "ds" or "boats.harbour.example". Without it the question is
	// about the whole of an add-on.
	Type, Namespace, Name string
	// WhatIf asks what an add-on would change.
	WhatIf *WhatIf `json:",omitempty"`
}

// WhatIf is a request to create or update an add-on that is not made.
type WhatIf struct {
	// Addon is its name; empty for the one that has the object.
	Addon string
	// Version is empty for the one that there is, or the default of the cluster.
	Version   string
	Conflicts string // NONE, OVERWRITE or PRESERVE
	// Configuration and Role are nil when the request would not speak of them.
	Configuration, Role *string
}

// Answer is the daemon's.
type Answer struct {
	Account, Region, Cluster string
	// Resource is the type of the object by its singular name, "daemonset"; empty when the question was about the whole
	// of an add-on.
	Resource, Namespace, Name string
	// Content is the object with its managed fields; nil when there is none, and an add-on would make it.
	Content map[string]any
	// Addon is the one that has the object, if any.
	Addon *Addon
	// Plan is the answer to WhatIf.
	Plan *Plan `json:",omitempty"`
}

// Addon is an add-on of a cluster.
type Addon struct{ Name, Version string }

// Plan is the outcome that a request would have.
type Plan struct {
	Request string // "create-addon" or "update-addon"
	Addon   string
	// From is the version that there is, empty with create-addon; Version the one that would be.
	From, Version string
	Conflicts     string // NONE, OVERWRITE or PRESERVE
	// Objects are those of the add-on.
	Objects []Planned
}

// Planned is the outcome that a request would have for one object.
type Planned struct {
	Resource             string // "daemonset"
	APIVersion, Kind     string
	Namespace, Name      string
	Live, Result, Wanted map[string]any // what there is, what would be, and EKS's configuration; each may be nil
	Conflicts            []Conflict
	Kept                 []string // paths that are left to their owners
	Refused              string   // why it cannot be applied at all
}

// Conflict is a field that EKS and another manager want to have different values.
type Conflict struct{ Manager, Path string }

// isConflictFatal reports whether conflicts make the request fail: with NONE, and with PRESERVE where there is no
// add-on yet whose values could be preserved. https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAddon.html
func (p Plan) isConflictFatal() bool {
	return p.Conflicts == "NONE" || p.Conflicts == "PRESERVE" && p.Request == "create-addon"
}

// Fails reports whether the request would change nothing, because of conflicts or because an object is refused.
func (p Plan) Fails() bool {
	for _, o := range p.Objects {
		if o.Refused != "" || len(o.Conflicts) > 0 && p.isConflictFatal() {
			return true
		}
	}
	return false
}

// Tree returns the object as the plan leaves it, with the change of each field. It marks conflicts and values that are
// preserved.
func (p Plan) Tree(o Planned, all bool) (*Field, error) {
	live, err := Read(o.Live)
	if err != nil {
		return nil, err
	}
	after := live
	switch {
	case p.Fails():
	case o.Result != nil:
		if after, err = Read(o.Result); err != nil {
			return nil, err
		}
	case o.Wanted == nil:
		after = Object{} // a newer version has no such object
	case o.Live == nil:
		after = Object{Content: o.Wanted} // it can be tried only once other objects are there
	}
	tree := Compare(live, after, all)
	if o.Wanted != nil {
		c := comparison{before: live, after: live, keys: map[string][]string{}, sets: map[string]bool{}}
		c.learnAll()
		wanted := map[string]any{}
		c.compareField(nil, nil, o.Wanted).forEachField(func(f *Field) { wanted[f.Path] = f.fullValue() })
		conflicts, kept := map[string]bool{}, map[string]bool{}
		for _, x := range o.Conflicts {
			conflicts[x.Path] = true
		}
		for _, path := range o.Kept {
			kept[path] = true
		}
		tree.forEachField(func(f *Field) {
			// What is overwritten is a change like others.
			f.Conflict = conflicts[f.Path] && p.isConflictFatal()
			f.Kept = kept[f.Path] || conflicts[f.Path] && p.Conflicts == "PRESERVE" && !p.isConflictFatal()
			if f.Conflict || f.Kept {
				f.Wanted = wanted[f.Path]
			}
		})
	}
	return tree, nil
}

// Changes counts the fields that change in value, and those that only change owners.
func (f *Field) Changes() (values, owners int) {
	f.forEachField(func(f *Field) {
		if len(f.Fields) > 0 {
			return
		}
		switch {
		case f.Change != Same:
			values++
		case fmt.Sprint(f.Owners) != fmt.Sprint(f.Before):
			owners++
		}
	})
	return values, owners
}

// forEachField visits the field and all that are in it.
func (f *Field) forEachField(visit func(*Field)) {
	visit(f)
	for _, child := range f.Fields {
		child.forEachField(visit)
	}
}

// fullValue returns the value of a field with everything in it.
func (f *Field) fullValue() any {
	switch {
	case len(f.Fields) == 0:
		return f.Value
	case f.List:
		var list []any
		for _, child := range f.Fields {
			list = append(list, child.fullValue())
		}
		return list
	}
	m := map[string]any{}
	for _, child := range f.Fields {
		m[child.Name] = child.fullValue()
	}
	return m
}
