package nodeimage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pault.ag/go/debian/dependency"

	"github.com/coracle-eks/coracle/node"
)

// Resolve returns the wanted packages of an index and all that they depend on, but for the unwanted ones, sorted by
// name. None is older than the pinned one of its name: an old index is signed, too.
func Resolve(index Index, pinned []node.Package, wanted, unwanted []string) ([]node.Package, error) {
	providers := make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(index)) {
		for provided := range strings.SplitSeq(index[name].Values["Provides"], ",") {
			if fields := strings.Fields(provided); len(fields) > 0 {
				providers[fields[0]] = append(providers[fields[0]], name)
			}
		}
	}
	chosen := make(map[string]bool)
	queue := slices.Clone(wanted)
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		p, ok := index[name]
		if !ok {
			return nil, fmt.Errorf("there is no package %s", name)
		}
		if chosen[name] {
			continue
		}
		chosen[name] = true
		depends, preDepends := p.GetDepends(), p.GetPreDepends()
		for _, relation := range slices.Concat(depends.Relations, preDepends.Relations) {
			next, err := choose(relation, index, providers, chosen, unwanted)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			queue = append(queue, next...)
		}
	}
	for _, p := range pinned {
		if chosen[p.Name] {
			if err := replaces(index[p.Name], p); err != nil {
				return nil, err
			}
		}
	}
	packages := make([]node.Package, 0, len(chosen))
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		packages = append(packages, lock(index[name]))
	}
	return packages, nil
}

// choose returns the package that satisfies a relation, unless one that is chosen already does, or an unwanted one.
func choose(relation dependency.Relation, index Index, providers map[string][]string, chosen map[string]bool,
	unwanted []string) ([]string, error) {
	var candidates []string
	for _, possibility := range relation.Possibilities {
		all := append([]string{possibility.Name}, providers[possibility.Name]...)
		if slices.ContainsFunc(all, func(name string) bool { return chosen[name] || slices.Contains(unwanted, name) }) {
			return nil, nil
		}
		candidates = append(candidates, all...)
	}
	for _, name := range candidates {
		if _, ok := index[name]; ok {
			return []string{name}, nil
		}
	}
	return nil, fmt.Errorf("no package satisfies %v", candidates)
}
