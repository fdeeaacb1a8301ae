package networkpolicy

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

const (
	// maxEntries is the maximum number of entries of a policy, with their exceptions and ports.
	maxEntries = 100_000
	// maxSteps bounds the work of resolving a policy, in comparisons: that of a few seconds.
	maxSteps = 20_000_000
	// checkEvery is the number of steps after which the context is asked.
	checkEvery = 1 << 12
	// maxKept bounds what is kept of services for the other rules and peers of a policy.
	maxKept = 1 << 18
)

// resolver resolves one policy while its view is locked. Once it has an error, it resolves nothing more.
type resolver struct {
	*view
	home           string // the namespace of the policy
	check          func() error
	steps, entries int
	err            error
	// behind has the pods of services, and kept the number of all that is kept.
	behind map[*service][]*pod
	kept   int

	// A namespace that is not the policy's own has a quarter of the steps, as others write what is there, but for rules
	// that deny: nobody is to get out of those. current is the one that steps are about, and leftOut says which have more.
	current string
	denies  bool
	spent   map[string]int
	leftOut error
}

func newResolver(v *view, home string, check func() error) *resolver {
	return &resolver{view: v, home: home, check: check, err: check(), behind: map[*service][]*pod{},
		spent: map[string]int{}}
}

// enter has the steps that follow count for a namespace, and reports whether the resolver is to go on with it.
func (r *resolver) enter(namespace string) bool {
	r.current = namespace
	return r.step(0)
}

// step counts comparisons, and reports whether the resolver is to go on.
func (r *resolver) step(n int) bool {
	if r.err != nil {
		return false
	}
	if r.current != r.home && !r.denies {
		if r.spent[r.current] += n; r.spent[r.current] > maxSteps/4 {
			r.leftOut = tooLarge("the pods and services of namespace %q are left out: to compare them takes more than %d steps",
				r.current, maxSteps/4)
			return false
		}
	}
	before := r.steps
	r.steps += n
	switch {
	case r.steps > maxSteps:
		r.err = tooLarge("its rules, and the pods and services that they are about, are too many: to compare them "+
			"takes more than %d steps", maxSteps)
	case r.steps/checkEvery != before/checkEvery:
		r.err = r.check()
	}
	return r.err == nil
}

// count counts entries, exceptions and ports, and reports whether the resolver is to go on.
func (r *resolver) count(n int) bool {
	if r.err != nil {
		return false
	}
	if r.entries += n; r.entries > maxEntries {
		r.err = tooLarge("it comes to more than %d addresses, exceptions and ports", maxEntries)
	}
	return r.err == nil
}

// keep reports whether so many values may be kept.
func (r *resolver) keep(n int) bool {
	if r.kept+n > maxKept {
		return false
	}
	r.kept += n
	return true
}

// entries has one entry for each block with its exceptions, with the ports of all that were added.
type entries struct {
	of  *resolver
	at  map[string]int
	all []networkpolicy.EndpointInfo
}

func (r *resolver) gather() *entries { return &entries{of: r, at: map[string]int{}} }

// add adds a block at ports; no ports are all of them. Exceptions and ports are in order.
func (g *entries) add(block string, except []string, ports []networkpolicy.Port) {
	key := keyOfBlock(block, except)
	i, there := g.at[key]
	if !there {
		if g.of.count(1 + len(except) + len(ports)) {
			g.at[key] = len(g.all)
			g.all = append(g.all, networkpolicy.EndpointInfo{CIDR: block, Except: except, Ports: ports})
		}
		return
	}
	was := g.all[i].Ports
	switch {
	case len(was) == 0 || len(ports) == len(was) && &ports[0] == &was[0]:
	case len(ports) == 0:
		g.of.entries -= len(was)
		g.all[i].Ports = nil
	case g.of.step(len(was) + len(ports)):
		together := unite(was, ports)
		if g.of.count(len(together) - len(was)) {
			g.all[i].Ports = together
		}
	}
}

// sorted returns the entries in order.
func (g *entries) sorted() []networkpolicy.EndpointInfo {
	slices.SortFunc(g.all, func(a, b networkpolicy.EndpointInfo) int {
		return cmp.Or(cmp.Compare(a.CIDR, b.CIDR), slices.Compare(a.Except, b.Except))
	})
	return g.all
}

func comparePorts(a, b networkpolicy.Port) int {
	protocol := func(p networkpolicy.Port) corev1.Protocol {
		if p.Protocol == nil {
			return corev1.ProtocolTCP
		}
		return *p.Protocol
	}
	number := func(n *int32) int32 {
		if n == nil {
			return -1
		}
		return *n
	}
	return cmp.Or(cmp.Compare(protocol(a), protocol(b)), cmp.Compare(number(a.Port), number(b.Port)),
		cmp.Compare(number(a.EndPort), number(b.EndPort)))
}

// unique returns the ports in order, each once.
func unique(ports []networkpolicy.Port) []networkpolicy.Port {
	slices.SortFunc(ports, comparePorts)
	return slices.CompactFunc(ports, func(a, b networkpolicy.Port) bool { return comparePorts(a, b) == 0 })
}

// unite returns the ports of both, which are in order. What has all of the other's is returned itself.
func unite(a, b []networkpolicy.Port) []networkpolicy.Port {
	var out []networkpolicy.Port
	i, j, shared := 0, 0, 0
	for i < len(a) && j < len(b) {
		switch order := comparePorts(a[i], b[j]); {
		case order < 0:
			out = append(out, a[i])
			i++
		case order > 0:
			out = append(out, b[j])
			j++
		default:
			out = append(out, a[i])
			i, j, shared = i+1, j+1, shared+1
		}
	}
	switch shared {
	case len(b):
		return a
	case len(a):
		return b
	}
	return append(append(out, a[i:]...), b[j:]...)
}
