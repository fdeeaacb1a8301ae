package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Target is the subject of a timeline: an object, or all objects of a type.
type Target struct {
	Kind      string   // "DaemonSet"; the word as given when upstream has no such kind
	Resources []string // what objectRef.resource may be
	Group     string   // of objectRef.apiGroup, when AnyGroup is false
	AnyGroup  bool
	Namespace string // "" is all namespaces
	Scoped    bool   // the type is known to live in namespaces
	Cluster   bool   // the type is known to live in none
	Name      string // "" is all objects of the type
}

// Targets reads kubectl's forms: TYPE, TYPE/NAME..., TYPE NAME..., TYPE,TYPE. A type is a plural, a
// singular or a short name, in any case, with its group behind a dot if need be. Namespace "" means all.
func Targets(args []string, namespace string) ([]Target, error) {
	if len(args) == 0 {
		return nil,
			errors.New("which object? Name it as for kubectl: daemonset/aws-node, or deployment web, or just pods")
	}
	for _, a := range args {
		if strings.ContainsFunc(a, func(r rune) bool {
			return r <= ' ' || r == '"' || r == '\'' || r == '\\' ||
				r == '%'
		}) {
			return nil, fmt.Errorf("%q is no name of an object", a)
		}
	}
	slashed := strings.Contains(args[0], "/")
	for _, a := range args {
		if strings.Contains(a, "/") != slashed {
			return nil,
				fmt.Errorf(
					"%q: either all arguments are TYPE/NAME, or the first is a TYPE and the others are names of it",
					strings.Join(args, " "))
		}
	}
	var all []Target
	if slashed {
		for _, a := range args {
			word, name, _ := strings.Cut(a, "/")
			t, err := typeTarget(word, namespace)
			if err != nil {
				return nil, err
			}
			if name == "" || strings.Contains(name, "/") {
				return nil, fmt.Errorf("%q is not TYPE/NAME", a)
			}
			t.Name = name
			all = append(all, t)
		}
		return all, nil
	}
	for word := range strings.SplitSeq(args[0], ",") {
		t, err := typeTarget(word, namespace)
		if err != nil {
			return nil, err
		}
		if len(args) == 1 {
			all = append(all, t)
		}
		for _, name := range args[1:] {
			t.Name = name
			all = append(all, t)
		}
	}
	return all, nil
}

func typeTarget(word, namespace string) (Target, error) {
	lower := strings.ToLower(word)
	if lower == "" || strings.IndexFunc(lower, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.')
	}) >= 0 {
		return Target{}, fmt.Errorf("%q is not a type such as pods, deploy or boats.harbour.example", word)
	}
	name, group, qualified := strings.Cut(lower, ".")
	k, known := findKind(name)
	if known && qualified && group != k.Group {
		// deployments.v1.apps, as kubectl takes it; or the same word in another group.
		if _, rest, ok := strings.Cut(group, "."); ok && rest == k.Group {
			group = rest
		} else {
			known = false
		}
	}
	if known {
		t := Target{Kind: k.Kind, Resources: []string{k.Resource}, Group: k.Group, Namespace: namespace,
			Scoped: !k.Cluster, Cluster: k.Cluster}
		if k.Cluster {
			t.Namespace = ""
		}
		return t, nil
	}
	return Target{Kind: word, Resources: plurals(name), Group: group, AnyGroup: !qualified, Namespace: namespace}, nil
}

// String names the target as kubectl would.
func (t Target) String() string {
	s := strings.ToLower(t.Kind)
	if t.Name != "" {
		s += "/" + t.Name
	}
	return s
}

// Where returns the target in words: "daemonset/aws-node in namespace kube-system".
func (t Target) Where() string {
	switch {
	case t.Cluster:
		return t.String()
	case t.Namespace == "":
		return t.String() + " in all namespaces"
	}
	return t.String() + " in namespace " + t.Namespace
}

// matches reports whether an object is the target's. Events about whole collections have no name.
func (t Target) matches(o Object) bool {
	return slices.Contains(t.Resources, o.Resource) &&
		(t.AnyGroup || t.Group == o.Group) &&
		(t.Namespace == "" || t.Namespace == o.Namespace || !t.Scoped && o.Namespace == "") &&
		(t.Name == "" || t.Name == o.Name)
}
