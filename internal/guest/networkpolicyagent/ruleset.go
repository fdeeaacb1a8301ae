package networkpolicyagent

import (
	"crypto/sha1" //nolint:gosec // as the CNI plugin derives the names of interfaces
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// ruleset is what the kernel is to enforce.
type ruleset struct {
	node   netip.Addr
	chains map[string]direction // by name, which follows from the content
	// ingress and egress have the names of chains by that of an interface.
	ingress, egress map[string]string
	logFlows        bool
}

// vethPrefixes are those of the host's end of the interfaces of pods; the second is of pods with security groups.
var vethPrefixes = []string{"eni", "vlan"}

// linksOf returns the names that the CNI plugin gives the host's end of a pod's interface.
func linksOf(pod podRef) (names []string) {
	sum := sha1.Sum([]byte(pod.Namespace + "." + pod.Name)) //nolint:gosec // see the import
	for _, prefix := range vethPrefixes {
		names = append(names, prefix+hex.EncodeToString(sum[:])[:11])
	}
	return names
}

// design returns the rules for the pods of a node.
func design(node netip.Addr, pods map[podRef]policies, logFlows bool) *ruleset {
	r := &ruleset{node: node, chains: map[string]direction{}, ingress: map[string]string{}, egress: map[string]string{},
		logFlows: logFlows}
	names := map[string]string{} // of chains, by their kind and the key of policies
	for pod, p := range pods {
		ingress, egress := r.add(names, "ingress", p.key, p.ingress), r.add(names, "egress", p.key, p.egress)
		for _, link := range linksOf(pod) {
			if ingress != "" {
				r.ingress[link] = ingress
			}
			if egress != "" {
				r.egress[link] = egress
			}
		}
	}
	return r
}

// add adds a chain, and returns its name; "" where there is nothing to decide.
func (r *ruleset) add(names map[string]string, kind, key string, d direction) string {
	if !d.decides() {
		return ""
	}
	name, known := names[kind+key]
	if !known || key == "" {
		name = kind + "-" + d.digest()
		names[kind+key] = name
		r.chains[name] = d
	}
	return name
}

// digest identifies the content.
func (d direction) digest() string {
	h := sha256.New()
	add := func(r rule) {
		fmt.Fprintln(h, r.protocol, len(r.addresses), len(r.ports))
		for _, s := range r.addresses {
			h.Write(s.first.AsSlice())
			h.Write(s.last.AsSlice())
		}
		for _, s := range r.ports {
			h.Write([]byte{byte(s.first >> 8), byte(s.first), byte(s.last >> 8), byte(s.last)})
		}
	}
	fmt.Fprintln(h, d.isolated, d.deny, len(d.admin), len(d.allow), len(d.baseline))
	for _, tier := range [][]clusterRule{d.admin, d.baseline} {
		for _, r := range tier {
			fmt.Fprintln(h, r.action)
			add(r.rule)
		}
	}
	for _, r := range d.allow {
		add(r)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// digest identifies the rules: chains are named after their content.
func (r *ruleset) digest() string {
	var b strings.Builder
	fmt.Fprintln(&b, r.node, r.logFlows)
	for _, links := range []map[string]string{r.ingress, r.egress} {
		for _, link := range slices.Sorted(maps.Keys(links)) {
			fmt.Fprintln(&b, link, links[link])
		}
	}
	return digestOf(b.String())
}
